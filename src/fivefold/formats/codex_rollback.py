"""What a rollback in a Codex rollout takes out of view: the last turns of the user, with all that came of them.

Codex drops from the n-th last message of a person on, counted in what the model is shown at that time; the text that it
writes itself in the user's role begins no turn. (Codex's ``thread_rolled_back`` event, ``num_turns``.)
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core.entries import Change, Entry, HideEntries, HideSpan, Record
from ..core.log import Log
from ..core.messages import ToolResult
from ..core.view import view_of


def shown_entries(records: Iterable[Record]) -> list[Entry]:
    """The entries in view, notes and boundaries included, after these records."""
    return list(view_of(Log(None, records)).entries())


def is_turn(entry: Entry) -> bool:
    """Whether a person's message begins here."""
    return entry.kind == "user" and not entry.meta and "type" in entry.extra and not any(isinstance(b, ToolResult) for b in entry.blocks)


def rolled_back(records: list[Record], turns: int) -> tuple[Change, ...]:
    """The changes that hide the last ``turns`` turns, or as many as there are; none where there is none.

    What a compaction put in stands in no log, so it is hidden by its ids and the log's own entries as a span.
    """
    view = shown_entries(records)
    starts = [place for place, entry in enumerate(view) if is_turn(entry)]
    if turns <= 0 or not starts:
        return ()
    gone = view[starts[-min(turns, len(starts))] :]
    own = {record.id for record in records if isinstance(record, Entry)}
    stand_ins = tuple(entry.id for entry in gone if entry.id not in own)
    said = [entry.id for entry in gone if entry.id in own]
    changes: list[Change] = [HideEntries(stand_ins)] if stand_ins else []
    if said:
        changes.append(HideSpan(first=said[0], last=said[-1]))
    return tuple(changes)
