"""What runs before a request, cheapest first: snip → micro → collapse → auto → blocking check (Q1).

Each part looks at what is new only, until a size says that something is due (T4, M7): with nothing due a pass costs the same
at 100 entries and at 100,000.
"""

from __future__ import annotations

import msgspec

from . import ladder, ops
from .actions import Action, CountTokens, ExtractMemory, GiveUp, Send, Stage
from .edits import cut, thinking
from .entries import Fold
from .events import CompactAsked, RequestDue
from .levels import auto, cached, caps, collapse, micro, pays, session_memory, snip
from .levels.server_edits import ServerEdits, config
from .messages import Compaction, RedactedThinking, is_thinking
from .sources import is_main
from .state import Phase, State, Work
from .window import scaled


def before_request(state: State, out: list[Action], request: RequestDue) -> State:
    """The whole cascade for one request."""
    state = state._replace(pending=request)
    if state.tracking.waiting:
        state = placed(state, out)
    unasked = state.setup.policy.auto.enabled  # else micro too leaves everything as it is (A3)
    if unasked:
        state = capped(state, out, request.now)
    if state.tracking.marked:
        state = snipped(state, out, request.now)
    if unasked and is_main(request.source):
        before = state.log
        state = cleared(state, out, request.now)
        state = offered(state, request) if state.log is before else state  # the first path that acts ends it (M1)
    if state.setup.policy.collapse.enabled:
        state = collapsed(state, out, request.now)
    if _should_count(state):
        out.append(CountTokens())
        return state._replace(phase=Phase.WAITING, waits_for="counted")
    return decide(state, out)


def _should_count(state: State) -> bool:
    """An exact counter is asked only where the estimate could be wrong about what to do (T5)."""
    if not state.setup.counts or state.tracking.counted_on == cut.fold_id(state.log):
        return False
    size = state.ledger.size()
    known = state.ledger.calibration.overhead
    least = state.ledger.estimated + (state.ledger.overhead.tokens if known is None else known)
    return not size.source.startswith("usage") and least < state.setup.window.auto <= state.used


def decide(state: State, out: list[Action]) -> State:
    """Whether a full compaction is to be made before the request that waits."""
    request = state.pending
    if request is None:
        return state
    asked = state.tracking.asked
    if asked is not None and not cut.open_calls(state.view):
        asked = msgspec.structs.replace(asked, source=request.source)  # the thread that its answer belongs to (C4)
        return ladder.begin(ops.track(state, asked=None), out, manual(state, asked))
    why = auto.due(state, request)
    if why is None:
        return state
    if auto.is_cold(state, request.now) or state.used >= state.setup.window.auto:
        state = superseded(state, out, request.now)
        why = auto.due(state, request)
    return state if why is None else ladder.begin(state, out, _automatic(state, request, why))


def _automatic(state: State, request: RequestDue, why: str) -> Work:
    return Work(
        trigger="auto",
        level="auto",
        now=request.now,
        source=request.source,
        rungs=auto.rungs(state),
        before=state.used,
        why=why,
    )


def manual(state: State, asked: CompactAsked) -> Work:
    """The work of a compaction that was asked for (X1): session memory first where no instructions were given."""
    steps = auto.rungs(state, memory=not asked.instructions and asked.level != "auto")
    if asked.level == "memory":
        steps = tuple(step for step in auto.rungs(state) if step.method == "memory")
    return Work(
        trigger=asked.trigger,
        level="reactive" if state.setup.policy.auto.reactive_only else asked.trigger,
        now=asked.now,
        source=asked.source,
        rungs=steps,
        before=state.used,
        why="asked for",
        asked=asked,
        instructions=asked.instructions,
    )


# --- the small levels


def placed(state: State, out: list[Action]) -> State:
    """Attachments that waited for a call to be answered (C1)."""
    if cut.open_calls(state.view):
        return state
    waiting = state.tracking.waiting
    return ops.track(ops.append(state, out, *waiting), waiting=())


