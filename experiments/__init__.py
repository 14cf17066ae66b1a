"""A page per figure and table of the papers, and one per other command of `acer_tf` but verdicts and benchmark.

Each says what it makes, and runs it.
"""
