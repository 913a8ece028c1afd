"""What a change of the prefix does to thinking that is bound to it (I2, I7).

On models that bind thinking, any change before a kept thinking block makes it and all later ones invalid, for good
(facts: the provider's page on preserved thinking). So a fold there hides all thinking of what it keeps, at once and
without a gap; and where the latest response stands inside an open tool loop, whose thinking may not be touched, it waits or
takes another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from ..economics import Model
from ..entries import Change, HideThinking
from ..messages import ToolResult, ToolUse, is_thinking
from ..pairing import is_speech, pair
from ..view import View

Way: TypeAlias = Literal["free", "hide", "wait"]
FOLLOWS = frozenset({"undo", "late"})
"""Levels of folds that nobody decided on: they keep out of view what something else has made invalid, and are never taken back."""


class Bound(NamedTuple):
    """What a change at a place of a view means for the thinking behind it. ``hide`` comes with the change to add."""

    way: Way
    hiding: HideThinking | None = None


def is_bound(model: Model) -> bool:
    """Whether a model's thinking has to be taken for bound to its prefix."""
    return model.thinking in ("bound", "bound_by_account")


def open_loop(view: View) -> int | None:
    """Where the latest response begins if it is inside a tool loop that goes on: it has calls and no person has spoken since.
    None where the loop has ended."""
    shown = view.shown()
    for i in range(len(shown), 0, -1):
        entry = shown[i - 1].entry
        if entry.kind == "assistant":
            first = i - 1
            while first > 0 and shown[first - 1].entry.kind == "assistant" and shown[first - 1].entry.api_id == entry.api_id:
                first -= 1
            calls = any(isinstance(block, ToolUse) for item in shown[first:] for block in item.entry.blocks)
            return first if calls else None
        if is_speech(entry) and not entry.summary:
            return None
    return None


def bound(view: View, model: Model, changed: int, kept: Sequence[int] | None = None) -> Bound:
    """What to do about thinking when the first change stands at place ``changed`` and what is at ``kept`` (default: all behind
    it) stays in view."""
    if not is_bound(model):
        return Bound("free")
    shown = view.shown()
    places = range(changed, len(shown)) if kept is None else kept
    thoughtful = [i for i in places if any(is_thinking(block) for block in shown[i].entry.blocks)]
    if not thoughtful:
        return Bound("free")
    loop = open_loop(view)
    if loop is not None and thoughtful[-1] >= loop:
        return Bound("wait")
    log = view.log
    first = shown[thoughtful[0]].position
    return Bound("hide", HideThinking(first=log.entry_at(max(first, log.base)).id, last=log.entry_at(len(log) - 1).id))


def overtaken(view: View) -> int | None:
    """The first place that a result since the last response changes on the wire: a late one is sent in its call's answer (I9), in front
    of what was thought since. None where none is late."""
    shown = view.shown()
    last = len(shown)
    while last > 0 and shown[last - 1].entry.kind != "assistant":
        last -= 1
    answered = {block.tool_use_id for item in shown[last:] for block in item.entry.blocks if isinstance(block, ToolResult)}
    first = last
    while first > 0 and shown[first - 1].entry.kind == "assistant":
        first -= 1
    called = {block.id for item in shown[first:last] for block in item.entry.blocks if isinstance(block, ToolUse)}
    return None if answered <= called else _behind_late(view, last)


def out_of_order(view: View) -> int | None:
    """The same for a view that has come back, whenever its results came."""
    return _behind_late(view, 0)


def _behind_late(view: View, since: int) -> int | None:
    """Behind the first call whose result stands at place ``since`` or later, and comes after something that was thought meanwhile."""
    entries = list(view.entries())
    thought = [i for i, entry in enumerate(entries) if any(is_thinking(block) for block in entry.blocks)]
    late = [(call.entry, result.entry) for call, result, late in pair(entries).pairs if late and result.entry >= since]
    return min((call + 1 for call, result in late if any(call < place < result for place in thought)), default=None)


def settled(changes: tuple[Change, ...], found: Bound) -> tuple[Change, ...]:
    """The changes of a fold with the hiding behind them."""
    return changes if found.hiding is None else (*changes, found.hiding)
