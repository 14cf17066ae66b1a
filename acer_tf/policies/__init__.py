"""Policies: the SavedModel and its reader, export, other formats, evaluation and video."""
