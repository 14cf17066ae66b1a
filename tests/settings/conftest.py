"""A run that most tests of settings begin with."""

from acer_tf.settings import make_settings


def pong(**given):
    return make_settings({"env": "atari/Pong", **given})
