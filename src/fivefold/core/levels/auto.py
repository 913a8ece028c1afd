"""Level 1: when a full compaction is due, what counts as success, and the steps of its ladder (A1–A12)."""

from __future__ import annotations

from typing import NamedTuple

from ..edits import cut
from ..entries import Entry
from ..events import CompactAsked, RequestDue
from ..messages import ToolResult, ToolUse
from ..policy import SummaryPolicy
from ..sources import NEVER_FOR
from ..state import Rung, Setup, State, Tracking
from ..tokens import PADDING


def due(state: State, request: RequestDue) -> str | None:
    """Why a compaction is to be made before this request; None where none is (A1–A3, A6, A10, A12)."""
    policy, tracking = state.setup.policy, state.tracking
    if not policy.auto.enabled or policy.auto.reactive_only or request.source in NEVER_FOR or policy.collapse.enabled:
        return None
    used, window = state.used, state.setup.window
    cold = used < window.auto
    if cold and not (used >= window.auto * policy.auto.cold_percent / 100 and is_cold(state, request.now)):
        return None
    if breaker_open(state, request.now) or tracking.failed_on == input_of(state) or not _grown(state, used):
        return None
    if cold:
        return f"the cache has expired and {used:,} tokens are at or over {policy.auto.cold_percent:g}% of the threshold (A12)"
    return f"{used:,} tokens are at or over the threshold of {window.auto:,}"


def input_of(state: State) -> str:
    """What an attempt works on: the same is not tried twice (A10). Notes do not change it."""
    folds = state.log.folds
    last = next((item.entry.id for item in reversed(state.view.shown()) if item.entry.kind != "note"), "")
    return f"{last} {folds[-1].fold.id if folds else ''}"


def is_cold(state: State, now: float) -> bool:
    """Whether the provider's cache has expired for certain: no response for longer than its longest life in use here."""
    rules, last = state.setup.model.cache, state.tracking.last_response
    return rules is not None and last is not None and now - last > rules.ttl_seconds[0]


def _grown(state: State, used: int) -> bool:
    """The floor (A10): the view has grown past what the last compaction left, by a share of the window and a round."""
    tracking = state.tracking
    if tracking.left is None:
        return True
    least = max(1, state.setup.window.context * state.setup.policy.auto.floor_percent / 100)
    return tracking.turns >= 1 and used >= tracking.left + least


def fingerprint(setup: Setup) -> str:
    """What the breaker opened under: another model, window or summariser closes it (A6)."""
    summary = setup.policy.summary
    return f"{setup.model.id} {setup.window.context} {summary.method} {summary.model or ''}"


def breaker_open(state: State, now: float) -> bool:
    """Whether so many runs in a row have failed that no more are tried (A6)."""
    policy, tracking = state.setup.policy.auto, state.tracking
    if tracking.failures < policy.max_failures or tracking.failed_under != fingerprint(state.setup):
        return False
    cooled = policy.cooldown_seconds is not None and tracking.failed_at is not None and now - tracking.failed_at >= policy.cooldown_seconds
    return not cooled


def target(setup: Setup) -> int:
    """The most that a view may have for a compaction to be a success: the threshold less its headroom (A11)."""
    return int(setup.window.auto * (1 - setup.policy.auto.headroom_percent / 100))


def most(before: int, setup: Setup, must_fit: int | None) -> int:
    """The most that a rebuilt view may have to be a success (A7, A11). ``must_fit``: what the provider has said it takes, enough for
    a recovery (R9)."""
    fits = target(setup) if must_fit is None else max(target(setup), int(must_fit * 0.95))
    return min(fits, before - 1, int(before * (1 - setup.policy.auto.min_gain_percent / 100)))


def failure_of(before: int, after: int, setup: Setup, must_fit: int | None) -> str | None:
    """Why a rebuilt view is no success; None where it is one (``most``)."""
    if after <= most(before, setup, must_fit):
        return None
    if after >= before:
        return f"{after:,} tokens are not fewer than {before:,}"
    if after > before * (1 - setup.policy.auto.min_gain_percent / 100):
        return f"from {before:,} to {after:,} tokens is less than {setup.policy.auto.min_gain_percent:g}%"
    return f"{after:,} tokens are over {most(before, setup, must_fit):,}"


STRUCTURAL = (Rung("summary", "structural", "kept", 1.0), Rung("half the summary", "structural", "kept", 0.5, 0.5))
LAST = Rung("summary alone, nothing restored", "structural", "none", 0.0, 0.25)


def rungs(state: State, *, memory: bool = True) -> tuple[Rung, ...]:
    """The ladder (A8): each step is tried only if the one before does not fit. At most two summaries of a model are in it; after
    too many failed ones in a row there are none (A6). ``memory``: the session memory may stand for the rest (X1)."""
    setup = state.setup
    summary: SummaryPolicy = setup.policy.summary
    steps: list[Rung] = []
    if memory and setup.memory:
        steps += [Rung("memory", "memory", "kept", 1.0), Rung("memory, minimum tail", "memory", "minimum", 1.0)]
    tired = state.tracking.summary_failures >= setup.policy.auto.max_failures and state.tracking.failed_under == fingerprint(setup)
    if summary.method == "structural" or tired:
        return (*steps, *STRUCTURAL, LAST)
    steps += [
        Rung("summary", summary.method, "kept", 1.0),
        Rung("summary alone", summary.method, "none", 0.5),
        Rung("summary alone, nothing restored", summary.method, "none", 0.0),
    ]
    return (*steps, LAST)


class Fixed(NamedTuple):
    """What no compaction can take away, in tokens as the meter counts them."""

    overhead: int
    """System prompt and tools."""
    head: int
    """Entries at the front that stay."""
    pins: int

    @property
    def total(self) -> int:
        """All together."""
        return self.overhead + self.head + self.pins


def fixed(state: State) -> Fixed:
    """The parts that stay whatever is folded (A11: a view that these alone fill cannot be brought under the threshold)."""
    ledger = state.ledger
    sizes = [measure.tokens for measure in ledger.measures]
    learned = ledger.calibration.overhead if ledger.fixed is None else ledger.fixed
    overhead = learned if learned is not None else int(ledger.overhead.tokens * PADDING)
    head = cut.head_end(state.view, sizes, target(state.setup) / 8)
    pins = sum(len(pin.text) // 3 for pin in state.tracking.pins)
    return Fixed(round(overhead * state.tracking.correction), ledger.calibration.apply(sum(sizes[:head])), pins)


def largest(state: State, count: int = 5) -> tuple[tuple[str, int], ...]:
    """The largest parts of a view: what they are, and their tokens (A8)."""
    parts = [(_named(item.entry), measure.tokens) for item, measure in zip(state.view.shown(), state.ledger.measures, strict=True)]
    known = fixed(state)
    parts.append(("system prompt and tools", known.overhead))
    return tuple(sorted(parts, key=lambda part: -part[1])[:count])


def _named(entry: Entry) -> str:
    """An entry for people: what it holds, and where to find it."""
    what = next((f"call of {block.name}" for block in entry.blocks if isinstance(block, ToolUse)), None)
    if what is None and any(isinstance(block, ToolResult) for block in entry.blocks):
        what = "tool result"
    return f"{what or f'{entry.kind} text'} in entry {entry.id}"


def began(asked: CompactAsked | None, tracking: Tracking) -> dict[str, bool | int | str]:
    """What each compaction says of the chain it belongs to (A5)."""
    return {
        "follows_another": tracking.compacted,
        "turns_since": tracking.turns,
        "previous_turn_id": tracking.turn_id,
        "asked": asked is not None,
    }
