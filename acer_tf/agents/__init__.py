"""The update rules: one file each, one compiled update() each."""