def capped(state: State, out: list[Action], now: float, *, everything: bool = False) -> State:
    """Results that came in since the last look and are too large (M10)."""
    said = len(state.log)
    new = len(state.view) if everything else min(len(state.view), said - state.tracking.measured)
    if new <= 0:
        return state
    at = len(state.view) - new
    change = caps.caps(
        state.view.shown(at), state.setup.window, state.setup.policy.micro, lambda text: _padded(state, text), ops.pinned(state)
    )
    state = ops.track(state, measured=said)
    if change is None:
        return state
    first = min(at + i for i, item in enumerate(state.view.shown(at)) if any(target.entry == item.entry.id for target in change.targets))
    return ops.fold_small(state, out, "micro", change, now, "results too large to enter whole (M10)", at=first, path="cap") or state


def _padded(state: State, text: str) -> int:
    return state.ledger.calibration.apply(ops.tokens_of(state, text))


def snipped(state: State, out: list[Action], now: float) -> State:
    """Entries that were marked (X3); what cannot go yet stays marked."""
    change = snip.marks(state.view, state.tracking.marked, ops.pinned(state))
    if change is None:
        return state
    at = min(place for id in change.ids if (place := cut.place_of(state.view, id)) is not None)
    folded = ops.fold_small(state, out, "snip", change, now, "marked", at=at, path="marked")
    if folded is None:
        return state
    return ops.track(folded, marked=tuple(id for id in state.tracking.marked if id not in change.ids))


def superseded(state: State, out: list[Action], now: float, *, least: int | None = None) -> State:
    """Results that a later identical read has made again, where that frees enough (X3, M8)."""
    policy = state.setup.policy.snip
    if not policy.superseded:
        return state
    change = snip.superseded(state.view, ops.pinned(state))
    if change is None:
        return state
    ids = {target.entry for target in change.targets}
    sizes = ops.sizes(state)
    gain = sum(sizes[i] for i, item in enumerate(state.view.shown()) if item.entry.id in ids)
    if gain < scaled(policy.min_gain_tokens if least is None else least, state.setup.window):
        return state
    at = min(i for i, item in enumerate(state.view.shown()) if item.entry.id in ids)
    return ops.fold_small(state, out, "snip", change, now, "read again later", at=at, path="superseded") or state


def cleared(state: State, out: list[Action], now: float) -> State:
    """Micro's first path: everything old, when the cache has expired for certain (M2)."""
    policy = state.setup.policy.micro
    if policy.time_clear and micro.is_idle(state.view, now, policy.idle_minutes):
        return clear(state, out, now, f"idle for {policy.idle_minutes} minutes (M2)", keep=policy.keep_results, least=0) or state
    return _paying(state, out, now) if policy.pays else state


def _paying(state: State, out: list[Action], now: float) -> State:
    """Micro's money path (M9), weighed only when enough has come since the last time (M7)."""
    policy, setup, estimated = state.setup.policy.micro, state.setup, state.ledger.estimated
    least = scaled(policy.min_gain_tokens, setup.window)
    if estimated - state.tracking.weighed_at < least:
        return state
    state = ops.track(state, weighed_at=estimated)
    sizes = ops.sizes(state)
    found = micro.clearing(state.view, sizes, policy, keep=policy.keep_results, min_gain=least, pinned=ops.pinned(state))
    if found is None:
        return state
    worth = pays.worth(
        found.tokens,
        sum(sizes[found.first :]) - found.tokens,
        _turns_left(state),
        setup.model,
        cache_alive=not auto.is_cold(state, now),
        prompt_tokens=state.used,
    )
    if worth is None or not worth.pays:
        return state
    why = f"pays after {worth.break_even_turns or 0:.0f} turns (M9)"
    folded = ops.fold_small(state, out, "micro", found.change, now, why, at=found.first, path="pays")
    return state if folded is None else ops.track(folded, weighed_at=folded.ledger.estimated)


