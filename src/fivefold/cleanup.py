"""Caches of the embedding program that a compaction makes stale, reset behind it (C4)."""

from __future__ import annotations

from collections.abc import Callable

from .core.sources import is_main


class Cleanup:
    """A registry of resets. What is shared with the main thread is reset only when the main thread has compacted; skills that
    were invoked are no cache and are not registered here."""

    def __init__(self) -> None:
        self._resets: list[tuple[Callable[[], object], bool]] = []

    def register(self, reset: Callable[[], object], *, shared: bool = False) -> Callable[[], None]:
        """Call ``reset`` behind each compaction. ``shared``: its cache serves the main thread too. Gives what takes it off again."""
        entry = (reset, shared)
        self._resets.append(entry)

        def unregister() -> None:
            if entry in self._resets:
                self._resets.remove(entry)

        return unregister

    def run(self, source: str) -> tuple[str, ...]:
        """Reset what a compaction of this query source has made stale. A reset that fails hurts no other; says which failed and why."""
        failed = []
        for reset, shared in list(self._resets):
            if shared and not is_main(source):
                continue
            try:
                reset()
            except Exception as error:
                failed.append(f"{getattr(reset, '__name__', type(reset).__name__)}: {type(error).__name__}: {error}")
        return tuple(failed)
