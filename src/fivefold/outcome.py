"""What became of an event, for callers: plans, rows and errors made of the engine's actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict, TypeVar

import msgspec

from .core.actions import Done, Emit, GiveUp
from .core.entries import Entry
from .core.events import CompactAsked, Direction, LevelName, Trigger
from .core.levels import auto
from .core.levels.server_edits import Applied
from .core.messages import Text, ToolResult, result_text
from .core.state import State
from .errors import (
    CannotFitError,
    CompactionError,
    FivefoldError,
    MediaRejectedError,
    PromptTooLongError,
    RejectedError,
    SummaryError,
    VetoedError,
)
from .plan import LevelRow, Plan, rows_of

T = TypeVar("T")
WAY_OUT = "snip a large part, unpin, shorten the system prompt or the tools, or take a model with a larger window"
"""What can be done where no fold makes a view fit (A8)."""


class Options(TypedDict, total=False):
    """How a compaction is asked for."""

    level: LevelName | None
    """Just this level; None: a full compaction."""
    instructions: Sequence[str]
    """For the summary, where a model writes it (L5)."""
    pivot: str | None
    """Entry at which a partial compaction turns (X2)."""
    direction: Direction
    """``from``: fold the pivot and what follows; ``up_to``: what comes before it."""
    trigger: Trigger


class Trial(NamedTuple):
    """What an event led to, not put in place yet."""

    state: State
    actions: tuple[object, ...]

    def of(self, kind: type[T]) -> list[T]:
        """The actions of a kind, in order."""
        return [action for action in self.actions if isinstance(action, kind)]


def asked(
    now: float,
    *,
    level: LevelName | None = None,
    instructions: Sequence[str] = (),
    pivot: str | None = None,
    direction: Direction = "from",
    trigger: Trigger = "manual",
) -> CompactAsked:
    """The event of a compaction that is asked for."""
    return CompactAsked(now=now, level=level, instructions=tuple(instructions), pivot=pivot, direction=direction, trigger=trigger)


def plan_of(base: State, trial: Trial, passed: Sequence[LevelRow]) -> Plan:
    """What a trial would do, as a plan."""
    emits = [(emit.name, emit.fields) for emit in trial.of(Emit)]
    rows = rows_of(emits)
    done = trial.of(Done)
    success = bool(done) and done[-1].success
    why = "" if success else (done[-1].why if done else "nothing was done")
    calls = sum(row.llm_calls for row in rows)
    events = tuple({"event": name, **fields} for name, fields in emits)
    return Plan(base, trial.state, (*passed, *rows), success, why, calls, events)


def row_not_enough(level: str, base: State, trial: Trial, rows: Sequence[LevelRow], most: int) -> LevelRow:
    """A cheap level that was weighed and would not have been enough by itself."""
    after = trial.state.used
    if rows:
        why = f"would leave {after:,} tokens, over {most:,}: the full compaction takes it in"
    else:
        why = next((done.why for done in trial.of(Done) if done.why), "nothing to do")
    path = rows[-1].path if rows else ""
    return LevelRow(level=level, path=path, applied=False, tokens_before=base.used, tokens_after=after, why=why)


def failure_of(trial: Trial, plan: Plan) -> FivefoldError:
    """The error of a compaction that was no success."""
    given_up = trial.of(GiveUp)
    if given_up:
        return error_of(given_up[-1])
    return CompactionError(plan.why)


def error_of(given_up: GiveUp) -> FivefoldError:
    """The typed error of what the engine gave up on."""
    message = given_up.message
    if given_up.largest:
        message += "; the largest parts: " + ", ".join(f"{name} ({tokens:,} tokens)" for name, tokens in given_up.largest)
    match given_up.end:
        case "prompt_too_long":
            return PromptTooLongError(message, actual=given_up.actual, limit=given_up.limit)
        case "image_error":
            return MediaRejectedError(message, actual=given_up.actual, limit=given_up.limit)
        case "model_error":
            return RejectedError(message, actual=given_up.actual, limit=given_up.limit)
        case "vetoed":
            return VetoedError(message)
        case "summary_failed":
            return SummaryError(message)
        case "cannot_fit" if given_up.largest:
            return CannotFitError(f"{message}; {WAY_OUT}", largest=given_up.largest)
        case _:
            return CannotFitError(message, largest=given_up.largest)


def cleared_in(entries: Sequence[Entry], applied: Sequence[Applied]) -> list[Entry]:
    """The entries of a response, their usage told what the provider took out of the request before it counted (E6)."""
    tokens = sum(edit.cleared_input_tokens for edit in applied)
    if not tokens:
        return list(entries)
    usages = [None if entry.usage is None else msgspec.structs.replace(entry.usage, cleared=tokens) for entry in entries]
    return [msgspec.structs.replace(entry, usage=usage) for entry, usage in zip(entries, usages, strict=True)]


def words_of(entry: Entry) -> str:
    """What an entry says, results included."""
    texts = [
        block.text if isinstance(block, Text) else result_text(block) for block in entry.blocks if isinstance(block, Text | ToolResult)
    ]
    return "\n".join(texts)


def target_of(state: State) -> int:
    """The most that a view may have for success (A11)."""
    return auto.target(state.setup)
