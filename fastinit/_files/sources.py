"""Where a model's specs come from: the headers of its files, a JSON file, or a model that fastinit bundles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, InvalidNameInFile, InvalidTensorName, PlanError
from .index import in_folder, is_index, missing, strays, weight_map
from .json_text import JsonText
from .opening import open_file, read_bounded
from .safetensors import HEADER_LIMIT, METADATA, RESERVED, read_cut_header
from .specs import TensorSpec, read_spec, specs_of

Source = str | os.PathLike[str] | Mapping[str, Any]
"""A file, a bundled model's name, or ``{name: {"dtype": "F32", "shape": [2, 3]}}``, or arrays by their names."""

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
        A ``.safetensors`` file (whole, or cut off after its header), the ``.safetensors.index.json`` of one in
        shards, the folder of either, a JSON file of ``{name: {"dtype": ..., "shape": [...]}}``, the name of a
        bundled model, or such a mapping itself; its values may be arrays too.

    Raises
    ------
    PlanError
        If there is no such file or bundled model, or if the file is a model's configuration.
    CheckpointError
        If the file describes no model, or an index and its shards disagree.
    """
    if isinstance(source, Mapping):
        tensors = {name: entry for name, entry in source.items() if not _is_free_text(name, entry)}
        if METADATA in tensors:
            raise InvalidTensorName(METADATA, RESERVED)
        return specs_of(tensors, "specs", _KEYS)
    path = Path(source)
    if path.is_file() or any(path.glob("*.safetensors*")):
        return _file_specs(in_folder(path))
    if str(source) not in bundled_models():
        raise PlanError(
            f"no file {str(source)!r}, and no bundled model of that name; "
            f"bundled are {', '.join(bundled_models())}"
        )
    return _described((_MODELS / f"{source}.json").read_bytes(), f"model {source}")


def _file_specs(path: Path) -> dict[str, TensorSpec]:
    if is_index(path):
        return _index_specs(path)
    if path.suffix == ".json":
        text = read_bounded(path, HEADER_LIMIT, "specs")
        if is_configuration(text):
            raise PlanError(
                f"{path} is the configuration of a model, which names no tensors: fastinit.torch.recorded_plan "
                "and `fastinit init` run its code; or name its .safetensors file or .safetensors.index.json"
            )
        return _described(text, str(path))
    return _header_specs(path)


def _header_specs(path: Path) -> dict[str, TensorSpec]:
    with open_file(path) as file:
        return read_cut_header(file, str(path)).specs


def _index_specs(path: Path) -> dict[str, TensorSpec]:
    """Return the specs of all shards as those of one model, in the order of their index."""
    homes = weight_map(path)
    held = {shard: _header_specs(path.parent / shard) for shard in sorted(set(homes.values()))}
    for name, home in homes.items():
        if name not in held[home]:
            raise CheckpointError(f"{path}: {missing(name, home, held)}")
    stray = next(strays(homes, held), None)
    if stray is not None:
        raise CheckpointError(
            f"{path}: tensor {stray}; put it right in the index, and `fastinit diagnose {path}` names all of them"
        )
    return {name: held[home][name] for name, home in homes.items()}


def is_configuration(text: bytes) -> bool:
    """Say whether a JSON text is a model's ``config.json``: it names a kind of model, where specs name tensors."""
    walk, found = JsonText(text, "a configuration"), set[str]()
    try:
        for key in walk.members(found):
            found.add(key)
            if not isinstance(walk.value(), dict) and key in _CONFIGURED:
                return True
    except CheckpointError:  # whoever reads it as specs says what is wrong
        pass
    return False


_CONFIGURED = ("model_type", "architectures", "_class_name", "architecture")  # transformers', diffusers', timm's


def _is_free_text(name: str, entry: Any) -> bool:
    """Say whether an entry is the free text of a saved header: it maps strings to strings, as no spec does."""
    return (
        name == METADATA and isinstance(entry, Mapping) and all(isinstance(text, str) for text in entry.values())
    )


def _described(text: bytes, where: str) -> dict[str, TensorSpec]:
    """Read specs from JSON text, entry by entry."""
    walk, found = JsonText(text, where), dict[str, TensorSpec]()
    for name in walk.members(found):
        entry = walk.value()
        if name == METADATA and not _is_free_text(name, entry):
            raise InvalidNameInFile(where, name, RESERVED)
        if name != METADATA:
            found[name] = read_spec(name, entry, where, _KEYS)
    walk.end()
    return found
