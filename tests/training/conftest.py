import pytest

from acer_tf.training import active_run
from tests.training.scripted import light_exporting


@pytest.fixture
def light_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs write policies without content, for tests that do not look at them: an export takes seconds."""
    monkeypatch.setattr(active_run, "exporting", light_exporting)
