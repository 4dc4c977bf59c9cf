"""fastinit: starting weights at memory speed, with bits that never change.

A weight is a pure function of (seed, name, index): the same bits on every CPU, dtype (rounded), memory layout
and shard. The kernels are chosen here, once; everything else is loaded on first use, from where ``__init__.pyi``
says.
"""

import sys as _sys

_own = _sys.orig_argv[1:3] == ["-m", "fastinit"] or "".join(_sys.orig_argv[1:2]).endswith("/fastinit")
if _own:  # the command line: Ctrl-C while the rest is imported ends it in silence, as `_process` says
    import _signal

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from . import _process

    _process.begin()
    _process.load()
else:
    from ._engine.levels import choose as _choose

    _choose()

from ._lazy import public_names as _public_names  # noqa: E402

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = _public_names(__name__, __file__)  # read from the stub
