"""What a compaction does, as data: schema ``fivefold.compact/1`` (Z2, X6, L13).

All of it is worked out from the plan, by comparing what the view showed before and what it shows after; so it holds for every level,
and for a plan that is only looked at. A released field keeps its name and meaning within a schema version; new ones may be added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ..core.economics import Model
from ..core.entries import SHOWN_AS, Fold, Usage
from ..core.estimate import measure_blocks
from ..core.levels import auto
from ..core.levels.pays import worth
from ..core.messages import Block
from ..core.state import State
from ..core.window import state_of
from ..plan import LevelRow, Plan
from .breakdown import break_down
from .model import Part, Violation, WindowNumbers
from .went import Receipt, RoundRow, receipt_of, rounds_of

SCHEMA = "fivefold.compact/1"
LARGEST = 5
CHEAP = ("snip", "micro")
"""Levels that are tried before a full compaction, and applied only where one is enough by itself."""
PATHS = {
    ("snip", "marked"): "entries that were marked are gone",
    ("snip", "superseded"): "results that a later identical read made again give way to a pointer",
    ("micro", "clear"): "old tool results are cleared, the newest stay",
    ("micro", "cap"): "results that are too large are shown head and tail",
    ("collapse", "commit"): "a finished stretch gives way to its staged summary",
}
"""What a level did, in words, by its name and path."""
STEPS = {
    "memory": "the session memory stands for the earlier part",
    "summary alone": "a summary stands for everything",
    "summary": "a summary stands for the earlier part, the newest rounds stay",
    "partial": "a summary stands for the part that was chosen",
}
"""The same for the steps of a full compaction: the first whose name a path begins with."""


class Side(msgspec.Struct, frozen=True):
    """A view, before or after. ``tokens`` is the size to decide by; ``source`` and ``percent_left`` are as in ``fivefold.inspect/1``."""

    tokens: int
    source: str
    uncertain: bool
    messages: int
    """Entries that are sent."""
    bytes: int
    percent_left: int
    level: str
    """ok, error, auto or blocking (W6)."""
    by_kind: dict[str, Part]


class LevelEffect(msgspec.Struct, frozen=True):
    """What one level did, or why it did not (then ``tokens_after`` is what it would have left). Money is USD, null where the model's
    prices are not known or nothing was applied."""

    level: str
    path: str
    applied: bool
    tokens_before: int
    tokens_after: int
    tokens_freed: int
    """0 where it was not applied."""
    folds: tuple[str, ...]
    why: str
    llm_calls: int
    rewrite_usd: float | None
    """Once: what the next request pays more, since what stands behind the first change is written to the provider's cache again
    instead of read from it. Nothing of it is due where the cache has expired anyway."""
    saved_per_turn_usd: float | None
    """What each request pays less for reading what was freed from the cache."""
    break_even_turns: float | None
    """Requests after which it has paid for itself."""


class LargePart(msgspec.Struct, frozen=True):
    """One of the largest parts of a view that could not be made to fit; tokens unpadded."""

    what: str
    tokens: int


class Output(msgspec.Struct, frozen=True):
    """Where the result was written. ``in_place``: appended to the session itself. ``undo``: the command that brings everything back;
    empty where the result is no session, or nothing was folded."""

    path: str
    format: str
    in_place: bool
    undo: str


class CompactReport(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. ``success``: what was asked for could be done; where nothing was needed it is true, no level is applied and ``after``
    is ``before``. ``prefix_breaks``: applied folds that change something before the last response, which a provider has cached."""

    schema: str = SCHEMA
    file: str
    model: str
    conversation: str
    window: WindowNumbers
    target: int
    """The most tokens that count as fitting: the auto threshold less its headroom (A11)."""
    overhead: int
    """Tokens of system prompt and tools, which no compaction takes away."""
    before: Side
    after: Side
    levels: tuple[LevelEffect, ...]
    llm_calls: int
    prefix_breaks: int
    receipt: Receipt
    rounds: tuple[RoundRow, ...]
    summary: str
    """The text that stands for what was folded; empty where nothing was summarised."""
    violations: tuple[Violation, ...]
    """What a provider would refuse in the view after."""
    largest: tuple[LargePart, ...]
    """Empty where it was a success."""
    output: Output | None
    success: bool
    why: str
    """Why it was no success, or why nothing was needed."""
    notes: tuple[str, ...]


def report_of(plan: Plan, transcript_path: str, output: Output | None, *, notes: Sequence[str] = ()) -> CompactReport:
    """The report of a plan made for the conversation of ``transcript_path``; ``output``: where its result was written, if it was."""
    base, setup = plan.base, plan.base.setup
    steps = _steps(plan)
    nothing_done = not plan.folds
    before = _side(base)
    return CompactReport(
        file=transcript_path,
        model=setup.model.id,
        conversation=base.log.head.name or base.log.head.id,
        window=_window(setup.model, base),
        target=auto.target(setup),
        overhead=min(auto.fixed(base).overhead, before.tokens),
        before=before,
        after=before if nothing_done else _side(plan.state),
        levels=tuple(_effect(row, steps, auto.target(setup)) for row in plan.levels),
        llm_calls=plan.llm_calls,
        prefix_breaks=sum(step.breaks for step in steps.values()),
        receipt=receipt_of(base, plan.state),
        rounds=tuple(rounds_of(base, plan.state)),
        summary=plan.summary,
        violations=tuple(_violations(plan)),
        largest=() if plan.success else tuple(LargePart(*part) for part in auto.largest(base, LARGEST)),
        output=output,
        success=plan.success,
        why=plan.why,
        notes=tuple(notes),
    )


