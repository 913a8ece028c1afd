"""What the engine knows of one conversation: the log and what is derived from it, a small record that has to be kept
(``Tracking``), and the work that is going on.

Log, view and ledger come from the records; ``Tracking`` is the only part that a restart needs beside them (K2). A state is a
value: a step makes a new one, and dropping it takes the step back.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Literal, NamedTuple

import msgspec

from .actions import Method
from .economics import Model
from .entries import Entry, Fold, Record, Usage
from .estimate import Measure
from .events import CompactAsked, RequestDue, RestoredFile, Summarized, Trigger
from .levels.cached import CachedEdits
from .log import Log
from .policy import Policy
from .tokens import Ledger
from .turns import Family
from .view import View
from .window import Window


class Phase(Enum):
    """Where a conversation stands. Table of what is legal in which: ``engine.LEGAL``."""

    READY = "ready"
    """Between requests."""
    WAITING = "waiting"
    """An action is out that needs an answer before anything else can go on."""
    SENT = "sent"
    """A request is at the provider."""


class StagedSummary(msgspec.Struct, frozen=True):
    """A finished stretch with the summary that was made for it beforehand (X4)."""

    first: str
    last: str
    text: str


class Pin(msgspec.Struct, frozen=True):
    """What survives every level verbatim (X7)."""

    name: str
    text: str


class Tracking(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a state that is not in the log (A5, A6, A10, S3, M3, X4, W9). Serialisable."""

    compacted: bool = False
    """A compaction has succeeded in this chain."""
    turns: int = 0
    """Responses since then."""
    turn_id: str = ""
    """Names the turn of the last compaction; the fold's id."""
    failures: int = 0
    """Failed runs of the ladder in a row."""
    failed_at: float | None = None
    failed_under: str = ""
    """What the breaker opened under: window, model, summariser; another one closes it (A6)."""
    failed_on: str = ""
    """Digest of the input of the last failed attempt: the same is not tried twice (A10)."""
    summary_failures: int = 0
    """Model summaries that failed in a row: after so many the code writes them, until something changes (A4, A6)."""
    left: int | None = None
    """Size that the last compaction left, or found that it could not help: the floor starts there (A10)."""
    covered: str | None = None
    """Last entry that the session memory covers."""
    extracting: bool = False
    extracted_at: int = 0
    """Unpadded tokens of the view when an extraction last began: a cheap first look at whether another is due."""
    learned_window: int | None = None
    """A window that an error has named (W9)."""
    correction: float = 1.0
    """True size by ours, where a refusal or an exact counter has told it and no response since (W9, T5)."""
    counted_on: str = ""
    """Digest of the log that was counted last."""
    recoveries: int = 0
    """Since the last response (R9)."""
    reacted: bool = False
    """Reactive compaction was spent since the last response (R2)."""
    staged: tuple[StagedSummary, ...] = ()
    staging: bool = False
    cached: CachedEdits = CachedEdits()
    pins: tuple[Pin, ...] = ()
    marked: tuple[str, ...] = ()
    """Entries to snip at the next chance (X3)."""
    asked: CompactAsked | None = None
    """A compaction asked for in the middle of a tool loop (X8)."""
    waiting: tuple[Entry, ...] = ()
    """Attachments that wait until no call is open (C1)."""
    suppressed: bool = False
    """The warning is held back until real usage arrives (W8)."""
    fresh: bool = False
    """The next request is the first after a compaction (A9)."""
    drop_thinking: bool = False
    """The provider was asked to drop thinking that no longer fits, from now on (I7)."""
    said: tuple[str, ...] = ()
    """Notes that are said once."""
    last_response: float | None = None
    weighed_at: int = 0
    """Unpadded tokens of the view when a clearing was last weighed by its money (M9)."""
    measured: int = 0
    """Entries that the caps of M10 have looked at."""


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation runs under. Fixed between two requests."""

    policy: Policy
    model: Model
    window: Window
    family: Family = "anthropic"
    foreign: bool = False
    """The entries come from another wire format than they go to."""
    memory: bool = False
    """There is a session memory to read (S)."""
    extracts: bool = False
    """Somebody keeps it up to date (S1)."""
    restores: bool = False
    """There are files to read again, or attachments (C2, C3)."""
    hooks: frozenset[str] = frozenset()
    """Names of the hooks that somebody listens on."""
    counts: bool = False
    """An exact counter is there (T5)."""
    stages: bool = False
    """Stretches can be summarised beforehand (X4)."""
    cached_edits: bool = False
    """The provider takes cache edits (M3)."""
    overhead: int | None = None
    """Tokens of system prompt and tools where the caller knows better than the recorded counts; then these no longer speak."""
    variant: str = ""
    """The experiment's variant that this conversation runs under; every event carries it (P6)."""
    transcript: str = ""
    """Where the whole conversation can be read (S9)."""


