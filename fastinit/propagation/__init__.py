"""Signals through depth: measured, and expected by mean-field theory."""

from .._lazy import public_names as _public_names

__getattr__, __dir__, __all__ = _public_names(__name__, __file__)  # the stub lists them
