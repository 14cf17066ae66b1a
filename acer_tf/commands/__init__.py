"""What `python -m acer_tf COMMAND` does: absl flags, and what follows from them.

`pipeline` is the page of all figures and tables that are made by sweeps.
"""

import os

# TensorFlow reads this at its first import; its start-up notices would bury what a command says.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
