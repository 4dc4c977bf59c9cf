"""Public names, loaded on first use: a package's ``__init__.pyi`` is the one list of them, read at run time."""

from collections.abc import Callable
from importlib import import_module
from os.path import dirname, join
from typing import Any


def public_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of the package whose ``__init__.py`` is `file`.

    The stub's lines are ``from .home import name as name``, and one a name, so that no parser is needed: `ast` and
    `inspect` cost more than all of ``import fastinit``.
    """
    homes = _homes(join(dirname(file), "__init__.pyi"))
    names = sorted(homes)

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f".{name}" if home == "." else home, package)
        value = module if home == "." else getattr(module, name)
        setattr(import_module(package), name, value)
        return value

    return load, lambda: names, names


def _homes(stub: str) -> dict[str, str]:
    with open(stub, encoding="utf-8") as file:
        lines = [line.split() for line in file]
    return {words[3]: words[1] for words in lines if words[:1] == ["from"] and words[2:3] == ["import"]}
