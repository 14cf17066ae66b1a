"""What figures on control tasks share: tasks and lengths, the report of curves beside the paper's, and texts."""

from collections.abc import Callable, Mapping, Sequence

from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.figure import Method
from acer_tf.reproduction.published import PublishedCurve, published_curves
from acer_tf.reproduction.report.output import Drawing, Report, Table, learning_curves, mean_with_error, number

# The steps at which the curves of the paper's Figure 3 end: those of methods with replay, and those of A3C's variants.
REPLAY_STEPS = {
    "control/walker2d": 124_000_000,
    "control/fish": 79_000_000,
    "control/cartpole_swingup": 29_000_000,
    "control/humanoid": 79_000_000,
    "control/reacher3": 9_000_000,
    "control/cheetah": 79_000_000,
}
ON_POLICY_STEPS = {env: 2 * steps + 1_000_000 for env, steps in REPLAY_STEPS.items()}
TASKS = tuple(REPLAY_STEPS)

OURS = "mean raw return of the episodes that ended in the last 10 % of the steps done, by the policy that explores"
CAVEAT = (
    "The paper's task models are not public, and rewards differ: orders can be compared, numbers only where a reward "
    "is a count, as in reacher3."
)
DEVIATIONS = (
    "Deviations: the paper's task models, network sizes, optimiser and number of threads are not published; tasks are "
    "built on this package's own models after its appendix E, observations are normalised by their running mean and "
    "variance, and 16 environments take the threads' turns."
)
ONE_SETTING = (
    "One setting of learning rate and δ (1.4e-4, 0.42) stands for the paper's best five of thirty; "
    "figure5_sensitivity runs those that it drew."
)


def curves_report(
    recorded: RecordedRuns, published: Callable[[str], Sequence[PublishedCurve]] = published_curves
) -> Report:
    """A table row per task and method, and the learning curves, both beside the `published` ones of a task."""
    rows = []
    for env in recorded.envs:
        theirs = by_method(published(env))
        for key, method in recorded.methods.items():
            curve, (steps, *ours) = theirs[method.published], recorded.result(key, env)
            row = [env, method.label, recorded.finished(key, env), number(steps, 0), mean_with_error(*ours)]
            rows.append([*row, number(curve.at(steps)), end_of(curve) if recorded.runs(key, env) else ""])
    head = "task, method, cells finished, steps, return, paper at equal steps, paper at its end"
    caption = f"Return: {OURS}; mean over seeds ± standard error, at the steps that all seeds have done. {CAVEAT}"
    figure = learning_curves(recorded.by_label(), published, labels=published_labels(recorded.methods))
    drawn = f"Lines: ours, means over seeds with standard errors; dashed, with their bands: the paper's. {CAVEAT}"
    return Report({"table": Table(caption, head.split(", "), rows)}, {"figure": Drawing(drawn, figure)})


def by_method(curves: Sequence[PublishedCurve]) -> dict[str, PublishedCurve]:
    """Published curves by the name of their method."""
    return {curve.method: curve for curve in curves}


def published_labels(methods: Mapping[str, Method]) -> dict[str, str]:
    """The labels of our methods by the name of the published one."""
    return {method.published: method.label for method in methods.values()}


def end_of(curve: PublishedCurve) -> str:
    """The last return of a published curve, and at which step, as text."""
    return f"{curve.mean[-1]:,.2f} at {curve.steps[-1] / 1e6:,.0f}M"


def returns_at_end(curves: Sequence[PublishedCurve]) -> dict[str, float]:
    """The last return of each published curve, by the name of its method."""
    return {curve.method: float(curve.mean[-1]) for curve in curves}
