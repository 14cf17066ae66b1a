"""The scripts: each is a thin page of absl flags over acer_tf, run as `python -m experiments.<name>`."""

import os

# TensorFlow reads this when it is first imported, and its start-up notices would bury what a script says.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
