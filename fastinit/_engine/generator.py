"""`SplitMix64` as an object, for numpy and for its users.

The fills need raw states only; this module imports `numpy.random` and is therefore loaded on first use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISpawnableSeedSequence

from .. import _core
from .checks import U64_LIMIT, ShapeLike, as_finite, as_index, as_nonnegative, as_u64, draws_of
from .distributions import Normal, Uniform
from .fill import fill
from .initializer import Distribution
from .parts import Array
from .streams import stream_state
from .targets import whole_shape

if TYPE_CHECKING:
    from .annotations import FloatDType, Kind, Out, Scalar

Float64s: TypeAlias = npt.NDArray[np.float64]

T = TypeVar("T")

JUMP = 1 << 40
_UNIT, _STANDARD = Uniform(0.0, 1.0), Normal(0.0, 1.0)

_SPAWNING = threading.Lock()
"""One for all: a start travels in dask's graphs, and a lock does not."""


class _Start(ISpawnableSeedSequence):
    """Where a generator started, in the place of numpy's SeedSequence: it names the streams of the children.

    dask and scipy ask it for children themselves, and give each to the generator's class for a seed.
    """

    def __init__(self, state: int) -> None:
        self.restart(state)

    def restart(self, state: int) -> None:
        self.state, self.spawned = state, 0

    def __index__(self) -> int:
        return self.state

    def spawn(self, n_children: SupportsIndex) -> list[_Start]:
        """Return the next children: child k of all is the stream called "spawn/k"."""
        count = as_u64(n_children, "n_children")
        with _SPAWNING:
            numbers = range(self.spawned, self.spawned + count)
            children = [_Start(stream_state(self.state, f"spawn/{number}")) for number in numbers]
            self.spawned = numbers.stop
        return children

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NoReturn:
        raise NotImplementedError(
            "this is where a SplitMix64 started, and no entropy for another generator: seed that one by "
            "numpy.random.SeedSequence"
        )


def _nested() -> RuntimeError:
    return RuntimeError(
        "this SplitMix64 is in the middle of a fill, and a signal handler (or another callback) in the same "
        "thread asked it for more: it would get draws that the fill uses too. Give the handler a generator of "
        "its own, such as fastinit.stream_for(seed, 'handler')"
    )