class Rung(NamedTuple):
    """One step of the ladder (A8)."""

    name: str
    method: Method
    tail: Literal["kept", "minimum", "none", "partial"]
    files: float
    """Share of the restored files."""
    pressure: float = 1.0
    """Structural: the share of the usual size to aim at."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A full compaction that is going on. One exists at a time; a cancel drops it and nothing else."""

    trigger: Trigger
    level: str
    """Level that the fold will name."""
    now: float
    source: str
    rungs: tuple[Rung, ...]
    """Steps not tried yet; the first is the one that is being tried."""
    before: int
    """Tokens of the view when it began."""
    why: str
    asked: CompactAsked | None = None
    transition: str = ""
    """How the request that waits is marked when it is sent again (R2)."""
    must_fit: int | None = None
    """Reactive: the most tokens that the provider takes."""
    instructions: tuple[str, ...] = ()
    hooked: bool = False
    """The pre-compact hooks have answered."""
    memory: str | None = None
    memory_path: str = ""
    memory_read: bool = False
    files: tuple[RestoredFile, ...] | None = None
    attachments: tuple[str, ...] = ()
    context: tuple[str, ...] | None = None
    """What the session-start hooks put back."""
    summary: Summarized | None = None
    """The last summary; a step that only restores less takes it again."""
    summary_of: tuple[str, str] = ("", "")
    """Method and tail of the step that it was made for."""
    first: str = ""
    last: str = ""
    """The span that it stands for."""
    usage: Usage | None = None
    """Of all model calls so far."""
    reasons: tuple[str, ...] = ()
    """Why each step so far was no success."""
    calls: int = 0
    failed_calls: bool = False
    """A model's summary failed on the way (A4)."""
    applied: str = ""
    """Id of the fold that was made; the post-compact hooks are out."""
    freed: int = 0
    """Unpadded tokens by which it has made the view smaller."""


class State(NamedTuple):
    """All of it."""

    setup: Setup
    measure: Callable[[Entry], Measure]
    log: Log
    view: View
    ledger: Ledger
    tracking: Tracking = Tracking()
    remembered: Tracking = Tracking()
    """What the newest note in the log says."""
    phase: Phase = Phase.READY
    work: Work | None = None
    waits_for: str = ""
    """In ``WAITING``: what the event that answers is called."""
    pending: RequestDue | None = None
    """A request that is due and waits for the cascade."""
    sent: RequestDue | None = None
    """The request at the provider, or the one refused last."""
    held: tuple[Entry, ...] = ()
    """What was said while it is there, where it has to stand behind the response (I7)."""

    def with_records(self, *records: Record) -> State:
        """With records behind the log, and view and ledger carried on. Raises LogError; this state stays as it is."""
        log = self.log.append(*records)
        view = self.view.advance(log)
        return self._replace(log=log, view=view, ledger=self.ledger.advance(view, self.measure))

    def with_weighed(self, fold: Fold, weighed: State) -> State:
        """With a fold that was weighed already, and now says its size: view and ledger are those of ``weighed``."""
        log = self.log.append(fold)
        view = weighed.view.under(log)
        return self._replace(log=log, view=view, ledger=weighed.ledger.under(view))

    @property
    def used(self) -> int:
        """Tokens of the view, corrected by what a refusal has told."""
        return round(self.ledger.size().used * self.tracking.correction)


class Step(NamedTuple):
    """What an event led to."""

    state: State
    actions: tuple[object, ...]
