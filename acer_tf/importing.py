"""How TensorFlow and Keras are imported: without TensorFlow's notices, and in less time.

`acer_tf/__init__.py` installs `Finder`, so that this holds in every process, whichever module of ours, of Keras's or of
a user's imports them first.
"""

import contextlib
import gc
import importlib.abc
import importlib.util
import os
import re
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType

_PACKAGES = ("keras", "tensorflow", "tensorflow_probability")

# Keras imports it for plots of images, and takes half a second for it: it is loaded when it is first used.
_LATER = "matplotlib.pyplot"

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_NOTICE = re.compile(rb"WARNING: All log messages before absl|[IWE]\d{4} |\d{4}-\d\d-\d\d [\d:.]+: [IWE] ")

# The drivers of NVIDIA, AMD and WSL leave these files in /dev.
_DRIVERS = ("nvidia[0-9]*", "kfd", "dxg")

_importing = 0  # how many of `_PACKAGES` are being imported, one by another


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that are loaded as described here, before Python's own finders do."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package = fullname.partition(".")[0]
        if package not in _PACKAGES and not (_importing and fullname == _LATER):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        if isinstance(spec.loader, SourceFileLoader) and fullname == _LATER:
            spec.loader = _LaterLoader(fullname, spec.loader.path)
        elif isinstance(spec.loader, ExtensionFileLoader):
            spec.loader = _Library(fullname, spec.loader.path)
        elif isinstance(spec.loader, SourceFileLoader) and fullname == package:
            spec.loader = _Package(fullname, spec.loader.path)
        return spec


_loading = threading.RLock()


class _Later(ModuleType):
    """Loaded when an attribute that it must define is first read.

    Python's own lazy modules are loaded when any attribute is: an export looks at the file of each module.
    """

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        assert self.__spec__ and self.__spec__.loader
        with _loading:
            if type(self) is _Later:  # no other thread has loaded it meanwhile
                self.__class__ = _Loading
                try:
                    self.__spec__.loader.exec_module(self)
                except BaseException:
                    self.__class__ = _Later
                    raise
                self.__class__ = ModuleType  # type: ignore[assignment]
            return object.__getattribute__(self, name)

    def __dir__(self) -> Iterable[str]:
        with contextlib.suppress(AttributeError):
            self.__getattr__("__all__")
        return ModuleType.__dir__(self)


class _Loading(_Later):
    """While it is loaded, other threads wait for what it does not have yet."""


class _LaterLoader(SourceFileLoader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Later(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if type(module) is not _Later:
            super().exec_module(module)


class _Package(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        global _importing
        _importing += 1
        try:
            with without_collections():
                super().exec_module(module)
        finally:
            _importing -= 1


class _Library(ExtensionFileLoader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if _LEVEL in os.environ:
            return super().create_module(spec)
        # The first library reads it. Without a driver all errors of the log are of looking for a GPU, since those of
        # computing are raised too; with one, "DNN library initialization failed" refers to errors above.
        os.environ[_LEVEL] = "2" if has_driver() else "3"
        try:
            with without_notices():
                return super().create_module(spec)
        finally:
            del os.environ[_LEVEL]


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Pauses the garbage collector, which would look at half a million objects that stay, again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # all are in the oldest generation now, which is the last to be looked at
            gc.enable()


@contextlib.contextmanager
def without_notices() -> Iterator[None]:
    """Hides what TensorFlow logs while its libraries are loaded, when they have not read the level yet.

    Standard error is a file meanwhile, whose other lines are shown at the end. If the body raises, or a library ends
    the process by SIGABRT, all are. Loading a library holds Python's lock: no other thread writes there, or starts a
    process that would.
    """
    import ctypes  # neither is needed before TensorFlow is
    import tempfile

    with contextlib.ExitStack() as opened:
        try:
            log = opened.enter_context(tempfile.TemporaryFile())
            stderr = os.dup(2)
        except OSError:  # a full disk, or a process without standard error
            log = None
        if log is None:
            yield
            return
        opened.callback(os.close, stderr)

        def show(_: int = 0, *, hide: re.Pattern[bytes] | None = None) -> None:
            os.dup2(stderr, 2)
            written = os.pread(log.fileno(), os.fstat(log.fileno()).st_size, 0)
            lines = [line for line in written.splitlines(True) if hide is None or not hide.match(line)]
            with contextlib.suppress(OSError):
                os.write(2, b"".join(lines))

        set_handler = ctypes.CDLL(None).signal
        set_handler.restype, set_handler.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
        at_abort = ctypes.CFUNCTYPE(None, ctypes.c_int)(show)
        before = set_handler(signal.SIGABRT, ctypes.cast(at_abort, ctypes.c_void_p))
        os.dup2(log.fileno(), 2)
        try:
            yield
        except BaseException:
            show()
            raise
        else:
            show(hide=_NOTICE)
        finally:
            set_handler(signal.SIGABRT, before)


def has_driver(folder: Path = Path("/dev")) -> bool:
    """Whether this machine has a GPU's driver."""
    return any(next(folder.glob(pattern), None) for pattern in _DRIVERS)
