"""Public names, loaded on first use: a package's ``__init__.pyi`` is the one list of them, read at run time."""

from collections.abc import Callable
from importlib import import_module
from os.path import dirname, join
from types import ModuleType
from typing import Any


def need(what: str, library: str) -> ModuleType:
    """Import a library that `what` cannot do without; where it is absent, name the extra that installs it."""
    try:
        return import_module(library)  # the real one: a name without a dot is absolute
    except ModuleNotFoundError as error:
        if error.name != library:  # one that is there, but broken, says so itself
            raise
        raise ImportError(f"{what} needs {library}: pip install 'fastinit-weights[{library}]'") from error


def public_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of the package whose ``__init__.py`` is `file`.

    In the stub a name is imported, ``from .home import name as name``, one a line; a function that it declares
    itself (`dask`) stands in ``functions.py``. So no parser is needed: `ast` and `inspect` cost more than all of
    ``import fastinit``.
    """
    homes = _homes(join(dirname(file), "__init__.pyi"))
    names = sorted(homes)

    def load(name: str) -> Any:
        home = homes.get(name)
        value = _submodule(package, name) if home in (None, ".") else getattr(import_module(home, package), name)
        setattr(import_module(package), name, value)
        return value

    return load, lambda: names, names


def _submodule(package: str, name: str) -> Any:
    """Return ``package.name`` as a module, as if it had been imported before."""
    full = f"{package}.{name}"
    try:
        return import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def _homes(stub: str) -> dict[str, str]:
    homes = {}
    try:
        file = open(stub, encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise ImportError(
            f"{stub} cannot be read: the public names stand there; ship the .pyi files too"
        ) from error
    with file:
        for line in file:
            words = line.split()
            if words[:1] == ["from"] and words[4:5] == ["as"]:
                homes[words[3]] = words[1]
            elif line.startswith("def "):
                homes[words[1].partition("(")[0]] = ".functions"
            elif words[1:2] == ["="] and not line.startswith(" "):
                homes[words[0]] = ".functions"
    return homes
