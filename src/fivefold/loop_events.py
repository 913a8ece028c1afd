"""What the query loop tells while it runs (Q3): one type a kind of event, so that a caller can match on it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .calling import Part, Reply
from .core.cache_watch import Cause
from .core.entries import Entry
from .core.messages import Object, ToolResult, ToolUse

Reason: TypeAlias = Literal[
    "completed", "blocking_limit", "prompt_too_long", "image_error", "aborted", "max_turns", "model_error", "vetoed", "cannot_fit"
]


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    pass


class Requested(_Event, frozen=True, kw_only=True, tag="requested"):
    """A request goes out. ``turn``: of this run, from 1; ``tokens``: of the view (T2)."""

    turn: int
    tokens: int
    transition: str = ""
    """Which recovery it follows (R2)."""


class Streamed(_Event, frozen=True, kw_only=True, tag="streamed"):
    """A part of the reply."""

    part: Part


class Responded(_Event, frozen=True, kw_only=True, tag="responded"):
    """The whole reply, and the entry that was appended."""

    reply: Reply
    entry: Entry


class ToolStarted(_Event, frozen=True, kw_only=True, tag="tool_started"):
    """A tool is run."""

    call: ToolUse


class ToolEnded(_Event, frozen=True, kw_only=True, tag="tool_ended"):
    """It has ended, well or not."""

    call: ToolUse
    result: ToolResult


class Compaction(_Event, frozen=True, kw_only=True, tag="compaction"):
    """A full compaction began, was made, failed, was vetoed or cancelled. ``fields``: the engine's own numbers."""

    stage: Literal["started", "finished", "failed", "vetoed", "cancelled"]
    tokens_before: int | None = None
    tokens_after: int | None = None
    fields: Object = {}


class Folded(_Event, frozen=True, kw_only=True, tag="folded"):
    """A small level has acted: snip, micro, collapse, a recovery's change of data."""

    level: str
    path: str
    tokens_before: int | None = None
    tokens_after: int | None = None
    fields: Object = {}


class Retry(_Event, frozen=True, kw_only=True, tag="retry"):
    """The request is made again: after a wait (``seconds``), or changed (``transition``). What has been streamed of the reply before
    it is void."""

    transition: str
    why: str = ""
    seconds: float = 0.0
    fields: Object = {}


class Warned(_Event, frozen=True, kw_only=True, tag="warned"):
    """How the window stands has changed (W6)."""

    level: str
    percent_left: int | None = None


class CacheBroken(_Event, frozen=True, kw_only=True, tag="cache_broken"):
    """A prefix that the provider had cached was not read (P4). Tokens; ``usd``: what it cost more than reading, where a price is known."""

    cause: Cause
    expected: int
    read: int
    usd: float | None = None


class Noted(_Event, frozen=True, kw_only=True, tag="noted"):
    """Anything else that the engine tells, by its name."""

    name: str
    fields: Object = {}


class Ended(_Event, frozen=True, kw_only=True, tag="ended"):
    """The run is over; always the last event. ``error``: what would be raised, in words."""

    reason: Reason
    turns: int
    error: str = ""


LoopEvent: TypeAlias = (
    Requested | Streamed | Responded | ToolStarted | ToolEnded | Compaction | Folded | Retry | Warned | CacheBroken | Noted | Ended
)


def of_engine(name: str, fields: Object) -> LoopEvent:
    """An event of the engine as one of the loop."""
    before, after = fields.get("tokens_before", fields.get("tokens")), fields.get("tokens_after")
    sizes = {"tokens_before": before if isinstance(before, int) else None, "tokens_after": after if isinstance(after, int) else None}
    match name:
        case "compaction_started":
            return Compaction(stage="started", fields=fields, **sizes)
        case "compaction_finished":
            return Compaction(stage="finished", fields=fields, **sizes)
        case "compaction_failed":
            return Compaction(stage="failed", fields=fields, **sizes)
        case "compaction_vetoed":
            return Compaction(stage="vetoed", fields=fields, **sizes)
        case "compaction_cancelled":
            return Compaction(stage="cancelled", fields=fields, **sizes)
        case "folded":
            return Folded(level=str(fields.get("level", "")), path=str(fields.get("path", "")), fields=fields, **sizes)
        case "retry":
            return Retry(transition=str(fields.get("transition", "")), fields=fields)
    return Noted(name=name, fields=fields)
