"""Lessons on starting weights that a person can run, read and look at.

The names here are loaded on first use.
"""

from .._lazy import public_names as _public_names

__getattr__, __dir__, __all__ = _public_names(__name__, __file__)  # read from the stub
