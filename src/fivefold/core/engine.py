"""The engine: one event in, the next state and what to do out.

``LEGAL`` says what may happen in which phase; ``step`` refuses the rest and leaves the state as it was. No phase is dead: a person
can always speak, and a cancel always leads back to ``READY``. While an action waits for its answer, only that answer moves the
work on; what is said meanwhile goes to the end of the log, where no fold reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from ..errors import IllegalEventError, PinError
from . import cascade, ladder, ops, recover, remember, undo
from .actions import Action, Done, GiveUp
from .edits import cut, thinking
from .entries import Entry, Fold, HideSpan
from .estimate import Measure, measure_entry
from .events import (
    Cancelled,
    CompactAsked,
    Counted,
    Event,
    FilesRead,
    HookAnswered,
    Marked,
    MemoryRead,
    MemoryUpdated,
    Pinned,
    Replied,
    RequestDue,
    RequestRejected,
    Said,
    Staged,
    Summarized,
    SummaryFailed,
    Undone,
    Unpinned,
)
from .levels import cached
from .log import Log
from .messages import Compaction
from .pairing import Reading
from .sources import is_main
from .state import Phase, Pin, Rung, Setup, StagedSummary, State, Step, Tracking, Work
from .tokens import lived_through, overhead_of
from .view import View
from .window import scaled, window_of

BACKGROUND = frozenset({Said, Staged, MemoryUpdated, Marked, Pinned, Unpinned, Cancelled})
"""Legal everywhere: they wait for nobody."""
LEGAL: Mapping[Phase, frozenset[type]] = {
    Phase.READY: BACKGROUND | {RequestDue, Replied, CompactAsked, Undone},
    Phase.WAITING: BACKGROUND | {HookAnswered, MemoryRead, FilesRead, Summarized, SummaryFailed, Counted},
    Phase.SENT: BACKGROUND | {Replied, RequestRejected},
}
_WAITS_FOR: Mapping[type, str] = {
    HookAnswered: "hook_answered",
    MemoryRead: "memory_read",
    FilesRead: "files_read",
    Summarized: "summarized",
    SummaryFailed: "summarized",
    Counted: "counted",
}


def begin(log: Log, setup: Setup, tracking: Tracking | None = None, *, measure: Callable[[Entry], Measure] | None = None) -> State:
    """The state of a conversation, from its log and what was kept beside it (K2). Whatever was going on when it stopped is not.
    ``measure``: tokens of an entry, where the setup's own model does not tell."""
    model = setup.model
    measure = measure or partial(measure_entry, generation=model.generation, image_cap=model.image_cap)
    ledger = lived_through(log, measure, overhead=overhead_of(log.head, model.generation, model.image_cap), fixed=setup.overhead)
    view = ledger.view
    known = tracking or remember.recalled(log) or Tracking()
    tracking = msgspec.structs.replace(
        known,
        extracting=False,
        staging=False,
        extracted_at=0,
        turns=known.turns or _turns_since(log, known.turn_id),
        measured=max(known.measured, _answered(log)),
        last_response=known.last_response or _last_response(view),
    )
    if known.learned_window is not None and known.learned_window < setup.window.context:
        learned = window_of(known.learned_window, model.max_output, setup.policy.window, auto=setup.policy.auto.enabled)
        setup = msgspec.structs.replace(setup, window=learned)
    return State(setup, measure, view.log, view, ledger, tracking, tracking)


def _turns_since(log: Log, turn_id: str) -> int:
    """Responses since the compaction that began this chain (A5)."""
    start = next((placed.at for placed in log.folds if placed.fold.id == turn_id), log.base)
    reading = Reading()
    for position in range(max(start, log.base), len(log)):
        reading = reading.read(log.entry_at(position))
    return reading.number


def _answered(log: Log) -> int:
    """How many entries the provider has seen: those up to the last response."""
    for position in range(len(log) - 1, log.base - 1, -1):
        if log.entry_at(position).kind == "assistant":
            return position + 1
    return log.base


def _last_response(view: View) -> float | None:
    for item in reversed(view.shown()):
        if item.entry.kind == "assistant":
            return item.entry.time
    return None


def step(state: State, event: Event) -> Step:
    """The next state, and what is to be done. Raises IllegalEventError for an event that this phase does not take, LogError for
    entries that do not fit the log, PinError; the state is then what it was."""
    kind = type(event)
    if kind not in LEGAL[state.phase]:
        raise IllegalEventError(f"{kind.__name__} cannot happen while the conversation is {state.phase.value}")
    if state.phase is Phase.WAITING and _WAITS_FOR.get(kind, state.waits_for) != state.waits_for:
        raise IllegalEventError(f"{kind.__name__} answers nothing that is waited for ({state.waits_for})")
    out: list[Action] = []
    new = _dispatch(state, event, out)
    if new.phase is Phase.READY and new.pending is not None and new.work is None:
        new = _send_pending(new, out, event)
    if new.phase is not Phase.WAITING and remember.changed(new.remembered, new.tracking):
        new = ops.append(new, out, remember.note(new.tracking, new.log, time=_time_of(event)))._replace(remembered=new.tracking)
    return Step(new, tuple(out))