def _window(model: Model, state: State) -> WindowNumbers:
    window = state.setup.window
    cliff = model.prices.cliff if model.prices else None
    cliff = cliff if cliff and cliff < model.prompt_limit else None
    return WindowNumbers(window.context, window.effective, window.warning, window.auto, window.blocking, cliff)


def _side(state: State) -> Side:
    model, ledger, used = state.setup.model, state.ledger, state.used

    def size_of(block: Block) -> int:
        return measure_blocks((block,), model.generation, model.image_cap).tokens

    entries = list(state.view.entries())
    overhead = min(auto.fixed(state).overhead, used)
    tables = break_down(entries, ledger.measures, size_of, used, overhead, state.log.head.cwd)
    size, stands = ledger.size(), state_of(used, state.setup.window)
    sent = sum(entry.kind in SHOWN_AS for entry in entries)
    return Side(used, size.source, size.uncertain, sent, size.bytes, stands.percent_left, stands.level, tables.by_kind)


def _violations(plan: Plan) -> Iterator[Violation]:
    """What a provider would refuse in the result, its size first (W4, T7)."""
    model, size = plan.state.setup.model, plan.state.ledger.size()
    if plan.state.used > model.prompt_limit:
        what = f"{plan.state.used:,} tokens, the model takes {model.prompt_limit:,}"
        yield Violation("W4", "", None, what, "nothing: it has to be made smaller first")
    if model.body_limit is not None and size.bytes > model.body_limit:
        what = f"{size.bytes:,} bytes, a request may have {model.body_limit:,}"
        yield Violation("T7", "", None, what, "nothing: media and large results have to go first")
    yield from (Violation(*found) for found in plan.violations)


# --- levels and money


def words_of(level: LevelEffect) -> str:
    """What a level does, for people."""
    known = PATHS.get((level.level, level.path))
    return known or next((words for name, words in STEPS.items() if level.path.startswith(name)), level.path)


class _Step(NamedTuple):
    """One fold, weighed: USD as in ``LevelEffect``; whether it changes what a provider has cached."""

    rewrite: float | None
    saved: float | None
    break_even: float | None
    breaks: bool


NO_MONEY = _Step(None, None, None, False)


def dollars(value: float) -> str:
    """An amount as people read it: cents, and of what is less than a dime hundredths of a cent."""
    return f"${value:.2f}" if value >= 0.1 else f"${value:.4f}"


def _steps(plan: Plan) -> dict[str, _Step]:
    """Each fold of a plan by its id, weighed in turn."""
    steps: dict[str, _Step] = {}
    state = plan.base
    for record in plan.records:
        after = state.with_records(record)
        if isinstance(record, Fold):
            steps[record.id] = _weighed(state, after)
        state = after
    return steps


def _weighed(before: State, after: State) -> _Step:
    first = _first_change(before, after)
    answered = max((i for i, item in enumerate(before.view.shown()) if item.entry.kind == "assistant"), default=-1)
    behind = sum(measure.tokens for measure in after.ledger.measures[first:])
    found = worth(
        before.used - after.used,
        after.ledger.calibration.apply(behind),
        1,
        before.setup.model,
        cache_alive=True,
        prompt_tokens=before.used,
        long_lifetime=_writes_long(before),
    )
    breaks = first <= answered
    if found is None:
        return NO_MONEY._replace(breaks=breaks)
    return _Step(found.write_cost, found.saved_per_turn, found.break_even_turns, breaks)


def _first_change(before: State, after: State) -> int:
    """The first place of the view after that is not what it was."""
    old, new = before.view.shown(), after.view.shown()
    pairs = enumerate(zip(old, new, strict=False))
    return next((i for i, (a, b) in pairs if a.entry is not b.entry and a.entry != b.entry), min(len(old), len(new)))


def _writes_long(state: State) -> bool:
    """Whether the conversation's cache writes are for the long lifetime, as its last one was."""
    written = (entry.usage for entry in reversed(list(state.log.entries())) if entry.usage and entry.usage.cache_write)
    last: Usage | None = next(written, None)
    return last is not None and last.cache_write_1h * 2 > last.cache_write


def _effect(row: LevelRow, steps: Mapping[str, _Step], target: int) -> LevelEffect:
    money = [steps[fold] for fold in row.folds if row.applied and fold in steps]
    step = money[0] if len(money) == 1 else NO_MONEY
    why = row.why
    if row.level in CHEAP and not row.applied and row.tokens_after < row.tokens_before:
        why = f"not enough by itself: it would leave {row.tokens_after:,} tokens, {target:,} are wanted"
    return LevelEffect(
        level=row.level,
        path=row.path,
        applied=row.applied,
        tokens_before=row.tokens_before,
        tokens_after=row.tokens_after,
        tokens_freed=row.tokens_freed,
        folds=row.folds,
        why=why,
        llm_calls=row.llm_calls,
        rewrite_usd=step.rewrite,
        saved_per_turn_usd=step.saved,
        break_even_turns=step.break_even,
    )
