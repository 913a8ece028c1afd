"""Context collapse: finished stretches stand under summaries that were made beforehand (X4)."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import pairwise

from ..edits import cut
from ..entries import Change, Entry, HideSpan
from ..messages import Text
from ..pairing import is_speech
from ..policy import CollapsePolicy
from ..state import StagedSummary
from ..view import View
from ..window import Window, scaled


def stretch(
    view: View,
    sizes: Sequence[int],
    staged: Sequence[StagedSummary],
    policy: CollapsePolicy,
    window: Window,
    pinned: Container[str] = (),
) -> cut.Span | None:
    """The oldest finished stretch worth a summary that has none yet: what stands between two messages of a person, if it is large
    enough and cut legally. The one that is going on is never finished."""
    shown = view.shown()
    known = {summary.first for summary in staged}
    legal = cut.legal(view)
    speech = [i for i, item in enumerate(shown) if is_speech(item.entry) and not item.entry.summary]
    for before, after in pairwise(speech):
        start, stop = cut.forward(legal, before + 1), cut.back(legal, after)
        if stop - start < 2 or sum(sizes[start:stop]) < scaled(policy.stretch_tokens, window):
            continue
        if any(shown[i].entry.summary or shown[i].entry.id in pinned for i in range(start, stop)):
            continue
        found = cut.span(view, start, stop)
        if found is not None and found.first not in known:
            return found
    return None


def commit(view: View, staged: StagedSummary, id: str, now: float) -> tuple[Change, ...] | None:
    """The change that puts a staged summary in place; None where the stretch no longer stands in the view as it did."""
    first, last = cut.place_of(view, staged.first), cut.place_of(view, staged.last)
    if first is None or last is None or last < first or not staged.text.strip():
        return None
    legal = cut.legal(view)
    if not (legal[first] and legal[last + 1]):
        return None
    entry = Entry(id=f"{id}.summary", kind="user", blocks=(Text(staged.text),), time=now, meta=True, summary=True)
    return (HideSpan(first=staged.first, last=staged.last, stand_ins=(entry,)),)
