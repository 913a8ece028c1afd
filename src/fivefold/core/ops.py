"""Small moves that all parts of the engine share: each takes a state and the actions so far, and gives the next state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from .actions import Action, Append, Emit
from .edits import cut, thinking
from .entries import Change, Entry, Fold, Record
from .estimate import estimate_text
from .levels.cached import CachedEdits
from .messages import JSON, Text, ToolResult, result_text
from .state import State


def append(state: State, out: list[Action], *records: Record) -> State:
    """With records behind the log, and word of it to whoever keeps them."""
    out.append(Append(records=records))
    return state.with_records(*records)


def attach(state: State, out: list[Action], entries: tuple[Entry, ...]) -> State:
    """Attachments behind the end; while a call is open they wait (C1)."""
    if not entries:
        return state
    if cut.open_calls(state.view):
        return track(state, waiting=(*state.tracking.waiting, *entries))
    return append(state, out, *entries)


def pin_again(state: State, out: list[Action], fold: Fold, before: Iterable[Entry]) -> State:
    """Pinned texts that a fold takes from the view, put behind its end (X7)."""
    if not state.tracking.pins:
        return state
    known = pins_not_in(state, before)
    lost = [pin for pin in pins_not_in(state, state.view.sent()) if pin not in known]
    made = [Entry(id=f"{fold.id}.pin{i}", kind="attachment", blocks=(Text(pin),), time=fold.time) for i, pin in enumerate(lost, 1)]
    return attach(state, out, tuple(made))


def emit(out: list[Action], name: str, **fields: JSON) -> None:
    """One more event for whoever listens."""
    out.append(Emit(name=name, fields=fields))


def say_once(state: State, out: list[Action], note: str) -> State:
    """Tell something that is told once in a conversation."""
    if note in state.tracking.said:
        return state
    emit(out, "note", text=note)
    return track(state, said=(*state.tracking.said, note))


def track(state: State, **changes: object) -> State:
    """With some of the tracking changed."""
    return state._replace(tracking=msgspec.structs.replace(state.tracking, **changes))


def pinned(state: State) -> frozenset[str]:
    """Ids of the entries that are pinned: no level changes how they are shown (X7)."""
    return frozenset(pin.name for pin in state.tracking.pins)


def pins_not_in(state: State, entries: Iterable[Entry], text: str = "") -> tuple[str, ...]:
    """The pinned texts that neither one of these entries nor ``text`` holds verbatim (X7)."""
    missing = [pin.text for pin in state.tracking.pins if pin.text not in text]
    if not missing:
        return ()
    said = ["\n".join(_words(block) for block in entry.blocks if isinstance(block, Text | ToolResult)) for entry in entries]
    return tuple(pin for pin in missing if not any(pin in words for words in said))


def _words(block: Text | ToolResult) -> str:
    return block.text if isinstance(block, Text) else result_text(block)


def tokens_of(state: State, text: str) -> int:
    """Tokens of a text, unpadded."""
    return int(estimate_text(text, state.setup.model.generation))


def metered(state: State, tokens: int) -> int:
    """Unpadded tokens as the meter counts them."""
    return round(state.ledger.calibration.apply(tokens) * state.tracking.correction)


def sizes(state: State) -> list[int]:
    """Unpadded tokens of each entry shown."""
    return [measure.tokens for measure in state.ledger.measures]


class Small(NamedTuple):
    """A fold of one change that makes the view smaller, weighed and not appended yet."""

    fold: Fold
    after: State
    drop_thinking: bool


def weigh(state: State, level: str, change: Change, now: float, why: str, *, at: int, must_gain: bool = True) -> Small | None:
    """A fold of one change. ``at``: the first place that changes. None where bound thinking forbids it now (I7), or, with
    ``must_gain``, where the view does not get smaller."""
    bound = thinking.bound(state.view, state.setup.model, at)
    if bound.way == "wait" and not state.setup.policy.thinking.drop_setting:
        return None
    changes = thinking.settled((change,), bound)
    fold = Fold(id=cut.fold_id(state.log), level=level, changes=changes, why=why, time=now, tokens_before=state.used)
    after = state.with_records(fold)
    if must_gain and after.ledger.estimated >= state.ledger.estimated:
        return None
    return Small(msgspec.structs.replace(fold, tokens_after=after.used), after, bound.way == "wait")


def commit(state: State, out: list[Action], small: Small, path: str) -> State:
    """Append a weighed fold."""
    fold, before = small.fold, state.view
    out.append(Append(records=(fold,)))
    state = state.with_weighed(fold, small.after)
    if small.drop_thinking:
        state = track(state, drop_thinking=True)
    if state.tracking.cached != CachedEdits():
        state = track(state, cached=CachedEdits())  # the places of its edits have moved (M3)
    emit(
        out,
        "folded",
        level=fold.level,
        path=path,
        fold=fold.id,
        tokens_before=fold.tokens_before,
        tokens_after=fold.tokens_after,
        why=fold.why,
    )
    return pin_again(state, out, fold, before.sent())


def fold_small(state: State, out: list[Action], level: str, change: Change, now: float, why: str, *, at: int, path: str) -> State | None:
    """Weigh and append; None, and nothing appended, where it may not be or gains nothing."""
    small = weigh(state, level, change, now, why, at=at)
    return None if small is None else commit(state, out, small, path)
