"""Where a conversation is cut for a fold: what stays at the front, what is folded, what shrinks, what stays verbatim.

[head kept] [ folded: summary ] [ middle: assistant whole, results shrunk ] [ tail verbatim ]
           start              cut                                       tail
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from ..core.entries import SHOWN_AS, Entry
from ..core.messages import ToolResult
from ..core.pairing import Pairing, Round, legal_cuts, pair, rounds
from .spoken import is_told_result

TAIL_ROUNDS = 3
"""Floor of the verbatim tail (L14)."""
TAIL_SHARE = 0.5
"""The tail takes at most this share of the whole view, its floor of rounds and its giant results included."""
MOST_SHARE = 0.75
"""More of the threshold than this the whole view never takes, but for parts that cannot be made smaller (A11: 0.8 is success)."""
_SHARES = {"tail": 0.06, "middle": 0.08, "picked": 0.17, "prose": 0.03, "calls": 0.02, "facts": 0.02, "people": 0.10, "total": 0.36}
PEOPLE_MOST = 3.0
"""Times their share: nearly a third of the threshold."""
_SMALL_TOTAL = 3_000
"""Under this total the frame is the short one."""
SHRUNK_TOKENS = 60.0
"""About what a large result of the middle takes when it is shrunk."""
GIANT_TOKENS = 300.0
"""So much at least stays of a result of the tail that has to shrink, where shrinking more of them makes that possible."""


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
    """All of the view together, which is aimed at."""
    tail_rounds: int = TAIL_ROUNDS
    most: float = inf
    """All of the view together, never to be passed."""

    @classmethod
    def of(cls, threshold: float, *, tail_rounds: int = TAIL_ROUNDS) -> Budget:
        """The parts of an auto threshold in tokens, by the shares that the retention study found."""
        parts = {name: share * threshold for name, share in _SHARES.items()}
        return cls(**parts, tail_rounds=tail_rounds, most=MOST_SHARE * threshold)

    @property
    def digest(self) -> float:
        """All that stands in a summary together."""
        return self.picked + self.prose + self.calls + self.facts + self.people

    @property
    def people_most(self) -> float:
        """What people said may take where nothing else of it can go: their words stand outside of the summary's cap (L12)."""
        return PEOPLE_MOST * self.people

    @property
    def is_small(self) -> bool:
        """Whether every word of ours about the summary counts."""
        return self.total < _SMALL_TOTAL

    def scaled(self, share: float) -> Budget:
        """Every part times ``share``; what is never to be passed stays."""
        parts = {name: part * share for name, part in zip(_SHARES, self, strict=False)}
        return Budget(**parts, tail_rounds=self.tail_rounds, most=self.most)


class Zones(NamedTuple):
    """Places among the entries: the head ends at ``start``, the middle begins at ``cut``, the tail at ``tail``."""

    start: int
    cut: int
    tail: int
    rounds: int
    """How many rounds the conversation has."""
    pairing: Pairing
    sizes: list[float]
    """Tokens of each entry as shown."""
    standing: tuple[int, ...]
    """Folded system entries, to be shown again; of equal ones the last."""
    giants: frozenset[int]
    """Entries of the tail whose results have to shrink, or there would be no room for anything else."""
    giant_tokens: float
    """So much of each of them may stay."""

    @property
    def kept(self) -> float:
        """Tokens of what is not folded, nothing shrunk yet, and of what is shown again."""
        sizes = self.sizes
        return sum(sizes[: self.start]) + sum(sizes[self.cut :]) + sum(sizes[i] for i in self.standing)


class _Layout(NamedTuple):
    """What all ways to cut one conversation share."""

    entries: Sequence[Entry]
    sizes: list[float]
    rounds: list[Round]
    pairing: Pairing
    legal: list[bool]
    start: int


def zones_of(entries: Sequence[Entry], size_of: Callable[[Entry], float], target: Budget) -> Iterator[Zones]:
    """Ways to cut, from the one that is wanted to the one that keeps least: without a middle zone, with fewer rounds in the tail,
    with nothing but what no response has answered yet. Nothing where no legal cut leaves anything to fold."""
    sizes = [size_of(entry) if entry.kind in SHOWN_AS else 0.0 for entry in entries]
    pairing = pair(entries)
    start = _head_end(entries, sizes, target.total / 4)
    layout = _Layout(entries, sizes, rounds(entries), pairing, legal_cuts(entries, pairing), start)
    seen = set[tuple[int, int]]()
    for tail, with_middle in _ways(layout, target):
        tail = _legal_back(layout.legal, tail)
        cut = _legal_back(layout.legal, _middle_start(layout, tail, target.middle)) if with_middle else tail
        cut = cut if cut > start else tail
        if cut > start and (cut, tail) not in seen:
            seen.add((cut, tail))
            giants, giant_tokens = _giants(layout, tail, target)
            standing = _standing(entries, start, cut)
            yield Zones(start, cut, tail, len(layout.rounds), pairing, sizes, standing, giants, giant_tokens)