def _turns_left(state: State) -> float:
    """Turns until the next full compaction at the pace since the last one; no more is known of what is to come."""
    tracking = state.tracking
    grown = max(1.0, (state.used - (tracking.left or 0)) / max(1, tracking.turns))
    return max(1.0, (state.setup.window.auto - state.used) / grown)


def clear(state: State, out: list[Action], now: float, why: str, *, keep: int, least: int | None = None) -> State | None:
    """Clear all but the newest results; None where that frees too little: ``least`` tokens, else what the policy says (M8)."""
    policy = state.setup.policy.micro
    least = scaled(policy.min_gain_tokens, state.setup.window) if least is None else least
    found = micro.clearing(state.view, ops.sizes(state), policy, keep=keep, min_gain=least, pinned=ops.pinned(state))
    if found is None:
        return None
    return ops.fold_small(state, out, "micro", found.change, now, why, at=found.first, path="clear")


def offered(state: State, request: RequestDue) -> State:
    """Micro's second path: the oldest results deleted in the provider's cache, for providers that can (M3)."""
    if not state.setup.cached_edits:
        return state
    known = cached.dropped() if auto.is_cold(state, request.now) else state.tracking.cached
    found = micro.new_results(state.view, known.seen, state.setup.policy.micro.compactable)
    known = cached.register(known, found, state.setup.policy.micro, source=request.source)
    last = next((item.entry.id for item in reversed(state.view.shown()) if item.entry.kind in ("user", "attachment")), None)
    if last is not None:
        known = cached.consume(known, last).state
    return state if known is state.tracking.cached else ops.track(state, cached=known)


def collapsed(state: State, out: list[Action], now: float) -> State:
    """Commit what was staged, the oldest first, while the view is over its mark (X4)."""
    policy, window = state.setup.policy.collapse, state.setup.window
    while state.tracking.staged and state.used >= window.effective * policy.commit_percent / 100:
        state, _ = commit_one(state, out, now)
    return state


def commit_one(state: State, out: list[Action], now: float) -> tuple[State, bool]:
    """Put the oldest staged summary in place; what no longer fits the view is dropped. Says whether one was."""
    first, rest = state.tracking.staged[0], state.tracking.staged[1:]
    state = ops.track(state, staged=rest)
    changes = collapse.commit(state.view, first, cut.fold_id(state.log), now)
    at = cut.place_of(state.view, first.first)
    if changes is None or at is None:
        return state, False
    folded = ops.fold_small(state, out, "collapse", changes[0], now, "staged summary", at=at, path="commit")
    return (state, False) if folded is None else (folded, True)


# --- sending


def proceed(state: State, out: list[Action]) -> State:
    """The cascade is through: block, or send (W4), and start what runs in the background."""
    request = state.pending
    assert request is not None
    state = state._replace(pending=None)
    if _is_blocked(state, request):
        used, limit = state.used, state.setup.window.blocking
        out.append(
            GiveUp(
                end="blocking_limit",
                message=f"{used:,} tokens are at the blocking limit of {limit:,}; compact by hand, or raise the window",
                actual=used,
                limit=limit,
                largest=auto.largest(state),
            )
        )
        return state._replace(phase=Phase.READY)
    state = background(state, out, request)
    return send(state, out, request)


def _is_blocked(state: State, request: RequestDue) -> bool:
    """The blocking limit stops a call only where nothing else will help (W4)."""
    policy, tracking = state.setup.policy, state.tracking
    if state.used < state.setup.window.blocking or tracking.fresh:
        return False
    helpless = not policy.auto.enabled or auto.breaker_open(state, request.now) or tracking.failed_on != ""
    return helpless and not (request.reactive and policy.auto.enabled and policy.reactive.enabled)


