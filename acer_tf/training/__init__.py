"""A run: settings, actor, loop, checkpoints, records, evaluation and export."""