def _ways(layout: _Layout, target: Budget) -> Iterator[tuple[int, bool]]:
    """Where the tail may begin, and whether a middle zone stands before it."""
    begins = _tail_begins(layout, target)
    if begins:
        yield begins[-1], True
        yield begins[-1], False
        yield from ((begin, False) for begin in reversed(begins[: target.tail_rounds]))
    yield _answered(layout.entries), False


def _tail_begins(layout: _Layout, target: Budget) -> list[int]:
    """Where a tail of 1, 2 … rounds begins: as many as fit, at least the floor, and the floor only where it leaves room for a
    summary, its largest results shrunk. The first round is never in it."""
    size = shrunk = 0.0
    begins: list[int] = []
    if not target.tail_rounds:
        return begins
    for found in reversed(layout.rounds[1:]):
        part = range(found.start, found.stop)
        size += sum(layout.sizes[i] for i in part)
        shrunk += sum(_shrunk(layout, i) for i in part)
        fits = shrunk <= target.total * TAIL_SHARE if len(begins) < target.tail_rounds else size <= target.tail
        if begins and not fits:
            break
        begins.append(found.start)
    return begins


def _answered(entries: Sequence[Entry]) -> int:
    """Where begins what no response has answered yet: results and messages behind the last one."""
    end = len(entries)
    while end and entries[end - 1].kind != "assistant":
        end -= 1
    return end


def _giants(layout: _Layout, tail: int, target: Budget) -> tuple[frozenset[int], float]:
    """The largest results of a tail that is too large by itself, as few as need to shrink, and what may stay of each."""
    sizes = layout.sizes
    most = target.total * TAIL_SHARE
    rest = sum(sizes[tail:])
    giants: list[int] = []
    share = 0.0
    for i in sorted(range(tail, len(sizes)), key=lambda i: (-sizes[i], i)) if rest > most else ():
        if share >= GIANT_TOKENS or sizes[i] <= 2 * SHRUNK_TOKENS:
            break
        if _shrinks(layout.entries[i]):
            giants.append(i)
            rest -= sizes[i]
            share = (most - rest) / len(giants)
    return frozenset(giants), min(max(share, SHRUNK_TOKENS), max(target.tail, GIANT_TOKENS))


def _head_end(entries: Sequence[Entry], sizes: Sequence[float], most: float) -> int:
    """How many entries at the front stay: the system's, and the harness's context where it is small."""
    size, end = 0.0, 0
    for entry, at in zip(entries, sizes, strict=True):
        instructs = entry.kind in ("system", "attachment") or (entry.kind == "user" and entry.meta)
        if entry.kind not in ("note", "boundary") and not (instructs and (entry.kind == "system" or size + at <= most)):
            break
        size += at
        end += 1
    return end


def _middle_start(layout: _Layout, tail: int, most: float) -> int:
    """Where the middle zone begins: as many rounds before the tail as fit when their results are counted as next to nothing."""
    size, begin = 0.0, tail
    for found in reversed(layout.rounds[1:]):
        if found.start >= tail:
            continue
        size += sum(_shrunk(layout, i) for i in range(found.start, min(found.stop, tail)))
        if size > most:
            break
        begin = found.start
    return begin


def _shrunk(layout: _Layout, i: int) -> float:
    """About what an entry takes when its results are shrunk: a large result next to nothing, all else its size."""
    size = layout.sizes[i]
    return SHRUNK_TOKENS if size > 4 * SHRUNK_TOKENS and _shrinks(layout.entries[i]) else size


def _shrinks(entry: Entry) -> bool:
    if is_told_result(entry):
        return True
    return entry.kind in ("user", "attachment") and (entry.meta or all(isinstance(block, ToolResult) for block in entry.blocks))


def _legal_back(legal: Sequence[bool], at: int) -> int:
    while at > 0 and not legal[at]:
        at -= 1
    return at


def _standing(entries: Sequence[Entry], start: int, cut: int) -> tuple[int, ...]:
    last: dict[str, int] = {}
    for i in range(start, cut):
        if entries[i].kind == "system" and entries[i].blocks:
            last[repr(entries[i].blocks)] = i
    return tuple(last.values())
