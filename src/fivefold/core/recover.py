"""Level 4: a refused request made to fit and sent again (R1–R10, W9). At most so many in a row, each strictly smaller than the one
refused; what cannot be recovered is handed on as it came."""

from __future__ import annotations

import msgspec

from . import cascade, ladder, ops
from .actions import Action, End, GiveUp
from .edits import cut, media, shorten
from .entries import ReplaceBlocks
from .events import RequestDue, RequestRejected
from .levels import auto, caps
from .rejection import Rejection
from .sources import NEVER_FOR
from .state import Phase, State, Work
from .window import window_of

LEAST_WINDOW = 4_096
"""No window is smaller (W7): a refusal of less was about something else."""
MARGIN = 0.95
"""Of what a provider takes, so much is aimed at: its count and ours differ."""


def rejected(state: State, out: list[Action], event: RequestRejected) -> State:
    """What to do about a refusal (R2)."""
    request, refusal = state.sent, event.rejection
    assert request is not None
    state = state._replace(phase=Phase.READY)
    if refusal.why in ("transient", "other"):
        return _give_up(state, out, "model_error", refusal)
    end: End = "image_error" if refusal.why == "media" else "prompt_too_long"
    state = _learned(state, out, refusal)
    policy = state.setup.policy
    allowed = policy.reactive.media if refusal.why == "media" else policy.reactive.enabled and policy.auto.enabled
    if not allowed or request.source in NEVER_FOR or request.source == "collapse":
        return _give_up(state, out, end, refusal)
    if state.tracking.recoveries >= policy.reactive.max_recoveries:
        return _give_up(state, out, end, refusal)
    state = ops.track(state, recoveries=state.tracking.recoveries + 1)
    match refusal.why:
        case "media":
            return _without_media(state, out, request, refusal, event.now) or _give_up(state, out, end, refusal)
        case "bytes":
            return _fewer_bytes(state, out, request, refusal, event.now) or _shorter(state, out, request, refusal, event.now)
        case "output_too_large":
            return _less_output(state, out, request, refusal) or _shorter(state, out, request, refusal, event.now)
        case _:
            return _shorter(state, out, request, refusal, event.now)


def _give_up(state: State, out: list[Action], end: End, refusal: Rejection) -> State:
    """Hand the refusal on (R5): no hook runs on it that could bring it back."""
    largest = auto.largest(state) if end == "prompt_too_long" else ()
    out.append(GiveUp(end=end, message=refusal.message, actual=refusal.actual, limit=refusal.limit, largest=largest))
    return state._replace(phase=Phase.READY, pending=None, sent=None)


def _learned(state: State, out: list[Action], refusal: Rejection) -> State:
    """A window that an error names or proves, where it is smaller than the one believed in, holds from now on in this conversation
    (W9); and a true count corrects ours until the next response."""
    if refusal.why not in ("too_long", "output_too_large"):
        return state
    setup, limit = state.setup, refusal.limit or _proven(state, refusal)
    if limit is not None and state.ledger.accepted < limit < setup.window.context:
        window = window_of(limit, setup.model.max_output, setup.policy.window, auto=setup.policy.auto.enabled)
        ops.emit(out, "window_learned", window=limit, believed=setup.window.context)
        state = state._replace(setup=msgspec.structs.replace(setup, window=window))
        state = ops.track(state, learned_window=limit)
    if refusal.actual is not None and refusal.gap is not None:
        counted = state.ledger.size().used
        if refusal.actual > counted > 0:
            state = ops.track(state, correction=refusal.actual / counted)
    return state


def _proven(state: State, refusal: Rejection) -> int | None:
    """What the window is smaller than, where an error tells no limit: what was sent, and no count of ours is under the true one (T1).
    An answer that ended for lack of room proves nothing of the kind; where the output asked for may have been counted too, it is
    added."""
    if refusal.why != "too_long" or refusal.status is None or refusal.status < 400:
        return None
    asked = 0 if state.sent is None or state.setup.family == "anthropic" else state.sent.max_tokens or 0
    proven = (state.used if refusal.actual is None else refusal.actual) + asked - 1
    return proven if proven >= LEAST_WINDOW else None


def _again(state: State, out: list[Action], request: RequestDue, transition: str, **fields: int) -> State:
    ops.emit(out, "retry", transition=transition, **fields)
    return cascade.send(state, out, request, transition)


def _less_output(state: State, out: list[Action], request: RequestDue, refusal: Rejection) -> State | None:
    """Input fits and input with output does not: ask for less output, with the same messages (R2, 0)."""
    if refusal.limit is None or refusal.actual is None:
        return None
    room = refusal.limit - refusal.actual
    least = state.setup.policy.reactive.min_output_tokens
    asked = refusal.max_tokens or request.max_tokens or state.setup.model.max_output
    if room < least or room >= asked:
        return None
    smaller = msgspec.structs.replace(request, max_tokens=room)
    return _again(state, out, smaller, "max_tokens_retry", max_tokens=room)


def _without_media(state: State, out: list[Action], request: RequestDue, refusal: Rejection, now: float) -> State | None:
    """The offending images and documents as text stubs; no summary (R4)."""
    attempt = state.tracking.recoveries - 1
    found = media.refused(state.view, refusal, family=state.setup.family, attempt=attempt)
    change = media.stubbed(found, "refused by the provider")
    folded = _media_fold(state, out, request, change, now)
    if folded is None and change is not None:  # thinking of an open loop is bound to it: only a fold of both is left (I7)
        return _shorter(state, out, request, refusal, now)
    return folded


