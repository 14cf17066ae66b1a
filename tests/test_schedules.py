import pytest

from acer_tf.schedules import linear, progress


def test_beta_by_hand() -> None:
    assert [linear(0.4, 1.0, share) for share in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([0.4, 0.55, 0.7, 1.0])
    assert linear(0.5, 0.0, 0.5) == 0.25
    assert linear(0.7, 0.7, 0.0) == 0.7


@pytest.mark.parametrize(
    ("steps", "total", "share"), [(-5, 10, 0.0), (0, 10, 0.0), (4, 10, 0.4), (30, 10, 1.0), (1, 0, 1.0)]
)
def test_progress_is_a_share_of_the_run(steps: int, total: int, share: float) -> None:
    assert progress(steps, total) == share
