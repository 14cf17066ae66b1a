"""The settings of a run: their declarations, presets, update rules, and their form in records. No TensorFlow."""

from acer_tf.settings.settings import Settings, has_type, make_settings, setting_types

__all__ = ["Settings", "has_type", "make_settings", "setting_types"]
