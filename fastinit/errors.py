"""Every error fastinit raises on purpose.

An error's ``args`` are its facts (also attributes), so it can be copied, pickled and inspected; its
sentence says what was given, what was expected, and what to type instead. Wrong types are plain
``TypeError`` and are not listed here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ._escaping import escaped

if TYPE_CHECKING:
    from .policies.deciding import Refusal


class FastinitError(Exception):
    """Base of all errors that are fastinit's own. Two are equal where their class and their facts are.

    A sentence may quote a file that anyone wrote, so it is shown with every unprintable character escaped.

    Examples
    --------
    >>> from fastinit import DuplicateName
    >>> DuplicateName("w", 0, 2) == DuplicateName("w", 0, 2)
    True
    """

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FastinitError):
            return NotImplemented
        return type(other) is type(self) and other.args == self.args

    def __hash__(self) -> int:
        return hash((type(self), self.args))

    def __str__(self) -> str:
        return escaped(super().__str__())


class InitializationError(FastinitError):
    """A request to initialize or collect parameters was refused."""


class EmptyName(InitializationError, ValueError):
    """The parameter name is the empty string."""

    def __str__(self) -> str:
        return "parameter name must not be empty; give it a role, for example 'decoder.query.weight'"


class EmptyNameSegment(InitializationError, ValueError):
    """Two dots in a row, or a dot at either end; `index` is the byte where a segment should start."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index

    def __str__(self) -> str:
        return (
            f"parameter name has an empty dot-separated segment at byte {self.index}; "
            "every dot needs a segment on both sides, as in 'decoder.query.weight'"
        )


class InvalidNameCharacter(InitializationError, ValueError):
    """A byte outside ``[a-z0-9_.]``; `index` counts UTF-8 bytes, `byte` is its value."""

    def __init__(self, index: int, byte: int) -> None:
        super().__init__(index, byte)
        self.index = index
        self.byte = byte

    def __str__(self) -> str:
        shown = f" ({chr(self.byte)!r})" if 0x20 <= self.byte < 0x7F else ""
        return (
            f"parameter name byte {self.index} must be a lowercase ASCII letter, a digit, an underscore "
            f"or a dot; got 0x{self.byte:02x}{shown}"
        )


class InvalidTensorName(InitializationError, ValueError):
    """A tensor or stream name that no plan, checkpoint or stream can carry; `name` and `reason` say why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"tensor name {_quoted(self.name)} {self.reason}"


class ZeroFanIn(InitializationError, ValueError):
    """No inputs: there is nothing to scale by."""

    def __str__(self) -> str:
        return "fan_in must be greater than zero; it counts the weighted inputs summed into each output"


class ZeroFanOut(InitializationError, ValueError):
    """No outputs: there is nothing to scale by."""

    def __str__(self) -> str:
        return "fan_out must be greater than zero; it counts the outputs that receive each input"


class FanSumOverflow(InitializationError, ValueError):
    """``fan_in + fan_out`` is larger than 2**64 - 1."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__(fan_in, fan_out)
        self.fan_in = fan_in
        self.fan_out = fan_out

    def __str__(self) -> str:
        return f"fan_in {self.fan_in} plus fan_out {self.fan_out} is larger than 2**64 - 1"


