"""Training: a run from its settings to its policy. The modules, in the order of their calls:

train.py              checks what is asked for, before TensorFlow is imported
resolve.py            what a setting of "auto" stands for
run.py                restores what there is, then collects, learns, writes rows and checkpoints, and exports the policy
device.py, build.py   the device and its threads; network, agent, replay and actors, and the memory that they take
initialize.py         the weights of another run, which a new one may begin with
logged.py             logged episodes, which its replay may begin with
loop.py               Algorithm 1: one iteration after another
collector.py          takes an unroll from all actors, and puts it into the replay
actor.py              steps some of the environments with the policy
acting_threads.py     actors in threads beside the learner
ray_actors.py         actors on a Ray cluster, by way of ray_process.py, ray_driver.py and ray_connection.py
evaluations.py        whole episodes at intervals
reach.py              a notice of rewards out of the critic's reach
export_run.py         apart from a run: its newest checkpoint as a policy
"""