def _time_of(event: Event) -> float | None:
    match event:
        case RequestDue(now=now) | Replied(now=now) | RequestRejected(now=now) | CompactAsked(now=now) | Undone(now=now):
            return now
        case _:
            return None


def _send_pending(state: State, out: list[Action], event: Event) -> State:
    """A request has waited for the cascade, which is through."""
    request = state.pending
    assert request is not None
    if state.sent is not None and state.sent is request and not isinstance(event, RequestDue):
        ops.emit(out, "retry", transition="reactive_compact_retry")
        return cascade.send(state, out, request, "reactive_compact_retry")
    return cascade.proceed(state, out)


def _dispatch(state: State, event: Event, out: list[Action]) -> State:
    match event:
        case Said(entries=entries):
            return _said(state, out, entries) if entries else state
        case RequestDue():
            return cascade.before_request(state._replace(sent=None), out, event)
        case Replied():
            return _released(_replied(state, out, event), out)
        case RequestRejected():
            return recover.rejected(_released(state, out), out, event)
        case CompactAsked():
            return _asked(state, out, event)
        case Cancelled():
            return _cancelled(_released(state, out), out)
        case Undone():
            return undo.undone(state, out, event)
        case HookAnswered() | MemoryRead() | FilesRead() | Summarized() | SummaryFailed() | Counted():
            return _answered_with(state, out, event)
        case _:
            return _noted(state, out, event)


def _said(state: State, out: list[Action], entries: tuple[Entry, ...]) -> State:
    """Behind the end of the log; where thinking is bound to what was sent, behind the response that is on its way (I7)."""
    if state.phase is not Phase.SENT or not thinking.is_bound(state.setup.model):
        return ops.append(state, out, *entries)
    state.with_records(*state.held, *entries)  # raises for what does not fit
    return state._replace(held=(*state.held, *entries))


def _released(state: State, out: list[Action]) -> State:
    """What was held back is said."""
    return ops.append(state, out, *state.held)._replace(held=()) if state.held else state


def _answered_with(state: State, out: list[Action], event: Event) -> State:
    """Answers to what the ladder has asked for."""
    state = state._replace(phase=Phase.READY)
    match event:
        case HookAnswered():
            return ladder.hook_answered(state, out, event)
        case MemoryRead():
            return ladder.memory_read(state, out, event)
        case FilesRead():
            return ladder.files_read(state, out, event)
        case Summarized():
            return ladder.summarized(state, out, event)
        case SummaryFailed():
            return ladder.summary_failed(state, out, event)
        case Counted(tokens=tokens):
            return cascade.decide(_counted(state, tokens), out)
        case _:
            return state


def _counted(state: State, tokens: int | None) -> State:
    """An exact count holds until the next response (T5)."""
    ours = state.ledger.size().used
    correction = tokens / ours if tokens and ours else state.tracking.correction
    return ops.track(state, correction=correction, counted_on=cut.fold_id(state.log))


def _noted(state: State, out: list[Action], event: Event) -> State:
    """What only has to be remembered."""
    tracking = state.tracking
    match event:
        case Staged(first=first, last=last, text=text, why=why):
            if not text.strip():
                ops.emit(out, "staging_failed", first=first, last=last, why=why)
            return ops.track(state, staging=False, staged=(*tracking.staged, StagedSummary(first, last, text)))
        case MemoryUpdated(covered=covered, why=why):
            if covered is None:
                ops.emit(out, "extraction_failed", why=why)
                return ops.track(state, extracting=False)
            return ops.track(state, extracting=False, covered=covered)
        case Marked(ids=ids):
            return ops.track(state, marked=(*tracking.marked, *(id for id in ids if id not in tracking.marked)))
        case Pinned(name=name, text=text):
            return _pinned(state, Pin(name, text))
        case Unpinned(name=name):
            if all(pin.name != name for pin in tracking.pins):
                raise PinError(f"nothing is pinned under {name!r}")
            return ops.track(state, pins=tuple(pin for pin in tracking.pins if pin.name != name))
        case _:
            return state


def _pinned(state: State, pin: Pin) -> State:
    """One more pin, within the budget of all (X7)."""
    if not pin.text.strip():
        raise PinError(f"{pin.name!r} holds no text that could be kept")
    pins = (*(one for one in state.tracking.pins if one.name != pin.name), pin)
    budget = int(state.setup.window.auto * state.setup.policy.pins.budget_percent / 100)
    held = sum(state.ledger.calibration.apply(ops.tokens_of(state, one.text)) for one in pins)
    if held > budget:
        raise PinError(
            f"with {pin.name!r} the pins hold {held:,} tokens, the budget is {budget:,} "
            f"({state.setup.policy.pins.budget_percent:g}% of the threshold): unpin something, or pin less"
        )
    return ops.track(state, pins=pins)