def send(state: State, out: list[Action], request: RequestDue, transition: str = "") -> State:
    """Send the view, with what goes along."""
    if thinking.is_bound(state.setup.model):
        state = overtaken(state, out, request.now)
    edits = _edits(state, request)
    for note in edits.notes if edits is not None else ():
        state = ops.say_once(state, out, note)
    out.append(
        Send(
            source=request.source,
            max_tokens=request.max_tokens,
            edits=edits,
            drop_thinking=state.tracking.drop_thinking,
            first_after_compaction=state.tracking.fresh,
            transition=transition,
            cache_edits=state.tracking.cached.blocks if is_main(request.source) else (),
        )
    )
    return state._replace(phase=Phase.SENT, sent=request, pending=None)


def overtaken(state: State, out: list[Action], now: float) -> State:
    """Thinking in front of which a late result has come is no longer valid, and hidden (I7, I9)."""
    place = thinking.overtaken(state.view)
    bound = thinking.Bound("free") if place is None else thinking.bound(state.view, state.setup.model, place)
    if bound.hiding is not None:
        fold = Fold(id=cut.fold_id(state.log), level="late", changes=(bound.hiding,), why="a result came late (I7)", time=now)
        ops.emit(out, "folded", level="late", path="thinking", fold=fold.id, why=fold.why)
        return ops.append(state, out, fold)
    return ops.track(state, drop_thinking=True) if bound.way == "wait" and state.setup.policy.thinking.drop_setting else state


def _edits(state: State, request: RequestDue) -> ServerEdits | None:
    """Level 3: what the provider is asked to clear by itself (E1)."""
    policy, setup = state.setup.policy, state.setup
    if not setup.model.edits and not setup.model.compaction:
        return None
    last = state.tracking.last_response
    return config(
        policy.edits,
        setup.model,
        auto_threshold=setup.window.auto if policy.auto.enabled else None,
        idle_seconds=None if last is None else request.now - last,
        thinking=request.thinks,
        redacted=_redacted(state) if request.thinks else False,
        signed_block_in_view=policy.edits.compaction and _signed(state),
        tool_names=[name for tool in state.log.head.tools if isinstance(name := tool.get("name"), str)],
    )


def _signed(state: State) -> bool:
    """Whether a signed compaction block is in view (E7)."""
    return any(isinstance(block, Compaction) and block.data.get("signature") for entry in state.view.entries() for block in entry.blocks)


def _redacted(state: State) -> bool:
    """Whether the newest thinking in view is redacted (E4)."""
    for item in reversed(state.view.shown(max(0, len(state.view) - 200))):
        for block in item.entry.blocks:
            if is_thinking(block):
                return isinstance(block, RedactedThinking)
    return False


def background(state: State, out: list[Action], request: RequestDue) -> State:
    """Start what need not be waited for: the memory's extraction (S1), the next stretch's summary (X4)."""
    setup, tracking = state.setup, state.tracking
    if setup.extracts and not tracking.extracting and is_main(request.source) and _may_extract(state):
        up_to = session_memory.due(state.view, ops.sizes(state), state.used, tracking.covered or None, setup.policy.memory, setup.window)
        if up_to is not None:
            out.append(ExtractMemory(up_to=up_to))
            state = ops.track(state, extracting=True, extracted_at=state.ledger.estimated)
    policy = setup.policy.collapse
    share = 100 * state.used / setup.window.effective
    if policy.enabled and setup.stages and not tracking.staging and policy.stage_percent <= share < policy.block_percent:
        found = collapse.stretch(state.view, ops.sizes(state), tracking.staged, policy, setup.window, ops.pinned(state))
        if found is not None:
            out.append(Stage(first=found.first, last=found.last))
            state = ops.track(state, staging=True)
    return state


def _may_extract(state: State) -> bool:
    """A look that costs nothing: whether enough has come since the last run began for it to be worth a closer one (S1, M7); a view
    that a fold has made smaller since tells nothing."""
    tracking, policy, window = state.tracking, state.setup.policy.memory, state.setup.window
    least = policy.first_tokens if tracking.covered is None else policy.grow_tokens
    grown = state.ledger.estimated - tracking.extracted_at
    return grown < 0 or grown >= scaled(least, window) // 2
