"""References to users' classes and objects: "module:attribute"."""

import importlib
from typing import Any


def imported(reference: str) -> Any:
    """What "module:attribute" names; raises ValueError if it cannot be imported, whatever its module raises."""
    module, _, attribute = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:
        raise ValueError(f"cannot be imported: {type(error).__name__}: {error}") from error


def is_reference(name: Any) -> bool:
    """Whether `name` has the form "module:attribute", which names a user's class or object."""
    if not isinstance(name, str):
        return False
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))
