"""The flags of the settings, of the commands that train."""

from typing import Any

from absl import flags

from acer_tf.commands import cli
from acer_tf.settings import Settings, setting_types
from acer_tf.settings.declaration import Declaration, declarations
from acer_tf.settings.presets import PRESETS
from acer_tf.settings.rules import RULES


def define(values: flags.FlagValues, **defaults: str) -> None:
    """Adds a flag for each setting, without a default; --help shows that of `Settings`, or of `defaults` ("" for none).

    A section of --help begins where a setting declares one.
    """
    defaults, section = {"preset": "auto"} | defaults, ""
    for name, declared in declarations(Settings).items():
        section = declared.section or section
        flag = cli.definers(values, section)
        kinds = {int: flag.integer, float: flag.float, bool: flag.bool, str: flag.string}
        kinds[setting_types()[name]](name, None, _help(name, declared, defaults.get(name)))


def given(values: flags.FlagValues) -> dict[str, Any]:
    """The settings that flags name."""
    return {name: values[name].value for name in setting_types() if values[name].value is not None}


def _help(name: str, declared: Declaration, usual: str | None) -> str:
    """The help of a setting's flag: what it is, which agents read it and when, its range if a number, and defaults."""
    classes = {
        agent: {path.partition(":")[2] for path in (rule.discrete, rule.continuous)} for agent, rule in RULES.items()
    }
    agents = [agent for agent, names in classes.items() if names.intersection(declared.classes)]
    needs = [condition.needed for condition in declared.conditions]
    if agents and len(agents) < len(RULES):
        needs.insert(0, "agent " + " or ".join(agents))
    only = f"; only with {' and '.join(needs)}" if needs else ""
    default = getattr(Settings, name, None)
    presets: dict[Any, list[str]] = {}
    for preset, values in PRESETS.items():
        if name in values and values[name] != default:
            presets.setdefault(values[name], []).append(preset)
    others = "".join(f"; preset {' or '.join(which)}: {cli.shown(value)}" for value, which in presets.items())
    if usual is None:
        usual = "" if default is None else cli.shown(default) + others
    wanted = declared.range.wanted.partition(" (")[0] if setting_types()[name] in (int, float) else ""
    notes = [wanted] * bool(wanted) + [f"default: {usual}"] * bool(usual)
    return declared.help + only + (f" ({'; '.join(notes)})" if notes else "")