def _fewer_bytes(state: State, out: list[Action], request: RequestDue, refusal: Rejection, now: float) -> State | None:
    """The body is too large: media first, then the largest results (R8)."""
    size, limit = state.ledger.size().bytes, refusal.limit or state.setup.model.body_limit
    surplus = size - int((limit or size // 2) * MARGIN) if limit is None or size > limit else size // 2
    found = media.for_bytes(state.view, surplus)
    held = sum(medium.bytes for medium in found)
    change = media.stubbed(found, "left out for the size of the request")
    left = state if change is None else _media_fold(state, out, request, change, now, send=False) or state
    if held < surplus:
        per_token = 4
        trimmed = caps.trim(
            left.view.shown(), (surplus - held) // per_token, lambda text: len(text) // per_token, least=100, pinned=ops.pinned(left)
        )
        if trimmed is not None:
            left = (
                ops.fold_small(
                    left, out, "reactive", trimmed, now, "the request's body was too large (R8)", at=_first(left, trimmed), path="trim"
                )
                or left
            )
    if left is state:
        return None
    return _again(left, out, request, "body_retry")


def _first(state: State, change: ReplaceBlocks) -> int:
    ids = {target.entry for target in change.targets}
    return min(i for i, item in enumerate(state.view.shown()) if item.entry.id in ids)


def _media_fold(
    state: State, out: list[Action], request: RequestDue, change: ReplaceBlocks | None, now: float, *, send: bool = True
) -> State | None:
    if change is None:
        return None
    # One medium less is less to refuse, though a text about a small one may hold more tokens than it did.
    small = ops.weigh(state, "reactive", change, now, "media refused (R4)", at=_first(state, change), must_gain=False)
    folded = None if small is None else ops.commit(state, out, small, "media")
    if folded is None or not send:
        return folded
    return _again(folded, out, request, "media_retry", media=len(change.targets))


def _shorter(state: State, out: list[Action], request: RequestDue, refusal: Rejection, now: float) -> State:
    """Too long: staged collapses once, else reactive compaction, once between two responses (R2 a, b; R6)."""
    drained = _drained(state, out, now)
    if drained is not None:
        state, count = drained
        return _again(state, out, request, "collapse_drain_retry", committed=count)
    if state.tracking.reacted:
        return _give_up(state, out, "image_error" if refusal.why == "media" else "prompt_too_long", refusal)
    state = ops.track(state, reacted=True)
    must_fit = refusal.limit if refusal.why != "bytes" else None
    if refusal.why == "output_too_large" and refusal.limit is not None:
        must_fit = refusal.limit - state.setup.policy.reactive.min_output_tokens
    trimmed = _trimmed(state, out, now, must_fit)
    if trimmed is not None:
        return _again(trimmed, out, request, "reactive_compact_retry")
    lighter = _lighter(state, out, now, must_fit)
    if lighter is not None and auto.failure_of(state.used, lighter.used, state.setup, must_fit) is None:
        return _again(lighter, out, request, "reactive_compact_retry")
    state = lighter or state
    work = Work(
        trigger="reactive",
        level="reactive",
        now=now,
        source=request.source,
        rungs=auto.rungs(state),
        before=state.used,
        why=refusal.message[:200],
        transition="reactive_compact_retry",
        must_fit=must_fit,
    )
    return ladder.begin(state._replace(pending=request), out, work)


def _drained(state: State, out: list[Action], now: float) -> tuple[State, int] | None:
    """All staged collapses committed (R2 a); None where none was."""
    count, before = 0, state
    while state.tracking.staged:
        state, done = cascade.commit_one(state, out, now)
        count += done
    return (state, count) if count and state.used < before.used else None


def _trimmed(state: State, out: list[Action], now: float, must_fit: int | None) -> State | None:
    """The largest results shortened, where that alone is enough: a change of data comes before any summary (R3)."""
    used, target = state.used, auto.target(state.setup)
    known = state.ledger.calibration
    surplus = int((used - target) / max(0.01, state.tracking.correction))
    change = caps.trim(
        state.view.shown(),
        surplus + surplus // 10,
        lambda text: known.apply(ops.tokens_of(state, text)),
        least=max(shorten.LEAST_CHARS // 3, state.setup.window.effective // 20),
        pinned=ops.pinned(state),
    )
    if change is None:
        return None
    small = ops.weigh(state, "reactive", change, now, "largest results shortened (R3)", at=_first(state, change))
    if small is None or auto.failure_of(used, small.after.used, state.setup, must_fit) is not None:
        return None
    return ops.commit(state, out, small, "trim")


def _lighter(state: State, out: list[Action], now: float, must_fit: int | None) -> State | None:
    """Media of what no summary can take in left out, as many as need be, where that part alone is too large (R3); None where it is
    not, or holds none."""
    view, most = state.view, auto.most(state.used, state.setup, must_fit)
    start = cut.unanswered_start(view)
    held = state.ledger.calibration.apply(sum(ops.sizes(state)[start:])) * state.tracking.correction + auto.fixed(state).overhead
    pinned = ops.pinned(state)
    found = [medium for medium in media.largest_first(view.shown(start)) if medium.target.entry not in pinned]
    small = None
    counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count < len(found)]
    for count in (*counts, len(found)) if held > most else ():
        change = media.stubbed(found[:count], "left out, there was no room for it")
        small = (
            None if change is None else ops.weigh(state, "reactive", change, now, "too large with its media (R3)", at=_first(state, change))
        )
        if small is not None and held - (state.used - small.after.used) <= most:
            break
    return None if small is None else ops.commit(state, out, small, "media")
