"""What the engine has to know again after a restart, kept in the log as a note (A6, K2, S3, X7): the log is all there is to keep.

A note is never sent. One is appended when something in it has changed, so a conversation that is only talked in has none.
"""

from __future__ import annotations

from operator import attrgetter

import msgspec

from .edits import cut
from .entries import Entry
from .log import Log
from .state import Tracking

KEY = "fivefold_state"
KEPT = (
    "compacted", "turn_id", "failures", "failed_at", "failed_under", "failed_on", "summary_failures", "left", "covered",
    "learned_window", "staged", "pins", "marked", "waiting", "drop_thinking", "said",
)  # fmt: skip
"""What is worth a note when it changes; the rest starts anew, or is known from the log."""

_kept = attrgetter(*KEPT)


def changed(before: Tracking, after: Tracking) -> bool:
    """Whether something that has to be kept has changed."""
    return before is not after and _kept(before) != _kept(after)


def note(tracking: Tracking, log: Log, *, time: float | None) -> Entry:
    """The note that keeps it: just what is worth one, so that nothing that ends with a process is taken up again (M3, R9)."""
    return noted(Entry(id=cut.fold_id(log).replace("fold", "state", 1), kind="note", time=time), tracking)


def noted(entry: Entry, tracking: Tracking) -> Entry:
    """The same note about another record."""
    kept = msgspec.structs.replace(Tracking(), **dict(zip(KEPT, _kept(tracking), strict=True)))
    as_read = msgspec.json.decode(msgspec.json.encode(kept))  # no tuples: a log read back has to equal the log that was written
    return msgspec.structs.replace(entry, extra={KEY: as_read})


def recalled(log: Log) -> Tracking | None:
    """What the newest note of a log says; None where there is none, or it cannot be read."""
    for position in range(len(log) - 1, log.base - 1, -1):
        entry = log.entry_at(position)
        if entry.kind == "note" and KEY in entry.extra:
            try:
                return msgspec.convert(entry.extra[KEY], Tracking)
            except msgspec.ValidationError:
                return None
    return None
