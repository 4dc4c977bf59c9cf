"""fastinit's functions as dask arrays: the same names and arguments, with `chunks` in the place of `out`.

They are composed of the functions themselves, so a new one is here too. Each makes a `LazyArray` and cuts it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, SupportsIndex

import dask.array as da

from .. import functions
from .._engine.generator import SplitMix64
from .._help import documented, refuse_unbound
from .lazy import Chunks, LazyArray, chunked

Seed = SplitMix64 | SupportsIndex

_MEANING = {
    "shape": """int or tuple of int
    The whole tensor's logical shape.""",
    "seed": """int or SplitMix64
    With `name` the model's seed; else the raw state at which the tensor's stream starts, as in fastinit's own
    functions. A SplitMix64 gives its state, and moves on by one draw a weight.""",
    "name": """str, optional
    The tensor's name: its stream is then ``fastinit.stream_for(seed, name)``.""",
    "chunks": """chunks, default "auto"
    As dask takes them; they change no value. A fill that needs the whole tensor is one chunk.""",
    "dtype": """dtype, default float64
    One of fastinit's floating dtypes.""",
    "threads": """int or None, default 1
    Threads that fill one chunk. dask fills a chunk on each of its own threads; None: FASTINIT_NUM_THREADS, else
    the CPUs this process may use.""",
}

_SHARED = """\
Returns
-------
dask.array.Array
    Nothing is filled yet.

Raises
------
TypeError, ValueError, FanSumOverflow, ShapeProductOverflow, DistributionError
    As the function of the same name in fastinit, and for chunks that do not fit the shape.

Notes
-----
*Reproducibility.* The values are those of the function of the same name in fastinit, byte for byte, at any
chunking, on any scheduler and any number of workers. A chunk fills itself where it is needed.
"""


def _lazy(function: Callable[..., Any]) -> Callable[..., da.Array]:
    """Return the function that makes a dask array of what `function` fills."""
    signature = _signature(function)
    own = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and name not in ("shape", "seed")
    ]

    def lazy(*given: Any, **options: Any) -> da.Array:
        try:
            bound = signature.bind(*given, **options)
        except TypeError:
            refuse_unbound(lazy.__name__, signature, given, options)
            raise
        bound.apply_defaults()
        asked = bound.arguments
        initializer = function.make(**{name: asked.pop(name) for name in own})  # type: ignore[attr-defined]
        return _array(initializer, **asked)

    lazy.__name__ = lazy.__qualname__ = function.__name__
    lazy.__signature__ = signature  # type: ignore[attr-defined]
    lazy.__doc__ = documented(_about(function), signature, _MEANING, _SHARED)
    lazy.__annotations__ = {}
    return lazy


def _array(initializer: Any, *, chunks: Chunks, seed: Seed = 0, **options: Any) -> da.Array:
    """Return the dask array; a generator moves on only after every check."""
    if options.get("name") is not None or not isinstance(seed, SplitMix64):
        return chunked(LazyArray.of(initializer, seed=seed, **options), chunks)  # type: ignore[arg-type]
    lazy = LazyArray.of(initializer, seed=0, **options)
    return seed.transact(lazy.draws, lambda state: chunked(replace(lazy, state=state), chunks))


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return its signature without memory or part, with a seed, a name and chunks."""
    asked = dict(inspect.signature(function).parameters)
    is_drawn = asked.pop("rng", None) is not None
    del asked["out"], asked["index"]
    asked["threads"] = asked["threads"].replace(default=1)
    shape, *rest = asked.values()
    own = [each for each in rest if each.kind is each.POSITIONAL_OR_KEYWORD]
    added = [
        inspect.Parameter("name", inspect.Parameter.KEYWORD_ONLY, default=None),
        inspect.Parameter("chunks", inspect.Parameter.KEYWORD_ONLY, default="auto"),
    ]
    seed = inspect.Parameter("seed", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature(
        [shape, *[seed] * is_drawn, *own, *added[not is_drawn :], *(each for each in rest if each not in own)]
    )


def _about(function: Callable[..., Any]) -> str:
    """Return what a docstring says before its arguments."""
    return inspect.getdoc(function).partition("\n\nParameters\n")[0]  # type: ignore[union-attr]


def _all() -> dict[str, Callable[..., da.Array]]:
    """Return every function of the one list; an alias stays one."""
    listed = {name: value for name, value in vars(functions).items() if hasattr(value, "make")}
    made = {id(function): _lazy(function) for function in listed.values()}
    return {name: made[id(function)] for name, function in listed.items()}


globals().update(_all())
