"""fastinit for torch: start tensors in place, with torch.nn.init's names, signatures and shape rules.

`functions.py` has the functions, `targets.py` what is written to. The names here are loaded on first use.
"""

from .._lazy import need as _need
from .._lazy import public_names as _public_names

_need(__name__, "torch")

__getattr__, __dir__, __all__ = _public_names(__name__, __file__)  # read from the stub
