"""What `python -m acer_tf COMMAND` does: thin pages of absl flags over the package, one per command."""

import os

# TensorFlow reads this at its first import; its start-up notices would bury what a command says.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
