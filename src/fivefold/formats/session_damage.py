"""What damaged lines of a session file cost, and how a fold that names what stood on them is still kept (K2).

Without this, one damaged entry among hundreds that a fold hides would drop the whole fold: all that it hid would be shown
again. A span that ends at a lost entry ends at the nearest one that could be read; a lost entry that is to be hidden or
shown otherwise is gone anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ..core.entries import Change, Fold, HideEntries, HideSpan, HideThinking, ReplaceBlocks
from ..core.log import Log

ENTRY_ID = re.compile(rb'"type"\s*:\s*"entry"\s*,\s*"id"\s*:\s*("(?:[^"\\]|\\.)*")')


class Mended(NamedTuple):
    """A fold as it can be applied, and what had to be changed, in words for a person."""

    fold: Fold
    why: str


class Lost:
    """The lines that could not be read, by the place in the log at which each stood."""

    def __init__(self) -> None:
        self._by_id: dict[str, int] = {}
        self._last: int | None = None  # place of the latest line that does not tell its id

    def __bool__(self) -> bool:
        return bool(self._by_id) or self._last is not None

    def add(self, line: bytes, place: int) -> None:
        """Remember a line that stood behind ``place`` entries. Its ids are taken from it as far as they can be made out."""
        found = False
        for match in ENTRY_ID.finditer(line):
            try:
                self._by_id[msgspec.json.decode(match[1], type=str)] = place
                found = True
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
        if not found:
            self._last = place

    def place_of(self, id: str) -> int | None:
        """How many entries stood before a lost one. Of a line that does not tell its id it is taken to be the latest."""
        return self._by_id.get(id, self._last)

    def mend(self, fold: Fold, log: Log) -> Mended:
        """The fold with its ends and targets moved off what was lost; the same fold where nothing of it was."""
        notes: list[str] = []
        changes = tuple(mended for change in fold.changes if (mended := self._change(change, log, notes)) is not None)
        if not notes:
            return Mended(fold, "")
        return Mended(
            msgspec.structs.replace(fold, changes=changes), f"fold {fold.id!r} names entries on damaged lines: {'; '.join(notes)}"
        )

    def _change(self, change: Change, log: Log, notes: list[str]) -> Change | None:
        match change:
            case HideSpan(last, first) | HideThinking(last, first):
                return self._span(change, first, last, log, notes)
            case HideEntries(ids):
                gone = self._gone(ids, log)
                if not gone:
                    return change
                notes.append(f"{sorted(gone)} left out")
                return HideEntries(tuple(id for id in ids if id not in gone)) if len(gone) < len(set(ids)) else None
            case ReplaceBlocks():
                return self._replacement(change, log, notes)

    def _gone(self, ids: Iterable[str], log: Log) -> set[str]:
        return {id for id in ids if log.find(id) is None and self._is_lost(id, log)}

    def _is_lost(self, id: str, log: Log) -> bool:
        """Whether an id is to be taken for a lost one. A log not loaded whole takes what it does not know for hidden."""
        return log.is_stand_in(id) and (id in self._by_id or (not log.base and self._last is not None))

    def _replacement(self, change: ReplaceBlocks, log: Log, notes: list[str]) -> ReplaceBlocks | None:
        gone = self._gone((target.entry for target in change.targets), log)
        if not gone:
            return change
        notes.append(f"{sorted(gone)} left out")
        kept = [i for i, target in enumerate(change.targets) if target.entry not in gone]
        one_each = len(change.texts) == len(change.targets)
        texts = tuple(change.texts[i] for i in kept) if one_each else change.texts
        return ReplaceBlocks(tuple(change.targets[i] for i in kept), texts) if kept else None

    def _span(
        self, change: HideSpan | HideThinking, first: str | None, last: str, log: Log, notes: list[str]
    ) -> HideSpan | HideThinking | None:
        new_first = self._near(first, log, behind=True) if first is not None else None
        new_last = self._near(last, log, behind=False)
        if (new_first, new_last) == (first, last):
            return change
        if new_last is None or (first is not None and (new_first is None or log.position(new_first) > log.position(new_last))):
            notes.append(f"nothing is left of {first!r} to {last!r}")
            return None
        notes.append(f"{first!r} to {last!r} is taken as {new_first!r} to {new_last!r}")
        return msgspec.structs.replace(change, first=new_first, last=new_last)

    def _near(self, id: str, log: Log, *, behind: bool) -> str | None:
        """An id itself where it is known; of a lost entry the nearest one read before it, or behind it."""
        if not self._is_lost(id, log) or log.find(id) is not None:
            return id
        place = self.place_of(id)
        if place is None:
            return id
        nearest = place if behind else place - 1
        return log.entry_at(nearest).id if log.base <= nearest < len(log) else None
