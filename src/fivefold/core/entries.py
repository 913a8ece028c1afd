"""The records of a conversation's log: entries, folds, undos.

A log is the list of what was said (entries) and of what has been decided about showing it (folds, and undos
of folds), in the order in which it happened. Nothing in it is ever changed. What a fold does is a list of
changes; applied in the order of the log they give the view (see ``view.py``).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .messages import Block, Object, Role

Kind: TypeAlias = Literal["user", "assistant", "system", "attachment", "note", "boundary"]

NO_RAW = msgspec.Raw(b"")
"""No source record kept."""

CLEARED = "[Old tool result content cleared]"
"""What stands for a cleared tool result (M2)."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Token counts of one response in disjoint parts (T2): OpenAI's and Gemini's input is split by the reader.

    ``cost`` parts of a response made of several windows (``usage.iterations``, T8) are summed in the ``all_*``
    fields by the reader; the plain fields then describe the last message iteration, which is the size.
    """

    input: int = 0
    cache_write: int = 0
    cache_read: int = 0
    output: int = 0
    thinking: int = 0
    """The part of ``output`` that was thinking, where the provider tells."""
    cache_write_1h: int = 0
    """The part of ``cache_write`` that was written with the one-hour lifetime."""
    iterations: tuple[Iteration, ...] = ()
    cleared: int = 0
    """Input that the provider's own edits took out before it counted the rest (E6)."""

    @property
    def size(self) -> int:
        """Tokens that the next request starts from: all input and the output (T2)."""
        return self.input + self.cache_write + self.cache_read + self.output

    def __add__(self, other: Usage) -> Usage:
        """Both together: a cost, no longer the size of anything."""
        return Usage(
            self.input + other.input,
            self.cache_write + other.cache_write,
            self.cache_read + other.cache_read,
            self.output + other.output,
            self.thinking + other.thinking,
            self.cache_write_1h + other.cache_write_1h,
            self.iterations + other.iterations,
            self.cleared + other.cleared,
        )


class Iteration(msgspec.Struct, frozen=True, omit_defaults=True):
    """One window of usage inside a response (T8). ``kind``: message, compaction, …"""

    kind: str
    input: int = 0
    cache_write: int = 0
    cache_read: int = 0
    output: int = 0


class Boundary(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a full compaction says of itself (spec section 0)."""

    trigger: str = ""
    tokens_before: int | None = None
    tokens_after: int | None = None
    covered: str | None = None
    """Id of the last entry that the summary covers."""
    kept: tuple[str, ...] = ()
    """First and last id of the preserved segment, or all of its ids where it is not one run."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="entry"):
    """One record of what was said. ``id`` is unique in its log; ``time`` is in seconds since the epoch."""

    id: str
    kind: Kind
    blocks: tuple[Block, ...] = ()
    time: float | None = None
    api_id: str | None = None
    """Id of the API response that an assistant entry is part of; several entries may share it (T2, I2)."""
    usage: Usage | None = None
    model: str | None = None
    source: str = "main"
    """Query source (spec section 0): main, agent:<name>, compact, session_memory …"""
    meta: bool = False
    """A user-role entry that the harness wrote, not a person (reminders, command output, hook text)."""
    summary: bool = False
    """This entry holds a summary of earlier ones."""
    bare: bool = False
    """The message's content was one plain string."""
    boundary: Boundary | None = None
    extra: Object = {}
    """Keys of the message object that are not modelled; they go back out with it (I6)."""
    line: int | None = None
    """Line of the source file, counted from 1; for whole documents the number of the message, from 1."""
    raw: msgspec.Raw = NO_RAW
    """The source record as it came, where it holds more than the message."""


class Target(msgspec.Struct, frozen=True, array_like=True):
    """A block: ``block`` counts in its entry from 0; ``part`` counts in a tool result's content list."""

    entry: str
    block: int
    part: int | None = None


class ReplaceBlocks(msgspec.Struct, frozen=True, tag="replace_blocks"):
    """Show a text instead of a block: clear results, strip media, show a giant result head and tail (M2, R4, M10).

    A tool result keeps its id and pairing and gets the text as its content; another block becomes a text
    block; a part of a result's content list becomes a text part. ``texts`` has one for each target, or one for all.
    """

    targets: tuple[Target, ...]
    texts: tuple[str, ...] = (CLEARED,)


class HideThinking(msgspec.Struct, frozen=True, tag="hide_thinking", omit_defaults=True):
    """Hide all thinking of the entries from ``first`` (None: from the start) to ``last`` (I7)."""

    last: str
    first: str | None = None


class HideSpan(msgspec.Struct, frozen=True, tag="hide_span", omit_defaults=True):
    """Hide the entries from ``first`` (None: from the start of the log) to ``last``, both of the log itself.

    ``stand_ins`` are shown where the span began; ``tail`` is shown behind what was the end of the log when the fold was
    made (attachments, hook results: C1). Stand-ins of earlier folds that stand inside the span are hidden with it.
    """

    last: str
    first: str | None = None
    stand_ins: tuple[Entry, ...] = ()
    tail: tuple[Entry, ...] = ()


class HideEntries(msgspec.Struct, frozen=True, tag="hide_entries"):
    """Hide single entries by id, stand-ins included (X3)."""

    ids: tuple[str, ...]


Change: TypeAlias = ReplaceBlocks | HideThinking | HideSpan | HideEntries


class Fold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="fold"):
    """One decision of one level, "show this instead of that": applied whole and undone whole."""

    id: str
    level: str
    """Which level made it: snip, micro, collapse, auto, reactive, manual, partial; ``imported`` for a recorded one."""
    changes: tuple[Change, ...]
    why: str = ""
    time: float | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    usage: Usage | None = None
    """Usage of the model call that made it: a number of its own, never the size (T2)."""
    extra: Object = {}
    line: int | None = None
    raw: msgspec.Raw = NO_RAW


class Unfold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="unfold"):
    """Take a fold back (X5)."""

    fold: str
    time: float | None = None


Record: TypeAlias = Entry | Fold | Unfold


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="head"):
    """What belongs to a conversation as a whole and is sent with every request."""

    id: str = ""
    model: str | None = None
    window: int | None = None
    """Context window in tokens where the recording itself names it; it holds over what is known of the model."""
    system: tuple[Block, ...] = ()
    tools: tuple[Object, ...] = ()
    cwd: str | None = None
    """Working directory of the recorded agent, used to shorten paths for display."""
    name: str = ""
    """What to call the conversation among several of one file: agent name, sample, branch."""
    wire: str = ""
    """Whose message format the ``extra`` of entries and blocks belongs to: anthropic, openai-chat, openai-responses …
    They go out again on that wire only."""
    extra: Object = {}


SHOWN_AS: dict[str, Role] = {"user": "user", "assistant": "assistant", "attachment": "user", "system": "system"}
"""Role in which each kind of entry is sent; notes and boundaries are never sent."""
