"""Why a provider refused a request, as data (V2, R1–R10). Recognised by the providers' side of the house; decided on here."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Why: TypeAlias = Literal["too_long", "output_too_large", "bytes", "media", "transient", "other"]


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """One refusal, or a broken answer that means the same (R10).

    ``too_long``: the input alone is over the window. ``output_too_large``: input and ``max_tokens`` together are.
    ``bytes``: the body is (413). ``media``: an image or document is too large, or there are too many. ``transient``: the
    same request may work later (429, 529, 5xx, a broken stream). ``other``: anything else; never taken for overflow.
    """

    why: Why
    message: str
    status: int | None = None
    type: str = ""
    """The provider's own name for it."""
    actual: int | None = None
    """What was sent: tokens of the input (for ``bytes``: bytes), where told."""
    limit: int | None = None
    """What is taken, in the same unit; for ``output_too_large`` the window that input and output share."""
    max_tokens: int | None = None
    """The output asked for (``output_too_large``)."""
    places: tuple[tuple[int, ...], ...] = ()
    """Where the offending media stand: message, block, and part of a result, from 0; empty where not told."""
    max_side: int | None = None
    """Pixels a side that the provider takes (``media``)."""
    retry_after: float | None = None
    """Seconds after which to try again, where told."""

    @property
    def gap(self) -> int | None:
        """How much too large the input is; None where the numbers are not told, or tell nothing: a server that stops counting at
        its limit says one more than that."""
        if self.actual is None or self.limit is None or self.actual == self.limit + 1:
            return None
        return max(0, self.actual + (self.max_tokens or 0) - self.limit)
