"""Ids whose newest version depends on gymnasium's."""

import gymnasium

TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-v"))