class ShapeProductOverflow(InitializationError, ValueError):
    """The number of elements is larger than 2**64 - 1."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__(fan_in, fan_out)
        self.fan_in = fan_in
        self.fan_out = fan_out

    def __str__(self) -> str:
        return f"a shape with fan_in {self.fan_in} and fan_out {self.fan_out} has more than 2**64 - 1 elements"


class DuplicateName(InitializationError, ValueError):
    """A name occurs twice in one collection; `first` and `repeated` are the positions."""

    def __init__(self, name: str, first: int, repeated: int) -> None:
        super().__init__(name, first, repeated)
        self.name = name
        self.first = first
        self.repeated = repeated

    def __str__(self) -> str:
        return (
            f"name {self.name!r} first appears at index {self.first} and repeats at index {self.repeated}; "
            "every parameter needs a name of its own"
        )


class AllocationFailed(InitializationError, MemoryError):
    """Storage for `elements` values could not be reserved; `made_whole` says what has no smaller part."""

    def __init__(self, elements: int, made_whole: str = "") -> None:
        super().__init__(elements, *[made_whole] * bool(made_whole))
        self.elements = elements
        self.made_whole = made_whole

    def __str__(self) -> str:
        advice = "pass out= (a memmap, say) or fill a part with index="
        if self.made_whole:
            advice = f"{self.made_whole} is made whole, for a part too, so index= would not help"
        return f"could not reserve storage for {self.elements} values; {advice}"


class DistributionError(InitializationError, ValueError):
    """The distribution cannot be drawn as asked: its parameters, or its fit to the dtype."""


class TensorError(FastinitError, ValueError):
    """Values that are not a finite float64 tensor of the stated shape.

    Attributes
    ----------
    index : int or None
        The row-major number of the first element that is not finite; None where that is not what is wrong.
    value : float or None
        That element: an infinity, or `math.nan` itself, which equals no other.
    """

    def __init__(self, message: str, index: int | None = None, value: float | None = None) -> None:
        self.index = index
        self.value: float | None = math.nan if value is not None and math.isnan(value) else value
        super().__init__(message, *[self.index, self.value] * (index is not None))

    def __str__(self) -> str:
        return escaped(self.args[0])


class TensorAutodiffError(FastinitError):
    """An operation the tape cannot record or differentiate."""


class PlanError(FastinitError, ValueError):
    """A whole-model plan cannot be made, and which tensor is the reason."""


class TensorsRefused(PlanError):
    """A policy fills some tensors with nothing; `refusals` are all of them, by kind."""

    SHOWN = 20
    """Kinds that the sentence names."""

    def __init__(self, policy: str, total: int, refusals: tuple[Refusal, ...]) -> None:
        super().__init__(policy, total, refusals)
        self.policy = policy
        self.total = total
        self.refusals = refusals

    @property
    def lines(self) -> tuple[str, ...]:
        """The sentence in lines: a kind each."""
        number = sum(len(refusal.names) for refusal in self.refusals)
        more = self.refusals[self.SHOWN :]
        last = (f"and {sum(len(r.names) for r in more):,} tensors of {len(more):,} more kinds",) if more else ()
        return (
            f"policy {self.policy} refuses {number:,} of {self.total:,} tensors, for it guesses nothing; "
            "after each stands what to type (in Python: policy=fastinit.policies.customized(...))",
            *(_shortened(escaped(str(refusal))) for refusal in self.refusals[: self.SHOWN]),
            *last,
        )

    def __str__(self) -> str:
        return escaped("; ".join(self.lines))


class StreamOverlap(PlanError):
    """Two tensors would share draws; `first` and `second` are their names."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first, second)
        self.first = first
        self.second = second

    def __str__(self) -> str:
        return (
            f"the streams of {self.first!r} and {self.second!r} overlap, so the two tensors would share "
            "draws; give one of them another name or seed"
        )


class CheckpointError(FastinitError):
    """A checkpoint file cannot be written, or is not what its header must be."""


class EmptyNameInFile(CheckpointError, EmptyName):
    """A file calls a tensor by the empty string; `path` is the file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: a tensor's name is empty; give it one, for example 'decoder.query.weight'"


class InvalidNameInFile(CheckpointError, InvalidTensorName):
    """A file calls a tensor what nothing else can carry; `path` is the file, `name` and `reason` say why."""

    def __init__(self, path: str, name: str, reason: str) -> None:
        FastinitError.__init__(self, path, name, reason)
        self.path = path
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {InvalidTensorName.__str__(self)}"


def _shortened(line: str) -> str:
    """Cut a line that repeats a very long name: no sentence has more than 10,000 characters."""
    return line if len(line) <= 440 else f"{line[:360]} ... {line[-75:]}"


def _quoted(name: str) -> str:
    """Return the repr of a name, cut where it is longer than any sentence."""
    return repr(name) if len(name) <= 80 else f"{name[:80]!r}..."
