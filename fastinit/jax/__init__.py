"""fastinit for JAX: initializers with jax.nn's names and signatures, and whole trees made shard by shard.

`initializers.py` has the functions, `bound.py` what they return, `arrays.py` where weights become arrays, and
`trees.py` whole models. The names here are loaded on first use.
"""

try:
    import jax as _jax  # noqa: F401  # the real one: an import without a dot is absolute
except ModuleNotFoundError as error:
    if error.name != "jax":  # a jax that is there, but broken, says so itself
        raise
    raise ImportError("fastinit.jax needs jax: pip install 'fastinit-weights[jax]'") from error

from .._lazy import public_names as _public_names

__getattr__, __dir__, __all__ = _public_names(__name__, __file__)  # read from the stub
