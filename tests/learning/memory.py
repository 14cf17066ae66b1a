"""Registers the tasks of test_memory.py: `--env=tests.learning.memory:Cue-v0`, `:HiddenCartPole-v0`, `:Aim-v0`."""

import gymnasium

gymnasium.register("Cue-v0", "tests.learning.worlds:CueEnvironment")
gymnasium.register("Aim-v0", "tests.learning.worlds:AimEnvironment")
gymnasium.register("HiddenCartPole-v0", "tests.learning.worlds:HiddenVelocities", max_episode_steps=500)
