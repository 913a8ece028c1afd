"""The summary without a model (L6, L14): what is folded, what shrinks in the middle zone, and the text that stands for it.

Made anew from the whole log each time, within a budget, so it never grows and never degrades. A pure function: the same
entries give the same bytes. ``zones`` draws where a conversation is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..core.entries import Entry, Target
from .build import Digest, Job, digest
from .receipt import Receipt
from .references import Extractor
from .sections import Section
from .zones import TAIL_ROUNDS as TAIL_ROUNDS
from .zones import Budget as Budget
from .zones import Zones, zones_of


class StructuralPlan(NamedTuple):
    """What a fold without a model would do. Entries are counted from 0."""

    start: int
    """First entry folded; what stands before it (system prompt, the harness's context) stays."""
    cut: int
    """First entry kept behind the summary, legal under I1, I2, I8, I9; all entries are folded where it is their number."""
    middle: tuple[tuple[Target, str], ...]
    """Blocks behind the cut that shrink, and the text each then shows, never longer than what the view shows now."""
    summary: str
    """Not framed yet: see ``frame.framed``."""
    receipt: Receipt
    sections: tuple[Section, ...]
    standing: tuple[str, ...]
    """Ids of folded system entries: instructions keep their authority only as entries, so they are to be shown again (C6)."""
    size: float = 0.0
    """Tokens of the view that the fold leaves, by the same measures, its frame included."""
    brief: bool = False
    """The window is so small that the frame has to be the short one."""


def plan(
    entries: Sequence[Entry],
    *,
    size_of: Callable[[Entry], float],
    estimate: Callable[[str], float],
    target: Budget,
    pins: Sequence[str] = (),
    cwd: str | None = None,
    known: Extractor | None = None,
    step: int = 0,
    running: Sequence[tuple[str, str, str]] | None = None,
    shown: Callable[[str], Entry | None] | None = None,
) -> StructuralPlan | None:
    """Fold the originals of a log. None where there is nothing to fold, or nothing was said in it.

    ``size_of`` tokens of an entry as the view shows it, ``estimate`` of a text; ``pins`` stand verbatim in the summary; ``cwd``
    shortens paths. ``known`` is a memory that one caller may keep for one conversation and feed ahead of time
    (``Extractor.learn``): it changes nothing in the result but what it costs.

    ``step`` asks for less (A8): 1 for half, 2 for a summary with nothing behind it but what no response has answered yet.
    ``running``: id, task and status of each background task, word for word from who runs them; None: the log tells.
    ``shown``: an entry of the log as the view shows it, by its id, None for a hidden one; where it is not given, as it was said.
    """
    target = _smaller(target, step)
    memory = (known or Extractor()).knowing(entries)
    job = Job(entries, memory, estimate, target, pins, cwd, running, shown)
    best: tuple[Zones, Digest] | None = None
    for zones in zones_of(entries, size_of, target):
        made = digest(job, zones)
        if made.summary and (best is None or made.size < best[1].size):
            best = zones, made
        if made.size <= target.most:
            break
    if best is None:
        return None
    zones, made = best
    standing = tuple(entries[i].id for i in zones.standing)
    return StructuralPlan(
        zones.start, zones.cut, made.middle, made.summary, made.receipt, made.sections, standing, made.size, target.is_small
    )


def _smaller(target: Budget, step: int) -> Budget:
    if step <= 0:
        return target
    half = target.scaled(0.5)
    return half if step == 1 else half._replace(tail_rounds=0, tail=0.0, middle=0.0)
