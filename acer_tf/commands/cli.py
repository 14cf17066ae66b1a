"""The commands' common parts: flags of their own, --help, and errors as one line and an exit status."""

import contextlib
import functools
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar

from absl import flags, logging

from acer_tf.errors import AcerError, EnvironmentFailure, SettingsError
from acer_tf.settings.settings import OTHER_NAMES

P = ParamSpec("P")
T = TypeVar("T")

# What stands for the value of a flag of absl's types in --help.
_KINDS = {"int": "INTEGER", "float": "NUMBER", "comma separated list of strings": "A,B,..."}
_FLAGS = "Flags"  # the only section of --help, unless a command names others
MOST_THREADS = 1024  # more than any machine has; ALE and TensorFlow would start them all

# Messages of Python and absl for text that is no value, and ours, which say what would be right.
_VALUES = {
    r"invalid literal for int\(\).*": "must be a whole number, such as 1_000_000",
    r"could not convert string to float.*": "must be a number, such as 0.001 or 1e-3",
    r"\('Non-boolean argument to boolean flag', .*\)": "must be true or false",
}


def new_flags() -> flags.FlagValues:
    """An empty set with --help. absl's global set takes each name once, but tests import all commands at once."""
    values: Any = flags.FlagValues()
    flags.DEFINE_bool("help", False, "print this and exit", flag_values=values, module_name=_FLAGS)
    return values


class _Path(flags.ArgumentParser):
    """A flag that names a file or folder, which need not exist; `parse` checks it."""


class _Integer(flags.IntegerParser):
    """Takes 1e6 too."""

    def convert(self, argument: Any) -> int:
        try:
            return super().convert(argument)
        except ValueError:
            with contextlib.suppress(ValueError, OverflowError):
                if (number := float(argument)) == int(number):
                    return int(number)
            raise


def _in_words(error: Exception) -> str:
    said = str(error)
    for pythons, ours in _VALUES.items():
        said = re.sub(pythons, ours, said)
    return said


def value_of(kind: type, text: str) -> Any:
    """`text` as a value of a setting's type; raises ValueError."""
    if kind is not bool:
        try:
            return _Integer().convert(text) if kind is int else kind(text)
        except ValueError as error:
            raise ValueError(f"'{text}' {_in_words(error)}") from error
    if text.lower() not in ("true", "false"):
        raise ValueError(f"'{text}' is neither true nor false")
    return text.lower() == "true"


def shown(value: Any) -> str:
    """A default as --help has it."""
    if isinstance(value, list):
        return ",".join(map(shown, value))
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _integer(define: Callable[..., Any]) -> Callable[..., Any]:
    def define_integer(
        name: str, default: Any, text: str, lower_bound: Any = None, upper_bound: Any = None, **given: Any
    ) -> Any:
        return define(_Integer(lower_bound, upper_bound), name=name, default=default, help=text, **given)

    return functools.partial(define_integer, serializer=flags.ArgumentSerializer())


def definers(values: flags.FlagValues, section: str = _FLAGS) -> Any:
    """absl's functions DEFINE_string and so on for the set `values`, named `string` and so on, and `path`.

    --help shows their flags under the heading `section`, where absl has the module.
    """
    made = {name[7:]: getattr(flags, name) for name in vars(flags) if name.startswith("DEFINE_")}
    made["integer"], made["multi_integer"] = _integer(flags.DEFINE), _integer(flags.DEFINE_multi)
    made["path"] = functools.partial(flags.DEFINE, _Path(), serializer=flags.ArgumentSerializer())
    where = {"flag_values": values, "module_name": section}
    return SimpleNamespace(**{name: functools.partial(define, **where) for name, define in made.items()})


def define_device(values: flags.FlagValues, section: str = _FLAGS) -> None:
    definers(values, section).string("device", "auto", "auto: the first GPU, or else the CPU; cpu; or gpu:N")


def parse(values: flags.FlagValues, argv: list[str], doc: str | None, *, required: tuple[str, ...] = ()) -> None:
    """Fills `values` from `argv` (the program's name first); also silences TensorFlow's Python notices.

    Flags in `required` must be given.

    Raises:
        SystemExit: with 0 after --help, with 2 and one line on standard error for a bad or missing flag.
    """
    logging.set_verbosity(logging.WARNING)
    for name in values:
        values[name].unparse()  # `main` may be called more than once in a process
    try:
        rest = values(["--help" if word == "-h" else word for word in argv])[1:]
        if values.help:
            print(f"{doc}{help_of(values, required)}")
            sys.exit(0)
        if rest:
            to = "; a flag takes its value as --flag=true" if rest[0].lower() in ("true", "false") else ""
            raise flags.Error(f"not a flag: {rest[0]}{to}")
        for name in values:
            value, parser = values[name].value, values[name].parser
            if isinstance(parser, _Path) and (reason := _unusable(value)):
                raise flags.Error(f"--{name}={value}: {reason}")
            if name in required and value in (None, [], ""):
                raise flags.Error(f"--{name} is required; --help says what it takes")
            low = getattr(parser, "lower_bound", None)
            if low is not None and value != value:  # absl's bounds compare, and NaN is neither below nor above
                raise flags.Error(f"--{name}=nan: must be at least {low:g}")
    except flags.UnrecognizedFlagError as error:
        ours = OTHER_NAMES.get(error.flagname, "")
        sys.exit(fail(2, f"there is no flag --{error.flagname}: use --{ours}" if ours in values else error))
    except flags.Error as error:
        sys.exit(fail(2, _in_words(error).removeprefix("ERROR:: ")))  # as absl begins that for a missing --flagfile


