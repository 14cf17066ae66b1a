"""A run: actors, loop, checkpoints, records, evaluation and export."""
