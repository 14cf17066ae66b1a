"""A script for each figure, table and other command of `acer_tf`: the same as python -m acer_tf COMMAND."""
