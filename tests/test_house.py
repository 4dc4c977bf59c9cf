"""The floors of the house, read from its folders: who imports whom, what is private, how long a file is.

docs/architecture.md says why. Nothing here lists the modules, so a new one needs no entry.
"""

import ast
import graphlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ROOT

PACKAGE = ROOT / "fastinit"
MAY_IMPORT = {
    "_escaping": set(),
    "errors": {"_escaping"},
    "_lazy": set(),
    "_engine": {"_core", "errors"},
    "_files": {"_engine", "errors"},
    "views": {"_escaping", "_files"},
}
"""The lowest floors, and what each may import besides itself."""


class Import(NamedTuple):
    """`name` from `module` ("" is the package itself), or the whole module where `name` is None."""

    module: str
    name: str | None
    alias: str = ""


@cache
def modules() -> dict[str, Path]:
    """{dotted name inside fastinit: source file}; the package's own ``__init__`` is ""."""
    found = {"_core": PACKAGE / "_core.pyx"}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node of a module that can run: not the blocks of ``if TYPE_CHECKING:``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from runtime_nodes(child)


@cache
def tree(name: str) -> ast.Module:
    return ast.parse("" if name == "_core" else modules()[name].read_text())


def base_of(name: str, node: ast.ImportFrom) -> str | None:
    """The module that a ``from`` line names, None where it lies outside fastinit."""
    words = (node.module or "").split(".")
    if node.level:
        inside = name.split(".") if name and modules()[name].name != "__init__.py" else [*name.split("."), ""]
        return ".".join(part for part in (*inside[: len(inside) - node.level], *words) if part)
    return ".".join(words[1:]) if words[0] == "fastinit" else None


@cache
def imports(name: str) -> list[Import]:
    """What a module takes from fastinit, at its top or inside a function."""
    found = []
    for node in runtime_nodes(tree(name)):
        if isinstance(node, ast.Import):
            absolute = [alias.name for alias in node.names if alias.name.split(".")[0] == "fastinit"]
            assert not absolute, f"fastinit.{name} imports {absolute}; inside the package, import relatively"
        elif isinstance(node, ast.ImportFrom) and (base := base_of(name, node)) is not None:
            for alias in node.names:
                inner = f"{base}.{alias.name}".lstrip(".")
                taken = (inner, None) if inner in modules() else (base, alias.name)
                found.append(Import(*taken, alias.asname or alias.name))
    return found


def taken(name: str) -> set[tuple[str, str | None]]:
    return {(found.module, found.name) for found in imports(name)}


def room(name: str) -> str:
    return name.split(".", maxsplit=1)[0]


def test_no_import_closes_a_circle():
    """A circle works until somebody imports its modules in another order."""
    graph = {name: {found.module for found in imports(name)} - {""} for name in modules()}
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail(f"these import one another: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("floor", MAY_IMPORT)
def test_a_low_floor_knows_nothing_above_it(floor):
    for name in modules():
        if room(name) == floor:
            above = {
                module
                for module, what in taken(name)
                if room(module) not in {floor, *MAY_IMPORT[floor]} and (module, what) != ("", "__version__")
            }
            assert not above, f"fastinit.{name} must not import {', '.join(sorted(above))}"


def test_the_command_line_is_imported_by_nothing():
    importers = {name for name in modules() for found in imports(name) if room(found.module) == "cli"}
    assert {name for name in importers if room(name) != "cli"} == {"__main__"}


def test_an_import_is_really_seen():
    """A checker that parses nothing passes everything."""
    assert ("errors", "CheckpointError") in taken("checkpoint")
    assert ("_core", None) in taken("_engine.levels")
    assert ("", "__version__") in taken("cli.info")
    assert ("_files.opening", "read_bounded") in taken("cli.options"), "it stands inside a function"
    assert ("plan", "Plan") not in taken("cli.init"), "it stands under TYPE_CHECKING"
    assert taken("_escaping") == set()


def test_the_cython_module_imports_nothing_of_fastinit():
    source = modules()["_core"].read_text()
    assert not [line for line in source.splitlines() if line.lstrip().startswith(("from .", "import fastinit"))]


def private(word: str) -> bool:
    return word.startswith("_") and not word.endswith("__")


def at_home(importer: str, imported: str) -> bool:
    """Whether every private part of a module's path lies in a folder that the importer shares."""
    path, parts = importer.split("."), imported.split(".")
    return all(path[:depth] == parts[:depth] for depth, part in enumerate(parts) if private(part))


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_private_name_stays_at_home(name):
    """A name with an underscore may change on any day: whoever imports it breaks on that day."""
    found = imports(name)
    strange = [f"{module}.{what}" for module, what, _ in found if not at_home(name, module) or private(what or "")]
    aliases = {alias for _, what, alias in found if what is None}
    for node in runtime_nodes(tree(name)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            strange += [f"{node.value.id}.{node.attr}"] * private(node.attr)
    assert not strange, f"fastinit.{name} takes private names of others: {', '.join(strange)}"


HOMES = ("_engine.distributions", "_engine.constructions", "_engine.divided", "_engine.given", "initializers")
BASES = {"Initializer", "Distribution", "Moments"}
"""Questions about these are questions about a role, not about a formula."""


def formulas() -> set[str]:
    """The classes of the initializers and distributions."""
    nodes = (node for home in HOMES for node in ast.walk(tree(home)))
    return {node.name for node in nodes if isinstance(node, ast.ClassDef)} - BASES


def classes_asked_for(name: str) -> Iterator[str]:
    for node in runtime_nodes(tree(name)):
        asked = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            asked = node.args[1]
        elif isinstance(node, ast.MatchClass):
            asked = node.cls
        if asked is not None:
            yield from (part.id for part in ast.walk(asked) if isinstance(part, ast.Name))
            yield from (part.attr for part in ast.walk(asked) if isinstance(part, ast.Attribute))


@pytest.mark.parametrize("name", sorted(set(modules()) - set(HOMES)))
def test_nobody_asks_a_distribution_for_its_class(name):
    """It answers by method; a ladder of classes elsewhere is a second place for every new formula."""
    asked = formulas() & set(classes_asked_for(name))
    assert not asked, f"fastinit.{name} asks for {', '.join(sorted(asked))}"


@pytest.mark.parametrize("folder", ["fastinit", "tests", "bench", "tools"])
def test_no_python_file_is_too_long_to_read(folder):
    lengths = {
        path.relative_to(ROOT): len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > 500} == {}
