"""The update rules, one file each."""