def help_of(values: flags.FlagValues, required: tuple[str, ...] = ()) -> str:
    """The flags in the order in which they were defined, by section; those in `required` must be given."""
    sections = []
    for section, members in values.flags_by_module_dict().items():
        if texts := [_usage(flag, flag.name in required) for flag in members if flag.name != "help"]:
            sections.append(f"\n{section}:")
            sections += [flags.text_wrap(text, indent=" " * 6, firstline_indent="  ") for text in texts]
    sections.append("\n  --flagfile=PATH: also take the flags in this file, one per line")
    return "\n".join(sections)


def _usage(flag: flags.Flag[Any], required: bool) -> str:
    """What --help says of a flag: the kind of its value, what it is, the bounds and the default."""
    parser, notes = flag.parser, ["required"] if required else []
    kind = "PATH" if isinstance(parser, _Path) else _KINDS.get(parser.flag_type(), "TEXT")
    if isinstance(parser, flags.EnumParser):
        kind = "|".join(parser.enum_values)
    text = flag.help.removeprefix(f"<{kind}>: ")  # which absl adds
    if isinstance(flag, flags.MultiFlag):
        text = text.partition(";\n")[0]  # likewise
        if "may be repeated" not in text:
            notes.append("may be repeated")
    low, high = (getattr(parser, name, None) for name in ("lower_bound", "upper_bound"))
    if low is not None:
        notes.append(f"at least {shown(low)}" if high is None else f"{shown(low)} to {shown(high)}")
    if flag.default or flag.default == 0 and not flag.boolean:
        notes.append(f"default: {shown(flag.default)}")
    name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}={kind}"
    return f"{name}: {text}" + (f" ({'; '.join(notes)})" if notes else "")


def _unusable(path: str | None) -> str | None:
    """Why nothing can be read from or written to `path`; None if that is not known yet."""
    if path == "":
        return "is empty: must name a file or folder"
    if path is not None and path.startswith("~") and os.path.expanduser(path) != path:
        return "the shell does not replace ~ here; write $HOME, or ./~ for that name"
    try:
        if path is not None:
            path.encode()  # TensorFlow takes no other names
            os.stat(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # a file among its parents, too long, a loop of links; a NUL, not UTF-8
        return f"cannot be used: {getattr(error, 'strerror', None) or error}"
    return None


def require_existing(values: flags.FlagValues, *names: str) -> None:
    """Raises SettingsError if one of the path flags `names` is given and nothing is there."""
    for name in names:
        path: str | None = values[name].value
        if path is not None and not os.path.lexists(path):
            raise SettingsError(f"--{name}={path} does not exist")


def named_once(flag: str, pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    """The values of a repeated flag by the names that it gives them; raises SettingsError for a name given twice."""
    found: dict[str, T] = {}
    for name, value in pairs:
        if name in found:
            raise SettingsError(f"--{flag}={name}=...: names {name} a second time")
        found[name] = value
    return found


def fail(status: int, error: object, cause: BaseException | None = None) -> int:
    """Prints what is wrong as one line on standard error, and returns `status`: 2 for bad input, 1 for a failure.

    The traceback of a `cause` in the user's own code comes first.
    """
    if cause is not None:
        traceback.print_exception(cause)
    # A flag's value may hold a line break.
    print(f"error: {' '.join(str(error).splitlines())}", file=sys.stderr)
    return status


def command(main: Callable[P, int]) -> Callable[P, int]:
    """Decorates the `main` of a command: it ends with one line and an exit status where it raises an expected error.

    Those are the package's errors, each with its own status, and OSError (1).
    """

    @functools.wraps(main)
    def reporting(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return main(*args, **kwargs)
        except AcerError as error:
            return fail(error.status, error, error.__cause__ if isinstance(error, EnvironmentFailure) else None)
        except BrokenPipeError:  # nobody reads the output any more: see `acer_tf.__main__`
            raise
        except OSError as error:
            return fail(1, error)

    return reporting


@contextlib.contextmanager
def begun() -> Iterator[None]:
    """A context in which something has been started or written: what is bad input elsewhere is a failure (1) here."""
    try:
        yield
    except AcerError as error:
        error.status = 1
        raise
