"""What the engine asks of the world, in the imperative. One action that waits for an answer is out at any time; the others
(``Append``, ``Emit``, ``ExtractMemory``, ``Stage``) need none before going on."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .entries import Record
from .levels.cached import EditsBlock
from .levels.server_edits import ServerEdits
from .messages import JSON

Method: TypeAlias = Literal["structural", "model", "native", "memory"]
End: TypeAlias = Literal["blocking_limit", "prompt_too_long", "image_error", "model_error", "cannot_fit", "vetoed", "summary_failed"]


class _Action(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all."""


class Send(_Action, frozen=True, kw_only=True, tag="send"):
    """Send the view. Answered by ``Replied``, ``RequestRejected`` or ``Cancelled``."""

    source: str = "main"
    max_tokens: int | None = None
    edits: ServerEdits | None = None
    """Server-side edits to attach; None: no such field (E6)."""
    drop_thinking: bool = False
    """Ask the provider to drop thinking that no longer fits its prefix (I7)."""
    first_after_compaction: bool = False
    """For the cache-break detector (A9)."""
    transition: str = ""
    """Why it is sent again: collapse_drain_retry, reactive_compact_retry, media_retry, max_tokens_retry (R2)."""
    cache_edits: tuple[EditsBlock, ...] = ()
    """Edits of the provider's cache to attach, each at its place (M3)."""


class Summarize(_Action, frozen=True, kw_only=True, tag="summarize"):
    """Make a summary. Answered by ``Summarized`` or ``SummaryFailed``."""

    method: Method
    trigger: str
    first: str | None = None
    last: str | None = None
    """The span to stand for, entries of the log; None: the summariser chooses (structural)."""
    target_tokens: int = 0
    """What the whole rebuilt view should have at most."""
    pressure: float = 1.0
    """Structural: the share of the usual size to aim at; the ladder's next steps ask for less (A8)."""
    keep_tail: bool = True
    instructions: tuple[str, ...] = ()
    direction: Literal["all", "from", "up_to"] = "all"
    max_tokens: int = 0
    """Size cap of the summary (L12)."""
    memory: str = ""
    """The memory's text, for ``method`` memory."""
    memory_path: str = ""
    """The file that it was read from."""
    not_before: str | None = None
    """The span must reach at least to this entry: an earlier fold hides it, and its stand-in goes (structural)."""
    tail_follows: bool = True
    keep_thinking_out: bool = False


class ReadFiles(_Action, frozen=True, kw_only=True, tag="read_files"):
    """Read these files again, and ask whoever registered attachments (C2, C3). Answered by ``FilesRead``."""

    paths: tuple[str, ...]


class ReadMemory(_Action, frozen=True, kw_only=True, tag="read_memory"):
    """Read the session memory, waiting for a running extraction (S5). Answered by ``MemoryRead``."""

    wait_seconds: float
    stale_seconds: float


class CountTokens(_Action, frozen=True, kw_only=True, tag="count_tokens"):
    """Count the view exactly (T5). Answered by ``Counted``."""


class RunHook(_Action, frozen=True, kw_only=True, tag="run_hook"):
    """Run all hooks of a name. Answered by ``HookAnswered``."""

    name: Literal["pre_compact", "session_start", "post_compact"]
    payload: dict[str, JSON]


class ExtractMemory(_Action, frozen=True, kw_only=True, tag="extract_memory"):
    """Bring the memory up to date in the background, up to this entry (S1). ``MemoryUpdated`` follows some time."""

    up_to: str


class Stage(_Action, frozen=True, kw_only=True, tag="stage"):
    """Summarise a finished stretch beforehand, in the background (X4). ``Staged`` follows some time, or nothing."""

    first: str
    last: str


class Append(_Action, frozen=True, kw_only=True, tag="append"):
    """These records were put behind the log, together: keep them."""

    records: tuple[Record, ...]


class Emit(_Action, frozen=True, kw_only=True, tag="emit"):
    """Tell whoever listens (P3)."""

    name: str
    fields: dict[str, JSON]


class GiveUp(_Action, frozen=True, kw_only=True, tag="give_up"):
    """What was asked for can't be done; the conversation is what it was, and goes on."""

    end: End
    message: str
    actual: int | None = None
    limit: int | None = None
    largest: tuple[tuple[str, int], ...] = ()


class Done(_Action, frozen=True, kw_only=True, tag="done"):
    """A compaction that was asked for is through. ``success``: as A11 says."""

    success: bool
    why: str = ""


Action: TypeAlias = (
    Send | Summarize | ReadFiles | ReadMemory | CountTokens | RunHook | ExtractMemory | Stage | Append | Emit | GiveUp | Done
)
NEEDS_ANSWER = (Summarize, ReadFiles, ReadMemory, CountTokens, RunHook)
