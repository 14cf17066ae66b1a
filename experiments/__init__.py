"""A script for each command: `python experiments/NAME.py [flags]` is `python -m acer_tf NAME [flags]`."""
