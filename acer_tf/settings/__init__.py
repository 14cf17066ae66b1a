"""The settings of a run: their declarations, presets, update rules, and their form in records. No TensorFlow."""

from acer_tf.settings.settings import Settings, make_settings, setting_types, whole_number

__all__ = ["Settings", "make_settings", "setting_types", "whole_number"]