def _replied(state: State, out: list[Action], event: Replied) -> State:
    """A response: what was counted since the last one starts anew."""
    measured = len(state.log) + len(event.entries)
    state = ops.append(state, out, *event.entries)._replace(phase=Phase.READY, sent=None, pending=None)
    state = ops.track(
        state,
        turns=state.tracking.turns + 1,
        recoveries=0,
        reacted=False,
        cached=cached.pin(state.tracking.cached) if is_main(event.source) else state.tracking.cached,
        correction=1.0,
        fresh=False,
        measured=measured,
        last_response=event.now,
        suppressed=state.tracking.suppressed and not any(entry.usage for entry in event.entries),
    )
    for edit in event.applied:
        ops.emit(out, "server_edited", **msgspec.structs.asdict(edit))
    return _provider_compacted(state, out, event)


def _provider_compacted(state: State, out: list[Action], event: Replied) -> State:
    """A compaction block that the provider made stands for all messages before it (E7); what is pinned is put behind it (X7)."""
    for entry in event.entries:
        made = [block for block in entry.blocks if isinstance(block, Compaction) and block.data.get("content") is not None]
        view = state.view
        span = cut.span(view, cut.head_end(view, ops.sizes(state), 0), cut.place_of(view, entry.id) or 0) if made else None
        if span is not None:
            fold = Fold(
                id=cut.fold_id(state.log),
                level="server",
                changes=(HideSpan(first=span.first, last=span.last),),
                why="the provider's own compaction (E7)",
                time=event.now,
                tokens_before=state.used,
            )
            state = ops.append(state, out, fold)
            ops.emit(out, "folded", level="server", path="compaction", fold=fold.id, why=fold.why)
            state = ops.pin_again(state, out, fold, view.sent())
    return state


def _asked(state: State, out: list[Action], event: CompactAsked) -> State:
    """A compaction that somebody asked for; inside an open call it waits for the next legal point (X8)."""
    if event.level in ("snip", "micro", "collapse"):
        return _one_level(state, out, event)
    if event.pivot is not None or event.level == "partial":
        return _partial(state, out, event)
    if event.source == "agent":
        return ops.track(state, asked=event)
    return ladder.begin(state, out, cascade.manual(state, event))


def _one_level(state: State, out: list[Action], event: CompactAsked) -> State:
    """Just this one, forced (Z1)."""
    before = state
    match event.level:
        case "snip":
            state = cascade.superseded(cascade.snipped(state, out, event.now) if state.tracking.marked else state, out, event.now, least=1)
        case "micro":
            keep = state.setup.policy.micro.keep_results
            state = cascade.clear(state, out, event.now, "asked for (M8)", keep=keep) or state
            state = cascade.capped(state, out, event.now, everything=True)
        case _:
            while state.tracking.staged:
                state, _ = cascade.commit_one(state, out, event.now)
    gained = state.used < before.used
    out.append(Done(success=gained, why="" if gained else f"level {event.level} has nothing to fold here that is worth it"))
    return state


def _partial(state: State, out: list[Action], event: CompactAsked) -> State:
    """Fold what stands before a pivot, or the pivot and what follows (X2); the pivot is moved until the cut is legal."""
    view = state.view
    at = None if event.pivot is None else cut.place_of(view, event.pivot)
    if at is None:
        why = f"no entry {event.pivot!r} is in view"
        out += [GiveUp(end="cannot_fit", message=why), Done(success=False, why=why)]
        return state
    legal = cut.legal(view)
    if event.direction == "up_to":
        start, stop = cut.head_end(view, ops.sizes(state), scaled(2_000, state.setup.window)), cut.back(legal, at)
    else:
        start, stop = max(cut.back(legal, at), cut.head_end(view, ops.sizes(state), 0)), cut.back(legal, len(view))
    span = cut.span(view, start, stop)
    if span is None:
        why = f"there is nothing to fold {event.direction.replace('_', ' ')} entry {event.pivot!r}"
        out += [GiveUp(end="cannot_fit", message=why), Done(success=False, why=why)]
        return state
    method = "structural" if state.setup.policy.summary.method == "native" else state.setup.policy.summary.method
    rungs = tuple(Rung("partial", name, "partial", 1.0) for name in dict.fromkeys((method, "structural")))
    work = Work(
        trigger="manual",
        level="partial",
        now=event.now,
        source=event.source,
        rungs=rungs,
        before=state.used,
        why=f"asked for, {event.direction.replace('_', ' ')} {event.pivot}",
        asked=event,
        instructions=event.instructions,
        first=span.first,
        last=span.last,
    )
    return ladder.begin(state, out, work)


def _cancelled(state: State, out: list[Action]) -> State:
    """Stop whatever is going on (A6, Q4)."""
    if state.work is not None:
        state = ladder.cancel(state, out)
    return state._replace(phase=Phase.READY, waits_for="", pending=None, sent=None)
