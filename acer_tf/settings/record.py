"""Settings as records hold them: written as JSON, read back, and compared.

A setting that a record does not name has its default. So a setting can be added without a change to the records that
there are, if its default leaves runs as they were; and the default of a setting never changes (a preset may).
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from acer_tf.settings import Settings, make_settings, setting_types
from acer_tf.settings.declaration import PRIORITIES, PROPORTIONAL, declarations


def jsonable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` for strict JSON: infinities become the strings that flags take."""
    return {name: str(v) if isinstance(v, float) and not math.isfinite(v) else v for name, v in settings.items()}


DEFAULTS: dict[str, Any] = jsonable(
    {field.name: field.default for field in dataclasses.fields(Settings) if field.default is not dataclasses.MISSING}
)


def settings_document(settings: Settings) -> dict[str, Any]:
    """`settings` as a JSON-able dict."""
    return jsonable(dataclasses.asdict(settings))


def settings_from(document: Mapping[str, Any]) -> Settings:
    """The inverse of `settings_document`; raises SettingsError if the document does not hold valid settings."""
    values = {**DEFAULTS, **document}
    kinds = setting_types()
    return make_settings(
        {n: float(v) if v in ("inf", "-inf", "nan") and kinds.get(n) is float else v for n, v in values.items()}
    )


def changed(settings: Settings) -> dict[str, Any]:
    """The part of `settings_document` that differs from the defaults; it stays the same when settings are added."""
    return {name: v for name, v in settings_document(settings).items() if DEFAULTS.get(name) != v}


def idle(document: Mapping[str, Any]) -> frozenset[str]:
    """The settings of priorities that a run of this document does not read, as it draws uniformly or by rank."""
    needed = {"uniform": PRIORITIES, "rank": PROPORTIONAL}.get({**DEFAULTS, **document}["replay_priority"])
    return frozenset(name for name, declared in declarations(Settings).items() if needed in declared.conditions)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """A line "name: VALUE there, VALUE here" for each setting that differs between two records."""
    old, new = ({**DEFAULTS, **document} for document in (old, new))
    return [
        f"{name}: {old.get(name, '(absent)')} there, {new.get(name, '(absent)')} here"
        for name in sorted({*old, *new})
        if name not in old or name not in new or old[name] != new[name]
    ]
