from acer_tf.__main__ import script

script(__file__)
