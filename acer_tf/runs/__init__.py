"""The folder of a run: its lock, records, checkpoints, provenance, progress, and signals to stop."""
