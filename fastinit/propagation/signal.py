"""What is measured of every layer, and what follows: whether it holds, or how fast it leaves its band."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

Layers = tuple[float, ...]
"""A number at every layer, the input's first."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One measured number at every layer; entry 0 is the network's input.

    Attributes
    ----------
    median, low, high : tuple of float
        Over the seeds. Past float64's range a magnitude is inf or 0; a gradient through such a layer is nan.
    expected : tuple of float or None
        The same from theory; None where it says nothing.
    """

    median: Layers
    low: Layers
    high: Layers
    expected: Layers | None

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON; a number that is not finite is the text ``inf`` or ``nan``."""
        return {name: _json(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Signal(Profile):
    """A magnitude at every layer, which enters the network at one end.

    Attributes
    ----------
    start : int
        The layer at which it enters: 0 for activations, the last for gradients.
    LOWEST, HIGHEST : float
        The band, over the magnitude at the start, in which it is said to hold.
    """

    start: int

    LOWEST: ClassVar[float] = 0.5
    HIGHEST: ClassVar[float] = 2.0

    @property
    def end(self) -> int:
        """The layer at which the signal leaves."""
        return len(self.median) - 1 - self.start

    def ratio(self, layer: int) -> float:
        """Return the median at a layer over that at `start`."""
        return self.median[layer] / self.median[self.start]

    def expected_ratio(self, layer: int) -> float | None:
        """Return what theory expects of `ratio`; None where it says nothing."""
        return None if self.expected is None else self.expected[layer] / self.expected[self.start]

    @property
    def leaves(self) -> int | None:
        """The first layer, from `start` on, whose median leaves 0.5 to 2 times that at `start`; None: none."""
        return next((layer for layer in self._path() if not self._inside(layer)), None)

    @property
    def holds(self) -> bool:
        """Whether no layer leaves the band."""
        return self.leaves is None

    @property
    def a_layer(self) -> float:
        """The factor of one layer: the geometric mean, as long as the signal is finite and not 0."""
        steps = [layer for layer in self._path() if 0 < self.ratio(layer) < math.inf]
        layers = len(steps) - 1
        return self.ratio(steps[-1]) ** (1 / layers) if layers > 0 else 1.0

    @property
    def verdict(self) -> str:
        """Holds; or how it changes a layer, and the first layer outside the band."""
        first = self.leaves
        if first is None:
            return "holds"
        if not 0 < self.ratio(first) < math.inf:
            return f"is {'0' if self.ratio(first) == 0 else 'past every float'} from layer {first}"
        if self._inside(self.end):
            return f"leaves 0.5 to 2 at layer {first} and comes back"
        return (
            f"{'grows' if self.a_layer > 1 else 'shrinks'} {self.a_layer:.3g} times a layer, outside 0.5 to 2 "
            f"from layer {first}"
        )

    def _path(self) -> range:
        """Return the layers in the order in which the signal passes them."""
        layers = range(len(self.median))
        return layers[::-1] if self.start else layers

    def _inside(self, layer: int) -> bool:
        return self.LOWEST <= self.ratio(layer) <= self.HIGHEST


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
