"""Where a model's specs come from: a ``.safetensors`` header, a JSON file, or a model that fastinit bundles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import PlanError
from .json_text import JsonText
from .opening import open_file, read_bounded
from .safetensors import HEADER_LIMIT, METADATA, read_cut_header
from .specs import TensorSpec, read_spec, specs_of

Source = str | os.PathLike[str] | Mapping[str, Any]
"""A file, a bundled model's name, or ``{name: {"dtype": "F32", "shape": [2, 3]}}``."""

_KEYS = ("dtype", "shape", "data_offsets")  # the last where a header was saved as JSON
_MODELS = resources.files(__package__) / "models"


def bundled_models() -> tuple[str, ...]:
    """Return the names of the models whose specs come with fastinit.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.bundled_models()[:2]
    ('all-minilm-l6-v2', 'gpt2-124m')
    """
    return tuple(
        sorted(file.name.removesuffix(".json") for file in _MODELS.iterdir() if file.name.endswith(".json"))
    )


def read_specs(source: Source) -> dict[str, TensorSpec]:
    """Return a model's specs.

    Parameters
    ----------
    source : str, path or mapping
        A ``.safetensors`` file (whole, or cut off after its header), a JSON file of
        ``{name: {"dtype": ..., "shape": [...]}}``, the name of a bundled model, or such a mapping itself.

    Raises
    ------
    PlanError
        If there is no such file or bundled model.
    CheckpointError
        If the file describes no model.
    """
    if isinstance(source, Mapping):
        return specs_of({name: entry for name, entry in source.items() if name != METADATA}, "specs", _KEYS)
    path = Path(source)
    if path.is_file():
        return _file_specs(path)
    if str(source) not in bundled_models():
        raise PlanError(
            f"no file {str(source)!r}, and no bundled model of that name; "
            f"bundled are {', '.join(bundled_models())}"
        )
    return _described((_MODELS / f"{source}.json").read_bytes(), f"model {source}")


def _file_specs(path: Path) -> dict[str, TensorSpec]:
    if path.suffix == ".json":
        return _described(read_bounded(path, HEADER_LIMIT, "specs"), str(path))
    with open_file(path) as file:
        return read_cut_header(file, str(path)).specs


def _described(text: bytes, where: str) -> dict[str, TensorSpec]:
    """Read specs from JSON text, entry by entry."""
    walk, found = JsonText(text, where), dict[str, TensorSpec]()
    for name in walk.members(found):
        entry = walk.value()
        if name != METADATA:
            found[name] = read_spec(name, entry, where, _KEYS)
    walk.end()
    return found
