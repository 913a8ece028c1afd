"""What ``inspect`` tells of a conversation, as data: schema ``fivefold.inspect/1``.

A released field keeps its name and meaning within a schema version; new ones may be added.
"""

from __future__ import annotations

import msgspec

SCHEMA = "fivefold.inspect/1"


class Part(msgspec.Struct, frozen=True):
    """A share of the view. ``tokens`` of all parts of one table add up to the tokens used, rounding apart."""

    tokens: int
    count: int
    share: float
    """0 to 1."""


class Tokens(msgspec.Struct, frozen=True):
    """``used`` is the size to decide by; ``source`` says how it is known: usage, usage+estimate, calibrated, estimate."""

    used: int
    source: str
    estimate: int
    uncertain: bool


class WindowNumbers(msgspec.Struct, frozen=True):
    """Thresholds in tokens (W1–W4); ``cliff`` is the prompt size above which the price rises (W10)."""

    context: int
    effective: int
    warning: int
    auto: int
    blocking: int
    cliff: int | None = None


class State(msgspec.Struct, frozen=True):
    """Where the view stands (W5, W6): ``level`` is ok, error, auto or blocking."""

    percent_left: int
    level: str
    above_warning: bool
    above_error: bool
    above_auto: bool
    at_blocking: bool


class Large(msgspec.Struct, frozen=True):
    """One of the largest entries of the view."""

    entry: str
    line: int | None
    kind: str
    tool: str | None
    file: str | None
    tokens: int
    text: str


class Point(msgspec.Struct, frozen=True):
    """The view at the end of a round of the history."""

    round: int
    entry: str
    tokens: int
    time: float | None


class CompactionRow(msgspec.Struct, frozen=True):
    """A fold that hides a span, where it stands and what it did; tokens as recorded, else as measured here."""

    fold: str
    level: str
    trigger: str
    round: int
    line: int | None
    time: float | None
    tokens_before: int
    tokens_after: int
    hidden_entries: int


class Violation(msgspec.Struct, frozen=True):
    """What a provider would refuse, and what a repair sends instead."""

    rule: str
    entry: str
    line: int | None
    text: str
    repair: str


class BadLineRow(msgspec.Struct, frozen=True):
    """A line that could not be read."""

    line: int
    why: str


class ConversationRow(msgspec.Struct, frozen=True):
    """One conversation of the file."""

    name: str
    kind: str
    entries: int
    tool_calls: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. ``entries`` and ``tool_calls`` count the messages and calls of the whole file; ``rounds``, sizes and
    tables are the chosen conversation's. ``window`` and ``state`` are null where no window is known; ``note`` says why."""

    schema: str = SCHEMA
    file: str
    format: str
    model: str | None
    conversation: str
    conversations: tuple[ConversationRow, ...]
    entries: int
    rounds: int
    tool_calls: int
    view_entries: int
    places: str
    """What ``line`` counts everywhere in the report: ``line`` of the file, or ``message`` of a whole document."""
    tokens: Tokens
    bytes: int
    window: WindowNumbers | None
    state: State | None
    note: str | None
    by_kind: dict[str, Part]
    by_tool: dict[str, Part]
    by_file: dict[str, Part]
    timeline: tuple[Point, ...]
    largest: tuple[Large, ...]
    compactions: tuple[CompactionRow, ...]
    violations: tuple[Violation, ...]
    bad_lines: tuple[BadLineRow, ...]
    other_records: int
