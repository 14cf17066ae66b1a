"""What the commands share: their own flags, --help, and bad input as one line and exit status 2."""

from __future__ import annotations

import sys
from typing import Any

from absl import flags, logging


def new_flags() -> flags.FlagValues:
    """An empty set with --help. absl's global set takes each name once, but tests import all commands at once."""
    values: Any = flags.FlagValues()
    flags.DEFINE_bool("help", False, "print this and exit", flag_values=values)
    return values


def parse(values: flags.FlagValues, argv: list[str], doc: str | None, *, required: tuple[str, ...] = ()) -> None:
    """Fills `values` from `argv` (the program's name first); also silences TensorFlow's Python notices.

    Raises:
        SystemExit: with 0 after --help, with 2 and one line on standard error for a bad or missing flag.
    """
    logging.set_verbosity(logging.WARNING)
    for name in values:
        values[name].unparse()  # `main` may be called more than once in a process
    try:
        rest = values(argv)[1:]
        if values.help:
            print(f"{doc}{values.get_help()}")
            sys.exit(0)
        if rest:
            raise flags.Error(f"not a flag: {rest[0]}")
        for name in required:
            if values[name].value in (None, []):
                raise flags.Error(f"--{name} is required; --help says what it takes")
        for name in values:
            # absl's bounds compare, and NaN is neither below nor above.
            low = getattr(values[name].parser, "lower_bound", None)
            if low is not None and values[name].value != values[name].value:
                raise flags.Error(f"--{name}=nan: must be at least {low:g}")
    except flags.Error as error:
        sys.exit(fail(2, error))


def fail(status: int, error: object) -> int:
    """Prints what is wrong to standard error and returns `status`: 2 bad input, 1 failure."""
    print(f"error: {error}", file=sys.stderr)
    return status
