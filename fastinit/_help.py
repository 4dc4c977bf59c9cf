"""The docstrings of `functions`: an argument has one meaning, and it is said here once."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ._engine.dtypes import FLOAT_NAMES

MEANING = {
    "shape": """int or tuple of int, or None
    The whole tensor's logical shape; None takes `out`'s.""",
    "rng": """SplitMix64 or int
    The generator, which moves on by one draw a weight, or a seed in [0, 2**64 - 1].""",
    "initializer": """Initializer or str
    One of `fastinit.initializers`, the name of a function that needs no further argument
    (``"he_normal"``), or JSON text.""",
    "value": """float
    Finite, and not beyond the dtype's finite range.""",
    "low": """float
    The smallest weight; finite.""",
    "high": """float
    The bound that no weight reaches; finite, ``low < high``, with a finite difference.""",
    "mean": """float
    Of the normal, before it is truncated if it is; finite.""",
    "std": """float
    Standard deviation of the normal, before it is truncated if it is; finite and >= 0, where 0 gives the mean.""",
    "lower": """float
    Least weight, in standard deviations from the mean; may be infinite.""",
    "upper": """float
    Greatest weight, in standard deviations from the mean; ``lower < upper``; may be infinite.""",
    "activation": """str
    What follows the layer, as in `fastinit.gain`.""",
    "a": """float, optional
    The activation's parameter: leaky_relu's negative slope (0.01), elu's alpha (1).""",
    "mode": """{"fan_in", "fan_out", "fan_avg", "fan_geo_avg"}
    The fan: whether to keep the scale of signals or of gradients, or the arithmetic or geometric mean.""",
    "scale": """float
    The squared gain; finite and >= 0.""",
    "distribution": """{"truncated_normal", "normal", "uniform"}
    Its kind; the truncated one has its variance after truncation.""",
    "fraction": """float
    In [0, 1]: ``ceil(fraction * rows)`` elements of each column are zero.""",
    "gain": """float, default 1.0
    Multiplies every weight, so a mean as well as a standard deviation, a limit or a matrix; finite and >= 0.""",
    "dtype": f"""dtype, optional
    One of {FLOAT_NAMES}.
    None takes `out`'s, else float64.""",
    "out": """array or writable buffer, optional
    Memory to fill, in any memory order, of the part's shape. A uint8 or uint16 array with an explicit
    narrow `dtype` receives the bit patterns.""",
    "index": """int, slice, Ellipsis or a tuple of them, optional
    Fill only ``whole[index]``, as numpy's basic indexing cuts it. The *whole* tensor's draws are consumed,
    so processes that fill different parts stay in step.""",
    "layout": """str, default "io"
    The meaning of each axis: ``i`` inputs, ``o`` outputs, ``d h w l t`` receptive field, ``e`` a stack of
    matrices. ``"io"`` has inputs as rows; torch's Linear is ``"oi"``, its Conv2d ``"oihw"``, its
    ConvTranspose2d ``"iohw"``, with groups ``"Iohw"``; heads and their width as outputs are ``"ioo"``. It is
    checked against the shape also where it changes no weight.""",
    "groups": """int
    Groups of a grouped convolution, as in `fastinit.fans`.""",
    "fan_in": """int, optional
    Connections into a unit, where they are not to be counted from the shape.""",
    "fan_out": """int, optional
    Connections out of a unit, where they are not to be counted from the shape.""",
    "threads": """int, optional
    Threads for a large fill, 1 to 1024; the bits do not depend on it. None: FASTINIT_NUM_THREADS, else the
    CPUs this process may use.""",
}
"""argument -> its type, and its meaning wherever it occurs."""

_SHARED = """\
Returns
-------
numpy.ndarray
    `out` itself where given, else a new C-ordered array.

Raises
------
TypeError
    For a wrong type, a bool or None as a size or seed, and for a dtype that contradicts `out`.
ValueError
    For a negative or too large integer, a bad gain, a shape that does not fit, an unfit `out`.
FanSumOverflow, ShapeProductOverflow, AllocationFailed, DistributionError
    If the sizes overflow, memory is short, or the weights do not fit the dtype.

Notes
-----
*Reproducibility.* Element i in row-major order takes draw i of the generator; its bits do not depend on the
machine, the memory order of `out` or the part asked for. Narrower dtypes are the float64 weight rounded once, to
nearest even. A refused or interrupted call leaves the generator as it was.
"""


def documented(
    about: str,
    signature: inspect.Signature,
    meaning: Mapping[str, str] = MappingProxyType({}),
    shared: str = _SHARED,
) -> str:
    """Return a numpydoc docstring: `about`, with the meaning of every argument before its first section.

    Parameters
    ----------
    about : str
        What the function does, and sections of its own.
    signature : inspect.Signature
        Its arguments.
    meaning : mapping of str to str, optional
        Arguments that mean something else here than in `MEANING`.
    shared : str, optional
        Sections that it shares with others of its kind.
    """
    intro, *sections = re.split(r"\n\n(?=\w+\n---)", inspect.cleandoc(about))
    arguments = "\n".join(f"{name} : {meaning.get(name) or MEANING[name]}" for name in signature.parameters)
    return "\n\n".join([intro, f"Parameters\n----------\n{arguments}", shared.rstrip(), *sections]) + "\n"


_ELSEWHERE = {
    "size": "shape",
    **dict.fromkeys(("loc", "mu"), "mean"),
    **dict.fromkeys(("scale", "stddev", "sigma"), "std"),
    **dict.fromkeys(("seed", "generator", "key", "random_state", "bit_generator"), "rng"),
    **dict.fromkeys(("minval", "minimum"), "low"),
    **dict.fromkeys(("maxval", "maximum"), "high"),
    "nonlinearity": "activation",
    "negative_slope": "a",
    "sparsity": "fraction",
    **dict.fromkeys(("fill_value", "val"), "value"),
}
"""What numpy, torch, JAX and Keras call an argument, and its name here."""


def _ours(option: str, signature: inspect.Signature) -> str:
    """Name what is called otherwise here, or is spelled almost so; "" where nothing is."""
    ours = _ELSEWHERE.get(option, option)
    if ours == "rng" and "rng" not in signature.parameters:
        return "it takes no draws, so it needs no generator; "
    if ours in signature.parameters:
        return f"here it is called {ours!r}; "
    near = difflib.get_close_matches(option, signature.parameters, 1)
    return f"did you mean {near[0]!r}? " if near else ""


def refuse_unbound(
    name: str, signature: inspect.Signature, given: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Raise a TypeError, by the function's own name, where the arguments do not fit its signature."""
    unknown = [option for option in options if option not in signature.parameters]
    if unknown:
        names = ", ".join(sorted(signature.parameters))
        hint = _ours(unknown[0], signature)
        raise TypeError(f"{name}() has no option {unknown[0]!r}; {hint}its options are {names}") from None
    try:
        signature.bind(*given, **options)
    except TypeError as error:
        raise TypeError(f"{name}() {error}; it is {name}{signature}") from None
