"""What `python -m acer_tf COMMAND` does: absl flags, and what follows from them.

`pipeline` is the command of all figures and tables that are made by sweeps.
"""
