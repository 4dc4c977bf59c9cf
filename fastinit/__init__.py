"""fastinit: starting weights at memory speed, with bits that never change.

A weight is a pure function of (seed, name, index): the same bits on every CPU, dtype (rounded), memory layout
and shard. The kernels are chosen here, once; everything else is loaded on first use, from where ``__init__.pyi``
says.
"""

from ._engine.levels import choose as _choose
from ._lazy import public_names as _public_names

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = _public_names(__name__, __file__)  # read from the stub

_choose()
