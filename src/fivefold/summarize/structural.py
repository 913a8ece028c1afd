"""The summary without a model (L6, L14): what is folded, what shrinks in the middle zone, and the text that stands for it.

Made anew from the whole log each time, within a budget, so it never grows and never degrades. A pure function: the same
entries give the same bytes.

    [head kept] [ folded: summary ] [ middle: assistant whole, results shrunk ] [ tail verbatim ]
               start              cut                                       tail
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..core.entries import Entry, Target
from ..core.messages import ToolResult
from ..core.pairing import Round, legal_cuts, rounds
from .build import Zones, digest
from .receipt import Receipt
from .references import Extractor
from .sections import Section
from .units import is_told_result

TAIL_ROUNDS = 3
"""Floor of the verbatim tail (L14)."""
TAIL_SHARE = 0.5
"""The tail takes at most this share of the whole view, its floor of rounds and its giant results included."""
_SHARES = {"tail": 0.06, "middle": 0.08, "picked": 0.17, "prose": 0.03, "calls": 0.02, "facts": 0.02, "people": 0.10, "total": 0.36}


class Budget(NamedTuple):
    """Most tokens of each part of what a fold leaves."""

    tail: float
    """Newest rounds, verbatim."""
    middle: float
    """The assistant's turns of the middle zone, whole."""
    picked: float
    """Lines picked from the folded part and from the middle's results."""
    prose: float
    """Sentences picked from the assistant's texts."""
    calls: float
    """Lines of calls from which nothing was picked."""
    facts: float
    """Files, errors, concepts, current work."""
    people: float
    """What people said."""
    total: float
    """All of the view together."""
    tail_rounds: int = TAIL_ROUNDS

    @classmethod
    def of(cls, threshold: float, *, tail_rounds: int = TAIL_ROUNDS) -> Budget:
        """The parts of an auto threshold in tokens, by the shares that the retention study found."""
        return cls(**{name: share * threshold for name, share in _SHARES.items()}, tail_rounds=tail_rounds)


class StructuralPlan(NamedTuple):
    """What a fold without a model would do. Entries are counted from 0."""

    start: int
    """First entry folded; what stands before it (system prompt, the harness's context) stays."""
    cut: int
    """First entry kept behind the summary, legal under I1, I2, I8, I9."""
    middle: tuple[tuple[Target, str], ...]
    """Blocks behind the cut that shrink, and the text each then shows."""
    summary: str
    """Not framed yet: see ``frame.framed``."""
    receipt: Receipt
    sections: tuple[Section, ...]
    standing: tuple[str, ...]
    """Ids of folded system entries: instructions keep their authority only as entries, so they are to be shown again (C6)."""


def plan(
    entries: Sequence[Entry],
    *,
    size_of: Callable[[Entry], float],
    estimate: Callable[[str], float],
    target: Budget,
    pins: Sequence[str] = (),
    cwd: str | None = None,
    known: Extractor | None = None,
) -> StructuralPlan | None:
    """Fold the originals of a log. ``size_of`` tokens of an entry as sent, ``estimate`` of a text; ``pins`` stand verbatim in
    the summary; ``cwd`` shortens paths. ``known`` is a memory that one caller may keep for one conversation: texts it has
    seen need no second look, and it changes nothing in the result. None where there is nothing to fold, or nothing was said in it."""
    zones = zones_of(entries, size_of, target)
    if zones is None:
        return None
    kept = sum(map(size_of, entries[: zones.start])) + sum(map(size_of, entries[zones.cut :]))
    made = digest(entries, zones, estimate, target, kept, pins, cwd, known)
    if not made.summary:
        return None
    return StructuralPlan(zones.start, zones.cut, made.middle, made.summary, made.receipt, made.sections, zones.standing)


def zones_of(entries: Sequence[Entry], size_of: Callable[[Entry], float], target: Budget) -> Zones | None:
    """Where the head ends, the middle begins and the tail begins; None where no legal cut leaves anything to fold."""
    found = rounds(entries)
    if len(found) < 2:
        return None
    start = head_end(entries, size_of, target.total / 4)
    legal = legal_cuts(entries)
    first = _tail_round(entries, found, size_of, target)
    tail = _legal_back(legal, found[first].start)
    cut = _legal_back(legal, min(tail, _middle_start(entries, found, first, size_of, target.middle)))
    if cut <= start:
        cut = tail
    if cut <= start:
        return None
    giants = _giants(entries, tail, size_of, target.total * TAIL_SHARE)
    return Zones(start, cut, tail, tuple(found), _standing(entries[start:cut]), giants)


def _giants(entries: Sequence[Entry], tail: int, size_of: Callable[[Entry], float], most: float) -> frozenset[int]:
    """The largest results of a tail that is too large by itself, as few as need to shrink."""
    sizes = {i: size_of(entries[i]) for i in range(tail, len(entries))}
    over = sum(sizes.values()) - most
    giants: set[int] = set()
    for i in sorted(sizes, key=lambda i: (-sizes[i], i)):
        if over <= 0:
            break
        if _shrinks(entries[i]):
            giants.add(i)
            over -= sizes[i]
    return frozenset(giants)


def head_end(entries: Sequence[Entry], size_of: Callable[[Entry], float], most: float) -> int:
    """How many entries at the front stay: the system's, and the harness's context where it is small."""
    size, end = 0.0, 0
    for entry in entries:
        at = size_of(entry)
        instructs = entry.kind in ("system", "attachment") or (entry.kind == "user" and entry.meta)
        if entry.kind not in ("note", "boundary") and not (instructs and (entry.kind == "system" or size + at <= most)):
            break
        size += at
        end += 1
    return end


def _tail_round(entries: Sequence[Entry], found: Sequence[Round], size_of: Callable[[Entry], float], target: Budget) -> int:
    """First round of the tail: as many as fit, at least the floor, and the floor only where it leaves room for a summary."""
    size, first = 0.0, len(found)
    while first > 1:
        more = sum(map(size_of, entries[found[first - 1].start : found[first - 1].stop]))
        count = len(found) - first
        most = target.total * TAIL_SHARE if count < target.tail_rounds else target.tail
        if count and size + more > most:
            break
        size += more
        first -= 1
    return first


def _middle_start(entries: Sequence[Entry], found: Sequence[Round], first: int, size_of: Callable[[Entry], float], most: float) -> int:
    """Where the middle zone begins: as many rounds before the tail as fit when their results are counted as next to nothing."""
    size = 0.0
    while first > 1:
        part = entries[found[first - 1].start : found[first - 1].stop]
        size += sum(_shrunk_size(entry, size_of) for entry in part)
        if size > most:
            break
        first -= 1
    return found[first].start


def _shrunk_size(entry: Entry, size_of: Callable[[Entry], float]) -> float:
    """About what an entry of the middle zone takes: a large result next to nothing, all else its size."""
    size = size_of(entry)
    return 60.0 if size > 240 and _shrinks(entry) else size


def _shrinks(entry: Entry) -> bool:
    if is_told_result(entry):
        return True
    return entry.kind in ("user", "attachment") and (entry.meta or all(isinstance(block, ToolResult) for block in entry.blocks))


def _legal_back(legal: Sequence[bool], at: int) -> int:
    while at > 0 and not legal[at]:
        at -= 1
    return at


def _standing(folded: Sequence[Entry]) -> tuple[str, ...]:
    """System entries among the folded ones; of equal ones the last."""
    last: dict[str, str] = {}
    for entry in folded:
        if entry.kind == "system" and entry.blocks:
            last[repr(entry.blocks)] = entry.id
    return tuple(last.values())
