"""The index of a model in shards, ``model.safetensors.index.json``: which tensor lies in which file beside it.

An index is untrusted: it names files beside itself, and no path.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ..errors import CheckpointError
from .json_text import JsonText, quoted
from .opening import read_bounded
from .safetensors import HEADER_LIMIT
from .specs import check_name_in_file

_NAME = re.compile(r"\.safetensors\.index(\.\w+)?\.json$")
_FOLDERS = ("*.safetensors.index*.json", "*.safetensors")  # an index before the shards that it names


def is_index(path: Path) -> bool:
    """Say whether a file's name is that of an index."""
    return _NAME.search(path.name) is not None


def in_folder(path: Path) -> Path:
    """Return the one index, or else the one ``.safetensors`` file, of a folder; a file is returned as it is.

    Raises
    ------
    CheckpointError
        If the folder holds several of them, or none.
    """
    if not path.is_dir():
        return path
    for pattern in _FOLDERS:
        found = sorted(path.glob(pattern))
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(quoted(file.name) for file in found[:3])
            raise CheckpointError(f"{path} is a folder that holds {len(found)} models, {names}: name one of them")
    raise CheckpointError(f"{path} is a folder with no .safetensors file in it")


def shards(path: Path) -> tuple[Path, ...]:
    """Return the files that an index names; none where `path` is no index."""
    return tuple(path.parent / home for home in sorted(set(weight_map(path).values()))) if is_index(path) else ()


class Stray(NamedTuple):
    """A tensor of a shard that the index does not put there.

    Attributes
    ----------
    name : str
        Its name.
    shard : str
        The file that holds it.
    home : str
        The file where the index puts a tensor of that name, or the first that holds it; "" where there is none.
    """

    name: str
    shard: str
    home: str

    def __str__(self) -> str:
        where = (
            f"puts it in {self.home}: two files hold it"
            if self.home
            else "omits it: nobody who follows it loads that"
        )
        return f"{self.name!r} lies in {self.shard}, and the index {where}"


def strays(homes: Mapping[str, str], held: Mapping[str, Iterable[str]]) -> Iterator[Stray]:
    """Yield the tensors that lie where the index does not put them; of two that it omits, the second is a copy.

    Parameters
    ----------
    homes : mapping of str to str
        The index: from each tensor to its shard.
    held : mapping of str to iterable of str
        From each shard to the names of its tensors.
    """
    found: dict[str, str] = {}
    for shard, names in held.items():
        for name in names:
            home = homes.get(name) or found.get(name, "")
            if home != shard:
                yield Stray(name, shard, home)
            found.setdefault(name, shard)


def missing(name: str, home: str, held: Mapping[str, Container[str]]) -> str:
    """Say that a tensor is not in the file where the index puts it, and which shard holds it, if any.

    Parameters
    ----------
    name, home : str
        The tensor, and the name of the file.
    held : mapping of str to container of str
        From each shard to the names of its tensors.
    """
    elsewhere = next((shard for shard, names in held.items() if name in names), "")
    where = f"it lies in {elsewhere}" if elsewhere else "no shard that the index names holds it"
    return f"tensor {name!r} is not in {home}, where the index puts it; {where}"


def weight_map(path: Path) -> dict[str, str]:
    """Return an index's map from a tensor's name to the name of the file beside the index that holds it.

    Raises
    ------
    CheckpointError
        If the file is no index, or names a file that cannot lie beside it.
    """
    walk = JsonText(read_bounded(path, HEADER_LIMIT, "an index"), str(path))
    homes, keys = dict[str, str](), set[str]()
    for key in walk.members(keys):
        keys.add(key)
        if key == "weight_map":
            homes = _homes(walk, path)
        else:
            walk.value()
    walk.end()
    if not homes:
        raise CheckpointError(f"{path} has no weight_map from tensor names to files")
    return homes


def _homes(walk: JsonText, path: Path) -> dict[str, str]:
    homes: dict[str, str] = {}
    files: dict[str, str] = {}  # one object for each name of a file, however many tensors lie in it
    for name in walk.members(homes, f"{path}: weight_map"):
        check_name_in_file(name, str(path))
        home = walk.value()
        if not isinstance(home, str) or not is_file_name(home):
            raise CheckpointError(
                f"{path}: tensor {quoted(name)} lies in {quoted(home)}; expected a file name beside the index"
            )
        homes[name] = files.setdefault(home, home)
    return homes


def is_file_name(home: str) -> bool:
    """Say whether a file in a folder can be called so: the name is no path and has no lone surrogate."""
    is_path = home in ("", ".", "..") or not {"/", "\\", "\0"}.isdisjoint(home)
    return not is_path and home == home.encode(errors="ignore").decode()
