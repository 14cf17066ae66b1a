import pytest

from acer_tf.errors import Interrupted
from acer_tf.training import active_run
from acer_tf.training.train import train
from tests.training.scripted import light_exporting, rows_of, script, small_settings, use_light_agents


@pytest.fixture
def light_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs write policies without content, for tests that do not look at them: an export takes seconds."""
    monkeypatch.setattr(active_run, "exporting", light_exporting)


@pytest.fixture
def light(monkeypatch):
    """The light agents that the test's runs make."""
    return use_light_agents(monkeypatch)


@pytest.fixture
def done(light, tmp_path):
    """A finished run of a light agent."""
    assert script(small_settings(), tmp_path / "run") == 0
    return tmp_path / "run"


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """A run interrupted after its last checkpoint, with two more rows in its record, and its light agents."""

    def diagnostics(update):
        if update == 90:
            raise Interrupted(15)
        return {"value": float(update)}

    save = active_run.ActiveRun.save
    with monkeypatch.context() as patch:
        made = use_light_agents(patch, diagnostics)
        patch.setattr(active_run.ActiveRun, "save", lambda self: save(self) if self.steps < 250 else None)
        with pytest.raises(Interrupted):
            train(small_settings(), tmp_path / "run", checkpoint_minutes=0.0, quiet=True)
    assert int(rows_of(tmp_path / "run")[-1]["steps"]) >= 400
    return tmp_path / "run", use_light_agents(monkeypatch), made
