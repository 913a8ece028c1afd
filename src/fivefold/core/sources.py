"""Who asks for a model call: query sources (spec section 0)."""

from __future__ import annotations

NEVER_FOR = frozenset({"compact", "session_memory"})
"""Sources that would compact inside a compaction, without end (A2)."""


def is_main(source: str) -> bool:
    """Whether a query source is the main thread's (C4)."""
    return not source or source == "sdk" or source.startswith("main")
