"""fastinit for JAX: initializers with jax.nn's names and signatures, and whole trees made shard by shard.

`initializers.py` has the functions, `bound.py` what they return, `arrays.py` where weights become arrays, and
`trees.py` whole models. The names here are loaded on first use.
"""

from .._lazy import need as _need
from .._lazy import public_names as _public_names

_need(__name__, "jax")

__getattr__, __dir__, __all__ = _public_names(__name__, __file__)  # read from the stub
