"""The claims as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..views import page as pages

if TYPE_CHECKING:
    from .claims import Claims


def page(result: Claims) -> str:
    """Return the page: the statements, the first pass, then the tables of fans and scales."""
    claims, steps, starts, *fans = result.tables()
    return pages.page(
        "Said and measured",
        (
            "Statements about starting weights, each beside the measured figures that decide it.",
            claims,
            pages.Heading("The first forward pass of one image"),
            steps,
            starts,
            pages.Heading("Fans and scales"),
            *fans,
        ),
    )
