"""DI-engine's ACER on Pong: the loop of its ding.entry.serial_pipeline without the evaluation.

Its own Pong configuration, but with the Nature network, our batch, a smaller memory, and the faster of its two
environment managers.
"""

from __future__ import annotations

import argparse
import copy
import functools
import importlib.metadata
import json
import os
import time
from typing import Any

import old_gym
import torch
from ding.config import compile_config
from ding.envs import create_env_manager, get_vec_env_setting
from ding.policy import create_policy
from ding.utils import set_pkg_seed
from ding.worker import BaseLearner, BaseSerialCommander, create_buffer, create_serial_collector
from dizoo.atari.config.serial.pong.pong_acer_config import create_config, main_config
from tensorboardX import SummaryWriter

ENVS, UNROLL, UPDATES, WARM_UP = 16, 20, 5, 2


def configuration(manager: str, seed: int) -> Any:
    config, create = copy.deepcopy((main_config, create_config))
    config.exp_name = f"di_engine_{manager}"
    config.env.update(collector_env_num=ENVS, env_id=old_gym.NAME)
    config.policy.cuda = False
    config.policy.model.update(
        encoder_hidden_size_list=[32, 64, 64, 512], actor_head_layer_num=0, critic_head_layer_num=0
    )
    # Its ACER reads these two; the packaged configuration sets policy.unroll_len, which nothing reads.
    config.policy.learn.unroll_len = config.policy.collect.unroll_len = UNROLL
    config.policy.learn.update(update_per_collect=UPDATES, batch_size=ENVS)
    config.policy.collect.n_sample = ENVS
    config.policy.other.replay_buffer.replay_buffer_size = 500
    create.env_manager.type = manager
    create.policy.type = "acer_command"
    return compile_config(config, seed=seed, auto=True, create_cfg=create, save_cfg=False)


def measure(manager: str, seconds: float, seed: int) -> tuple[int, float]:
    """Steps and seconds of whole rounds: a collection and its updates."""
    config = configuration(manager, seed)
    make, env_configs, _ = get_vec_env_setting(config.env)
    envs = create_env_manager(config.env.manager, [functools.partial(make, cfg=c) for c in env_configs])
    envs.seed(seed)
    set_pkg_seed(seed, use_cuda=False)
    policy, name = create_policy(config.policy, enable_field=["learn", "collect", "command"]), config.exp_name
    writer = SummaryWriter(name)
    learner = BaseLearner(config.policy.learn.learner, policy.learn_mode, writer, exp_name=name)
    collector = create_serial_collector(
        config.policy.collect.collector, env=envs, policy=policy.collect_mode, tb_logger=writer, exp_name=name
    )
    buffer = create_buffer(config.policy.other.replay_buffer, tb_logger=writer, exp_name=name)
    commander = BaseSerialCommander(
        config.policy.other.commander, learner, collector, None, buffer, policy.command_mode
    )
    learner.call_hook("before_run")
    rounds, start = 0, (0.0, 0)
    while rounds <= WARM_UP or time.monotonic() - start[0] < seconds:
        if rounds == WARM_UP:
            start = time.monotonic(), collector.envstep
        samples = collector.collect(train_iter=learner.train_iter, policy_kwargs=commander.step())
        buffer.push(samples, cur_collector_envstep=collector.envstep)
        for _ in range(UPDATES):
            learner.train(buffer.sample(ENVS, learner.train_iter), collector.envstep)
        rounds += 1
    result = collector.envstep - start[1], time.monotonic() - start[0]
    collector.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    old_gym.register()
    trials = {manager: measure(manager, args.seconds / 4, args.seed) for manager in ("base", "subprocess")}
    faster = max(trials, key=lambda manager: trials[manager][0] / trials[manager][1])
    steps, seconds = measure(faster, args.seconds, args.seed)
    print(
        json.dumps(
            {
                "steps": steps,
                "seconds": seconds,
                "steps_per_second": steps / seconds,
                "versions": {n: importlib.metadata.version(n) for n in ("DI-engine", "torch", "gym", "ale-py")},
                "settings": f"{ENVS} environments ({faster} manager), unroll {UNROLL}, {UPDATES} updates of {ENVS} "
                "trajectories, all from replay; by its design one network for the actor and one for the critic",
            }
        )
    )


if __name__ == "__main__":
    main()
