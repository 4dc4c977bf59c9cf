"""fastinit for dask: arrays whose chunks fill themselves, with values that no chunking changes.

`lazy.py` has the array that fills what is asked of it, `functions.py` the functions. The names here are loaded on
first use.
"""

try:
    import dask.array as _array  # noqa: F401  # the real one: an import without a dot is absolute
except ImportError as error:
    if (error.name or "").partition(".")[0] not in (
        "dask",
        "numpy",
        "",
    ):  # what is there, but broken, says so itself
        raise
    raise ImportError("fastinit.dask needs dask: pip install 'fastinit-weights[dask]'") from error

from .._lazy import public_names as _public_names

__getattr__, __dir__, __all__ = _public_names(__name__, __file__)  # read from the stub
