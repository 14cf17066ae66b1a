import keras
import pytest

from acer_tf.networks.discrete import Network
from acer_tf.types import EnvironmentSpec
from benchmarks.operations import layer_operations, roofline, step_operations, update_operations

PONG = EnvironmentSpec((4, 84, 84), "uint8", stack=4, num_actions=6, frames_per_step=4, observation_scale=255.0)

# By hand: 2 · positions · kernel of 8×8×4→32, 4×4×32→64, 3×3×64→64, 3136→512, and the heads 512→6.
NATURE = [
    2 * 20 * 20 * 8 * 8 * 4 * 32,
    2 * 9 * 9 * 4 * 4 * 32 * 64,
    2 * 7 * 7 * 3 * 3 * 64 * 64,
    2 * 3136 * 512,
    2 * 512 * 6,
    2 * 512 * 6,
]


@pytest.fixture(scope="module")
def nature():
    return Network(PONG, architecture="nature")


def test_the_nature_network_s_operations_are_those_counted_by_hand(nature):
    assert layer_operations(nature) == NATURE


def test_an_update_is_three_passes_and_a_bit(nature):
    forward = sum(NATURE)
    # Online forward of 21 rows and average forward of 20, backward of 20 twice but for the frames' own gradient.
    assert 20 * update_operations(nature, 20) == pytest.approx(
        21 * forward + 20 * forward + 40 * forward - 20 * NATURE[0]
    )
    assert step_operations(nature, 20, 4) == pytest.approx(forward + 5 * update_operations(nature, 20))
    assert step_operations(nature, 20, 0) == pytest.approx(forward + update_operations(nature, 20))


def test_dense_layers_have_one_position():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5), keras.layers.ReLU(), keras.layers.Dense(2)])
    assert layer_operations(model) == [30, 20]


def test_the_limit_adds_the_time_to_multiply_and_the_time_to_step():
    assert roofline(1e9, 1e12, 1e3) == pytest.approx(500.0)
    assert roofline(0.0, 1e12, 123.0) == pytest.approx(123.0)
