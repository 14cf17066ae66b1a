"""Training: a run from its settings to its policy, with its actors, collector, loop and device."""
