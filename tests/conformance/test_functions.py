"""This package's functions pass the kit in both precisions."""

import json
from types import SimpleNamespace

import pytest

from acer_tf.conformance import functions
from acer_tf.conformance.check import VECTORS, check, report

NAMES = list(json.loads(VECTORS.read_text(encoding="utf-8")))


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", NAMES)
def test_it_passes_every_case(name, precision):
    one = SimpleNamespace(**{name: getattr(getattr(functions, precision), name)})
    outcomes = [outcome for outcome in check(one, precision) if outcome.function == name]
    assert [(o.failed, o.not_offered) for o in outcomes] == [([], 0)], report(outcomes)
    assert outcomes[0].passed >= 3
