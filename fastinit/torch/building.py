"""A model's code by a name that a command line can give: a ``config.json``, or ``module:callable``."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, SupportsIndex

import torch

from .._engine.checks import as_u64
from .._files.json_text import quoted
from ..errors import PlanError
from ..plan import Plan
from .modules import Module, named_tensors
from .recording import POLICY, Recording
from .starting import record


def recorded_plan(source: str | os.PathLike[str], seed: SupportsIndex, dtype: str | None = None) -> Plan:
    """Return the plan of a model, recorded from its own code.

    Parameters
    ----------
    source : str or path
        The ``config.json`` of a model of transformers, diffusers or timm; or ``module:callable``, of which the
        callable takes no arguments and returns a torch.nn.Module. No weights are read, and nothing is fetched.
    seed : int
        0 to 2**64 - 1.
    dtype : str, optional
        Store floating tensors so, instead of as the code makes them.

    Raises
    ------
    PlanError
        If there is no such code, or it does not build a model.

    Examples
    --------
    >>> from fastinit.torch import recorded_plan
    >>> recorded_plan("torch.nn:Identity", seed=17)
    <Plan of 0 tensors, 0 bytes: seed 17, policy 'recorded', order 'named'>
    """
    with contextlib.redirect_stdout(sys.stderr):  # what the code prints is not what was asked for
        build = _builder(str(source))
        with record(seed) as recording:
            model = _run(str(source), build)
            if dtype is not None and isinstance(model, torch.nn.Module):
                model.to(getattr(torch, dtype))
    return _plan(str(source), recording, seed, model)


def _plan(source: str, recording: Recording, seed: SupportsIndex, model: Any) -> Plan:
    if not isinstance(model, torch.nn.Module):
        raise PlanError(f"{source} returned {type(model).__name__}; a torch.nn.Module is needed")
    if any(known is model for known in recording.models):
        return recording.plan(seed, model)
    if any(True for _ in named_tensors(model)):
        raise PlanError(
            f"{source} returned a {type(model).__name__} that was built before the call, when nobody recorded; "
            "build it inside the callable"
        )
    return Plan(as_u64(seed, "seed"), POLICY, "named", [])  # nothing to record: torch.nn.Identity


def _builder(source: str) -> Callable[[], Module]:
    if source.endswith(".json"):
        return _configured(source)
    module, _, name = source.partition(":")
    if os.getcwd() not in sys.path:  # code beside the caller, as `python -m` finds it
        sys.path.insert(0, os.getcwd())
    found: Any = _run(source, lambda: _imported(source, module))
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise PlanError(f"{source} names no callable: {error}; expected module:callable") from error
    if isinstance(found, torch.nn.Module):  # it could be called, but on data
        raise PlanError(
            f"{source} is a {type(found).__name__} that was built when its module was imported, when nobody "
            "recorded; name a callable that builds it"
        )
    if not callable(found):
        raise PlanError(
            f"{source} cannot be called: it is of type {type(found).__name__}; expected module:callable"
        )
    return found  # type: ignore[no-any-return]  # whoever calls it finds out


def _imported(source: str, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # what it imports is missing
            raise
        raise PlanError(f"{source} names no callable: {error}; expected module:callable") from error


def _run(source: str, code: Callable[[], Any]) -> Any:
    """Run somebody's code; say in one sentence whose it was and where it failed."""
    try:
        return code()
    except PlanError:  # it names the source
        raise
    except (Exception, SystemExit) as error:
        raise PlanError(f"{source} failed while its code ran: {_failure(error)}") from error


_SHOWN = 300  # characters: transformers lists every kind of model that it knows


def _failure(error: BaseException) -> str:
    """Return what an exception says in one line, and where it was raised."""
    said = " ".join(str(error).split())
    said = f"{said[:_SHOWN]} ..." if len(said) > _SHOWN else said
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = "" if frame.filename == __file__ else f", at {frame.filename}:{frame.lineno} in {frame.name}"
    return f"{type(error).__name__}{': ' if said else ''}{said}{where}"


def _configured(path: str) -> Callable[[], Module]:
    """Return what builds the model of a configuration, by the library that its keys belong to."""
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(f"cannot read {path}: {error}") from error
    for key, build in _LIBRARIES.items():
        if isinstance(config, dict) and config.get(key):
            if not isinstance(config[key], str):
                raise PlanError(f"{path}: {key} must be a name, got {quoted(config[key])}")
            return lambda: build(path, config)
    raise PlanError(
        f"{path} names no model: it has none of the keys {', '.join(_LIBRARIES)}, which transformers, diffusers "
        "and timm write"
    )


def _of_transformers(path: str, config: dict[str, Any]) -> Module:
    transformers = _library("transformers", path)
    made = transformers.AutoConfig.for_model(**config)
    names = config.get("architectures")
    if not names:
        return transformers.AutoModel.from_config(made)
    if not isinstance(names, list) or not isinstance(names[0], str):
        raise PlanError(f"{path}: architectures must be a list of names of classes, got {quoted(names)}")
    name = names[0]
    cls = getattr(transformers, name, None)
    if cls is None:
        raise PlanError(f"{path} names the architecture {name!r}, which the transformers that is installed lacks")
    return cls._from_config(made)


def _of_diffusers(path: str, config: dict[str, Any]) -> Module:
    cls = getattr(_library("diffusers", path), config["_class_name"], None)
    if cls is None:
        raise PlanError(f"{path} names {config['_class_name']!r}, which the diffusers that is installed lacks")
    return cls.from_config(config)


def _of_timm(path: str, config: dict[str, Any]) -> Module:
    options = {key: config[key] for key in ("num_classes", "global_pool") if key in config}
    return _library("timm", path).create_model(config["architecture"], **options, **config.get("model_args", {}))


def _library(name: str, path: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise PlanError(f"{path} is a model of {name}, which is not installed: pip install {name}") from error


_LIBRARIES: dict[str, Callable[[str, dict[str, Any]], Module]] = {
    "model_type": _of_transformers,
    "_class_name": _of_diffusers,
    "architecture": _of_timm,
}
"""A key that a library writes into its configurations, and what builds a model of one."""
