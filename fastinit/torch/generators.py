"""Where the draws of a torch function start: what `generator` may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex, TypeAlias, TypeVar

import torch

from .._engine.checks import U64_LIMIT, as_source
from .._engine.generator import SplitMix64

T = TypeVar("T")

Generator: TypeAlias = torch.Generator | SplitMix64 | SupportsIndex | None
"""One of torch's (None: its default one), which gives a key of 64 bits; one of fastinit's, or a seed."""


class Keyed:
    """A torch.Generator as fills ask for draws: each fill starts a stream at a key that the generator gives.

    One key, and not one number a weight: torch's draws are consecutive, so weight i of them cannot be made without
    the others before it.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def transact(self, draws: int, draw: Callable[..., T], *arguments: Any) -> T:  # noqa: ARG002
        """Return ``draw(key, *arguments)``; if it raises, the generator stays as it was."""
        before = self._generator.get_state()
        try:
            return draw(self.key(), *arguments)
        except BaseException:
            self._generator.set_state(before)
            raise

    def key(self) -> int:
        """Draw one integer in [0, 2**64)."""
        drawn = torch.empty((), dtype=torch.int64, device=self._generator.device)
        return int(drawn.random_(-(2**63), None, generator=self._generator)) % U64_LIMIT


def as_stream(generator: Generator) -> Any:
    """Return what a fill takes for its generator: of that it asks `transact` alone, so a `Keyed` is one."""
    if generator is None:
        return Keyed(torch.default_generator)
    if isinstance(generator, torch.Generator):
        return Keyed(generator)
    try:
        return as_source(generator)
    except TypeError:
        raise TypeError(
            "generator must be None, a torch.Generator, a fastinit.SplitMix64 or an int seed, "
            f"got {type(generator).__name__}"
        ) from None
