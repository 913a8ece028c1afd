"""What can happen to a conversation, in the past tense: the only way into the engine.

Times are seconds since the epoch and come in with the event; the engine reads no clock. An event that answers an action
names what it answers in its docstring.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .entries import Entry, Target, Usage
from .levels.server_edits import Applied
from .messages import Object
from .rejection import Rejection

Trigger: TypeAlias = Literal["auto", "manual", "reactive"]
Direction: TypeAlias = Literal["from", "up_to"]
LevelName: TypeAlias = Literal["snip", "micro", "collapse", "memory", "auto", "reactive", "partial"]


class _Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all."""


class Said(_Event, frozen=True, kw_only=True, tag="said"):
    """A person spoke, tools answered, the harness added something: entries of the user's side, notes, attachments."""

    entries: tuple[Entry, ...]


class RequestDue(_Event, frozen=True, kw_only=True, tag="request_due"):
    """The next model call is to be made: the cascade runs before it (A1, Q1)."""

    now: float
    source: str = "main"
    """Who asks (spec section 0)."""
    max_tokens: int | None = None
    """Output that will be asked for; None: the model's maximum."""
    thinks: bool = False
    """Thinking is on in this request (E4)."""
    reactive: bool = True
    """Whoever sends can bring a refusal back as ``RequestRejected`` (W4)."""


class Replied(_Event, frozen=True, kw_only=True, tag="replied"):
    """The model answered; the entries share one ``api_id`` where the provider gives one."""

    entries: tuple[Entry, ...]
    now: float
    source: str = "main"
    applied: tuple[Applied, ...] = ()
    """What the provider says it cleared in this request (E6)."""


class RequestRejected(_Event, frozen=True, kw_only=True, tag="request_rejected"):
    """The provider refused the request that was sent last."""

    rejection: Rejection
    now: float


class CompactAsked(_Event, frozen=True, kw_only=True, tag="compact_asked"):
    """A person, a program or the agent asks for a compaction (X1, X2, X8)."""

    now: float
    trigger: Trigger = "manual"
    level: LevelName | None = None
    """Do just this one; None: as much as success needs."""
    instructions: tuple[str, ...] = ()
    pivot: str | None = None
    """Entry at which a partial compaction turns (X2)."""
    direction: Direction = "from"
    source: str = "main"


class HookAnswered(_Event, frozen=True, kw_only=True, tag="hook_answered"):
    """Answers ``RunHook``: all hooks of one name together."""

    name: str
    instructions: tuple[str, ...] = ()
    """For the summary (L5)."""
    veto: str = ""
    """Why not, where one said no."""
    context: tuple[str, ...] = ()
    """Texts to be put back (C5)."""
    failed: tuple[str, ...] = ()
    """What went wrong with hooks that threw or were too slow; they change nothing (P2)."""


class MemoryRead(_Event, frozen=True, kw_only=True, tag="memory_read"):
    """Answers ``ReadMemory``. ``text`` is None where there is no memory, or an empty one (S4)."""

    text: str | None
    running: bool = False
    """An extraction was still going on when the wait was over (S5)."""
    path: str = ""
    """Where the file is, for whoever wants the whole of it (S9)."""


class RestoredFile(msgspec.Struct, frozen=True):
    """One file read again (C2)."""

    path: str
    text: str


class FilesRead(_Event, frozen=True, kw_only=True, tag="files_read"):
    """Answers ``ReadFiles``: files in the order in which they were asked for, the attachments of whoever registered some (C3),
    and what was skipped and why."""

    files: tuple[RestoredFile, ...] = ()
    attachments: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


class Summarized(_Event, frozen=True, kw_only=True, tag="summarized"):
    """Answers ``Summarize``: the text that stands for the folded part, framed as it will be shown (L9)."""

    text: str
    method: str
    """structural, model, memory, native"""
    first: str | None = None
    last: str | None = None
    """Where the summariser chose the span itself: its first and last entry of the log."""
    middle: tuple[tuple[Target, str], ...] = ()
    """Blocks behind the span that shrink, and the text each then shows (L14)."""
    standing: tuple[str, ...] = ()
    """Folded system entries that are to be shown again (C6)."""
    receipt: Object = {}
    usage: Usage | None = None
    """What the calls that made it used, all together (T2)."""
    calls: int = 0
    """How many model calls were made."""
    model: str | None = None
    notes: tuple[str, ...] = ()
    block: Object = {}
    """The provider's own compaction block (L10)."""


class SummaryFailed(_Event, frozen=True, kw_only=True, tag="summary_failed"):
    """Answers ``Summarize``: nothing that could be shown came."""

    why: str
    usage: Usage | None = None
    calls: int = 0


class Staged(_Event, frozen=True, kw_only=True, tag="staged"):
    """A summary made beforehand for a finished stretch (X4). Comes in whenever it is ready. No text: none came, and the stretch is
    not tried again."""

    first: str
    last: str
    text: str
    why: str = ""
    """Why none came."""


class MemoryUpdated(_Event, frozen=True, kw_only=True, tag="memory_updated"):
    """An extraction ended. ``covered``: the last entry that the memory now covers; it moves only together with the content
    (S3). None: the run failed and the memory is what it was."""

    covered: str | None
    why: str = ""


class Marked(_Event, frozen=True, kw_only=True, tag="marked"):
    """Entries were marked to be snipped away (X3)."""

    ids: tuple[str, ...]


class Pinned(_Event, frozen=True, kw_only=True, tag="pinned"):
    """An entry or a text was pinned (X7); ``text`` is what has to survive verbatim."""

    name: str
    """Id of the entry, or a name for the text."""
    text: str


class Unpinned(_Event, frozen=True, kw_only=True, tag="unpinned"):
    """A pin was taken away."""

    name: str


class Undone(_Event, frozen=True, kw_only=True, tag="undone"):
    """Folds were taken back (X5), newest first."""

    folds: tuple[str, ...]
    now: float


class Counted(_Event, frozen=True, kw_only=True, tag="counted"):
    """Answers ``CountTokens``; None where the counter could not tell (T5)."""

    tokens: int | None


class Cancelled(_Event, frozen=True, kw_only=True, tag="cancelled"):
    """The user stopped what was going on: nothing of it stays, and it is no failure (A6, L8, Q4)."""

    now: float


Event: TypeAlias = (
    Said
    | RequestDue
    | Replied
    | RequestRejected
    | CompactAsked
    | HookAnswered
    | MemoryRead
    | FilesRead
    | Summarized
    | SummaryFailed
    | Staged
    | MemoryUpdated
    | Marked
    | Pinned
    | Unpinned
    | Undone
    | Counted
    | Cancelled
)
