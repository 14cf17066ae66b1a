"""Settings as records hold them: written as JSON, read back, and compared."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from acer_tf.settings import Settings, has_type, make_settings, setting_types


def jsonable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` for strict JSON: infinities become the strings that flags take."""
    return {name: str(v) if isinstance(v, float) and not math.isfinite(v) else v for name, v in settings.items()}


def settings_document(settings: Settings) -> dict[str, Any]:
    """`settings` as a JSON-able dict."""
    return jsonable(dataclasses.asdict(settings))


def settings_from(document: Mapping[str, Any]) -> Settings:
    """The inverse of `settings_document`, also for a record older than some settings (see `completed`).

    Raises:
        SettingsError: the document does not hold valid settings of this version.
    """
    return make_settings(_with_infinities(completed(document)))


def completed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A record's settings, with defaults for those that did not exist when it was written.

    So that older runs can be continued and compared, a new setting's default must leave them as they were, and a
    default never changes (a preset may).
    """
    defaults = {f.name: f.default for f in dataclasses.fields(Settings) if f.default is not dataclasses.MISSING}
    return jsonable(defaults) | dict(document)


def mistyped(document: Mapping[str, Any]) -> str | None:
    """The first value of a record that is not of its setting's type, as a sentence; None if all are."""
    types = setting_types()
    for name, value in _with_infinities(document).items():
        if name in types and not has_type(name, value):
            return f"{name} is {value!r}, which is not of type {types[name].__name__}"
    return None


def _with_infinities(document: Mapping[str, Any]) -> dict[str, Any]:
    """A record's settings with numbers for the strings of `jsonable`."""
    return {name: float(v) if v in ("inf", "-inf", "nan") else v for name, v in document.items()}


def changed(settings: Settings) -> dict[str, Any]:
    """The part of `settings_document` that differs from the defaults; it stays the same when settings are added."""
    defaults = completed({})
    return {name: v for name, v in settings_document(settings).items() if defaults.get(name) != v}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """A line "name: VALUE there, VALUE here" for each setting that differs between two records."""
    old, new, missing = completed(old), completed(new), object()
    return [
        f"{name}: {old.get(name, '(absent)')} there, {new.get(name, '(absent)')} here"
        for name in sorted({*old, *new})
        if old.get(name, missing) != new.get(name, missing)
    ]