class _Turn:
    """The lock that numpy takes around its draws; it refuses a thread that is inside a fill of the generator."""

    def __init__(self, lock: Any, refuse: Callable[[], None]) -> None:
        self._lock, self._refuse = lock, refuse

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        taken: bool = self._lock.acquire(blocking, timeout)
        if taken:
            try:
                self._refuse()
            except BaseException:
                self._lock.release()
                raise
        return taken

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class SplitMix64(np.random.BitGenerator):
    """A SplitMix64 generator: a cursor on the one cycle of 2**64 draws.

    Parameters
    ----------
    seed : int
        The raw state before the first draw, 0 to 2**64 - 1; 0 is valid. Floats, bools and None are refused.

    Notes
    -----
    *State and seeding.* `state` is one raw 64-bit word (numpy's own generators keep a dict there). Draw i
    (from 0) of a generator whose state is s is ``mix64(s + (i + 1) * gamma)``, and n draws leave it at
    ``s + n * gamma``. Consecutive raw seeds make correlated streams: for many tensors use `stream_for`, which
    hashes a name.

    *numpy.* It is a numpy bit generator: ``np.random.Generator(rng)`` draws from it and moves the same state.
    numpy's 32-bit draws take the high half of a 64-bit draw and keep none.

    *Parallel use.* `advance` and `jumped` cost one multiplication. `spawn` makes children on named streams, never
    shifted copies of one stream; ``Generator.spawn``, dask and scipy spawn the same children. Methods take `lock`,
    so threads may share a generator; which thread gets which draw is then up to them.

    *Compatibility guarantee.* The draws of a state never change.

    Not cryptographic: one output reveals the state. Each 64-bit output occurs exactly once in the cycle.

    References
    ----------
    Steele, Lea and Flood (2014), "Fast splittable pseudorandom number generators", OOPSLA.

    Examples
    --------
    >>> import fastinit
    >>> rng = fastinit.SplitMix64(1234567)
    >>> rng.next_u64(), rng.next_u64(), rng.next_u64()
    (6457827717110365317, 3203168211198807973, 9817491932198370423)
    >>> import numpy as np
    >>> rng = fastinit.SplitMix64(17)
    >>> np.random.Generator(rng).random() == fastinit.SplitMix64(17).next_unit_f64()
    True
    """

    def __init__(self, seed: SupportsIndex) -> None:
        state = as_u64(seed, "seed")
        if hasattr(self, "_cursor"):  # numpy Generators made of it keep its address
            self.state = state
            self._start.restart(state)
            return
        self._start: _Start = _Start(state)
        super().__init__(self._start)  # type: ignore[arg-type]  # numpy takes any ISeedSequence
        self._turn = super().lock
        self._cursor = _core.Cursor(state, self._turn)
        self._cursor.install(self.capsule)

    @classmethod
    def from_seed(cls, seed: SupportsIndex) -> Self:
        """Return a generator whose raw state is `seed`."""
        return cls(seed)

    @classmethod
    def from_state(cls, state: SupportsIndex) -> Self:
        """Return a generator that resumes from a recorded `state`."""
        return cls(as_u64(state, "state"))

    @property
    def lock(self) -> _Turn:  # type: ignore[override]  # numpy keeps an attribute; a Generator reads it once
        """The lock to hold while drawing, which numpy's `Generator` takes; a nested draw is refused."""
        return _Turn(self._turn, self._refuse_inside_a_fill)

    def _refuse_inside_a_fill(self) -> None:
        if self._cursor.drawing:
            raise _nested()

    @property  # type: ignore[override]  # numpy's own generators keep a dict here
    def state(self) -> int:
        """The raw 64-bit state that the next draw will advance; assignable."""
        return self._cursor.state

    @state.setter  # type: ignore[override]
    def state(self, state: SupportsIndex) -> None:
        checked = as_u64(state, "state (the raw 64-bit word)")
        with self.lock:
            self._cursor.state = checked

    def next_u64(self) -> int:
        """Draw one integer in [0, 2**64)."""
        with self._turn:
            if self._cursor.drawing:
                raise _nested()
            return self._cursor.next_u64()

    def next_unit_f64(self) -> float:
        """Draw one float in [0, 1): the top 53 bits of a draw, times 2**-53, exact."""
        with self._turn:
            if self._cursor.drawing:
                raise _nested()
            return self._cursor.next_unit_f64()

    def advance(self, n: SupportsIndex) -> Self:
        """Move `n` draws forward (backward where negative), in one multiplication; return the generator.

        Parameters
        ----------
        n : int
            Any integer; it counts modulo 2**64.
        """
        draws = as_index(n, "n") % U64_LIMIT
        with self.lock:
            self._cursor.advance(draws)
        return self

    def jumped(self, k: SupportsIndex = 1) -> Self:
        """Return a copy that is ``2**40 * k`` draws ahead; this generator stays where it is."""
        draws = as_index(k, "k") * JUMP % U64_LIMIT
        with self._turn:
            return type(self)(_core.advance(self._cursor.state, draws))

    def transact(self, draws: int, draw: Callable[..., T], *arguments: Any) -> T:
        """Return ``draw(state, *arguments)`` of the raw state, and move `draws` draws on once it has returned.

        If it raises, the generator stays as it was. Other threads wait: none is given the same draws. The same
        thread would not wait: what `draw` or a signal handler asks of this generator meanwhile is refused.
        """
        with self._turn:
            if self._cursor.drawing:
                raise _nested()
            return self._cursor.transact(draws, draw, arguments)

    def random_raw(self, size: ShapeLike | None = None, output: bool = True) -> Any:
        """Return raw 64-bit draws, as every numpy bit generator does."""
        self._refuse_inside_a_fill()
        return super().random_raw(size, output)  # type: ignore[call-overload]

    @overload
    def random(self, size: None = None, dtype: FloatDType | None = None, out: None = None) -> float: ...
    @overload
    def random(self, size: ShapeLike, dtype: Kind[Scalar] = None) -> npt.NDArray[Scalar]: ...
    @overload
    def random(self, size: ShapeLike, dtype: FloatDType | None = None, out: Out | None = None) -> Array: ...
    @overload
    def random(self, size: None = None, dtype: FloatDType | None = None, *, out: Out) -> Array: ...
    def random(
        self, size: ShapeLike | None = None, dtype: FloatDType | None = None, out: Out | None = None
    ) -> float | Array:
        """Draw numbers uniformly on [0, 1), as `numpy.random.Generator.random` is called.

        Parameters
        ----------
        size : int or tuple of int, optional
            Shape of the result; None takes `out`'s, or draws one float.
        dtype : dtype, optional
            As in `fastinit.random`.
        out : array or writable buffer, optional
            Memory to fill.

        Returns
        -------
        float or numpy.ndarray
            The numbers `fastinit.random` gives.
        """
        return self._draw(_UNIT, size, dtype, out)

    @overload
    def uniform(self, low: float = 0.0, high: float = 1.0, size: None = None) -> float: ...
    @overload
    def uniform(self, low: float, high: float, size: ShapeLike) -> Float64s: ...
    @overload
    def uniform(self, low: float = 0.0, high: float = 1.0, *, size: ShapeLike) -> Float64s: ...
    def uniform(self, low: float = 0.0, high: float = 1.0, size: ShapeLike | None = None) -> float | Float64s:
        """Draw float64 numbers uniformly on [low, high), as `numpy.random.Generator.uniform` is called.

        Parameters
        ----------
        low, high : float
            Finite, ``low < high``.
        size : int or tuple of int, optional
            Shape of the result; None draws one float.

        Returns
        -------
        float or numpy.ndarray
            The numbers `fastinit.uniform` gives.
        """
        return self._draw(Uniform(low, high), size, None, None)

    @overload
    def standard_normal(self, size: None = None, dtype: FloatDType | None = None, out: None = None) -> float: ...
    @overload
    def standard_normal(self, size: ShapeLike, dtype: Kind[Scalar] = None) -> npt.NDArray[Scalar]: ...
    @overload
    def standard_normal(
        self, size: ShapeLike, dtype: FloatDType | None = None, out: Out | None = None
    ) -> Array: ...
    @overload
    def standard_normal(self, size: None = None, dtype: FloatDType | None = None, *, out: Out) -> Array: ...
    def standard_normal(
        self, size: ShapeLike | None = None, dtype: FloatDType | None = None, out: Out | None = None
    ) -> float | Array:
        """Draw standard normal numbers, as `numpy.random.Generator.standard_normal` is called.

        Parameters
        ----------
        size : int or tuple of int, optional
            Shape of the result; None takes `out`'s, or draws one float.
        dtype : dtype, optional
            As in `fastinit.normal`.
        out : array or writable buffer, optional
            Memory to fill.

        Returns
        -------
        float or numpy.ndarray
            The numbers `fastinit.normal` gives: the quantile of one draw each. ``np.random.Generator(rng)`` has a
            method of this name that runs numpy's own algorithm (a ziggurat), which makes other numbers of the
            same stream and takes more than one draw for some.

        Examples
        --------
        >>> import fastinit
        >>> rng = fastinit.SplitMix64(17)
        >>> bool((rng.standard_normal(3) == fastinit.normal(3, 17)).all())
        True
        """
        return self._draw(_STANDARD, size, dtype, out)

    @overload
    def normal(self, loc: float = 0.0, scale: float = 1.0, size: None = None) -> float: ...
    @overload
    def normal(self, loc: float, scale: float, size: ShapeLike) -> Float64s: ...
    @overload
    def normal(self, loc: float = 0.0, scale: float = 1.0, *, size: ShapeLike) -> Float64s: ...
    def normal(self, loc: float = 0.0, scale: float = 1.0, size: ShapeLike | None = None) -> float | Float64s:
        """Draw float64 normal numbers, as `numpy.random.Generator.normal` is called.

        Parameters
        ----------
        loc, scale : float
            Mean and standard deviation; finite, ``scale >= 0``.
        size : int or tuple of int, optional
            Shape of the result; None draws one float.

        Returns
        -------
        float or numpy.ndarray
            The numbers `fastinit.normal` gives.
        """
        return self._draw(Normal(as_finite(loc, "loc"), as_nonnegative(scale, "scale")), size, None, None)

    def _draw(
        self, distribution: Distribution, size: ShapeLike | None, dtype: FloatDType | None, out: Out | None
    ) -> float | Array:
        shape = () if size is None and out is None else whole_shape(size, out, None)
        result = self.transact(draws_of(shape), fill, shape, distribution, dtype, out)
        return float(result) if size is None and out is None else result

    def spawn(self, n_children: SupportsIndex) -> list[Self]:
        """Return `n_children` new generators, each at the start of a stream of its own; this one draws nothing.

        Child k of all that a generator has spawned is ``stream_for(start, f"spawn/{k}")``, where `start` is the
        state that the generator was made with: the draws taken in between change no child. Copies and pickles
        carry the start and the count, a new `state` keeps them, and a child spawns children of its own.

        Parameters
        ----------
        n_children : int
            How many, >= 0.

        Returns
        -------
        list of SplitMix64
            The children.

        Examples
        --------
        >>> import fastinit
        >>> first, second = fastinit.SplitMix64(17).spawn(2)
        >>> second == fastinit.stream_for(17, "spawn/1")
        True
        """
        return [type(self)(start) for start in self._start.spawn(n_children)]

    def __reduce__(self) -> tuple[type[Self], tuple[int], tuple[int, int]]:  # type: ignore[override]
        return type(self), (self._start.state,), self.__getstate__()

    def __getstate__(self) -> tuple[int, int]:
        return self.state, self._start.spawned

    def __setstate__(self, saved: tuple[int, int]) -> None:
        self.state, self._start.spawned = saved

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SplitMix64):
            return NotImplemented
        return self.state == other.state

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # mutable, and compared by value

    def __repr__(self) -> str:
        return f"SplitMix64({self.state:#018x})"


def stream_for(seed: SupportsIndex, name: str) -> SplitMix64:
    r"""Return the stream called `name`: weights then depend on (seed, name, index) alone.

    Parameters
    ----------
    seed : int
        0 to 2**64 - 1.
    name : str
        Any non-empty text without control characters; a tensor's full name, as a rule.

    Returns
    -------
    SplitMix64
        Its state is ``blake2b(b"fastinit/stream/v1\0" + seed + name, digest_size=8)``, with the seed as 8
        little-endian bytes and the name in UTF-8, read as a little-endian integer.

    Examples
    --------
    >>> import fastinit
    >>> fastinit.stream_for(17, "decoder.query.weight") == fastinit.stream_for(17, "decoder.query.weight")
    True
    """
    return SplitMix64(stream_state(seed, name))


def default_rng(seed: Any = 0) -> np.random.Generator:
    """Return numpy's generator over the bit generator `seed`, or over a SplitMix64 that starts there."""
    return np.random.Generator(seed if isinstance(seed, np.random.BitGenerator) else SplitMix64(seed))


_core.recognize(generator_class=SplitMix64)
