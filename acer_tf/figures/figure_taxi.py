"""Taxi with and without its action masks: ACER in gymnasium's Taxi-v4, over the valid actions alone and over all.

python -m acer_tf figure_taxi --processes=2
"""

from acer_tf.reproduction.curves import RecordedRuns, last_return
from acer_tf.reproduction.figure import Figure, Method
from acer_tf.reproduction.report.output import Drawing, Report, Table, learning_curves, mean_with_error, number, numbers

_STEPS = 100_000
_SETTINGS = {"agent": "acer", "preset": "classic"}


def report(recorded: RecordedRuns) -> Report:
    """A table row per method, and the learning curves."""
    rows = []
    for key, method in recorded.methods.items():
        for env, runs in recorded.by_env(key).items():
            steps, *score = recorded.result(key, env)
            row = [method.label, recorded.finished(key, env), number(steps, 0), mean_with_error(*score)]
            rows.append([*row, numbers([last_return(run) for run in runs])])
    head = "method, cells finished, steps, return, last 100 episodes of each seed"
    caption = (
        "Return: mean of the episodes that ended in the last 10 % of training, by the policy that explores; mean over "
        "seeds ± standard error. Beside it, the mean of the last 100 episodes of each seed."
    )
    figure = learning_curves(recorded.by_label(), lambda env: ())
    drawn = "Means over seeds with standard errors, up to three runs thin."
    return Report({"table": Table(caption, head.split(", "), rows)}, {"figure": Drawing(drawn, figure)})


FIGURE = Figure(
    __name__,
    order=80,
    source="Action masks",
    title="Taxi with and without its action masks",
    text=(
        "Nothing of this was published: gymnasium's Taxi (Dietterich 2000) tells which moves do not run into a wall, "
        "and where a passenger can be picked up or dropped. ACER over the valid actions alone, beside ACER over all "
        "six; everything else is that of preset classic. 500 states, one-hot; a step costs 1, "
        "a wrong pick-up or drop-off 10, and the right drop-off gives 20. An episode is cut after 200 steps.",
    ),
    envs=("Taxi-v4",),
    methods={
        "masked": Method("ACER with masks", _SETTINGS, _STEPS),
        "unmasked": Method("ACER without masks", {**_SETTINGS, "action_masks": False}, _STEPS),
    },
    seeds=5,
    report=report,
)
