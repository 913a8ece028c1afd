"""cliffcompaction's mechanical summary, called as its proxy calls it, without the proxy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cliffcompaction.cliff import compact  # type: ignore[import-not-found]
from cliffcompaction.config import Config  # type: ignore[import-not-found]
from cliffcompaction.dialects.openai_chat import DIALECT  # type: ignore[import-not-found]

PACKAGE = "cliffcompaction"


def cases(messages: list[dict[str, Any]]) -> dict[str, Callable[[], Callable[[], int | None]]]:
    """Full compaction; it has no smaller one, and its check is part of its proxy."""
    settings = Config()

    def full() -> Callable[[], int | None]:
        return lambda: None if (made := compact(messages, DIALECT, settings)) is None else len(made.messages)

    return {"full: compact": full}
