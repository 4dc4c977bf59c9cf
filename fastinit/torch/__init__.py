"""fastinit for torch: start tensors in place, with torch.nn.init's names, signatures and shape rules.

`functions.py` has the functions, `targets.py` what is written to. The names here are loaded on first use.
"""

try:
    import torch as _torch  # noqa: F401  # the real one: an import without a dot is absolute
except ModuleNotFoundError as error:
    if error.name != "torch":  # a torch that is there, but broken, says so itself
        raise
    raise ImportError("fastinit.torch needs torch: pip install 'fastinit-weights[torch]'") from error

from .._lazy import public_names as _public_names

__getattr__, __dir__, __all__ = _public_names(__name__, __file__)  # read from the stub
