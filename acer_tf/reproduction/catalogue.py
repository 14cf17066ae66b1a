"""All figures and tables, found by listing the folder of their modules."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from acer_tf.reproduction.figure import Figure

_PACKAGE = "acer_tf.figures"


@functools.cache
def figures() -> Mapping[str, Figure]:
    """The object FIGURE of each module of acer_tf/figures, by its name, in the order of the page and the verdicts."""
    names = [module.name for module in pkgutil.iter_modules(importlib.import_module(_PACKAGE).__path__)]
    found = [importlib.import_module(f"{_PACKAGE}.{name}").FIGURE for name in names]
    return MappingProxyType({each.name: each for each in sorted(found, key=lambda each: (each.order, each.name))})
