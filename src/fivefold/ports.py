"""The doors to the world: what a driver is given, each a small protocol. All may be plain functions or coroutine functions; the
async driver awaits what can be awaited, and runs plain ones in a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from .core.actions import Emit
from .core.entries import Entry, Record
from .core.events import HookAnswered, MemoryRead, RestoredFile, Summarized, SummaryFailed
from .core.log import Log
from .core.messages import Object
from .core.rejection import Rejection
from .core.state import State
from .summarize.flow import Answer, Ask

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


class AskModel(Protocol):
    """Performs one request of a summary flow. A refusal comes back as a value, so that the flow can shrink and try again; what is raised
    instead is a failure of the summary (A4), of a connection one that may pass."""

    def __call__(self, ask: Ask) -> MaybeAwaitable[Answer | Rejection]:
        """Ask, and wait for the whole answer."""


class Native(Protocol):
    """Asks the provider for its own compaction of these entries (L10)."""

    def __call__(self, entries: Sequence[Entry]) -> MaybeAwaitable[Summarized | SummaryFailed]:
        """The block in ``Summarized.block``, or why there is none."""


class Memory(Protocol):
    """The session memory (S)."""

    def read(self, wait_seconds: float, stale_seconds: float) -> MaybeAwaitable[MemoryRead]:
        """The memory's text, waiting for a running extraction so long (S5)."""


class Extractor(Protocol):
    """Brings the session memory up to date (S2). Returns the last entry that it now covers; raises, or returns None, where it
    failed and the memory is what it was (S3)."""

    def __call__(self, entries: Sequence[Entry], covered: str | None) -> MaybeAwaitable[str | None]:
        """Take in the entries behind ``covered``."""


MakeCall: TypeAlias = Callable[[Callable[..., object], tuple[object, ...], bool], T]
"""Makes a call to be made of a function, its arguments, and whether it may block."""


@runtime_checkable
class StepExtractor(Protocol):
    """An extractor that has its calls made by the driver, so that a model is asked, and awaited, in the driver's way."""

    def extraction(self, state: State, up_to: str, history: Callable[[], Log], call: MakeCall[T]) -> Generator[T, object, str | None]:
        """Bring the session memory up to date up to this entry; ``history``: the whole log, where the state's is not loaded whole.
        Yields calls, is sent what they gave, and ends as ``Extractor`` does."""


class Files(Protocol):
    """Reads files again (C2)."""

    def read(self, paths: Sequence[str]) -> MaybeAwaitable[tuple[Sequence[RestoredFile], Sequence[str]]]:
        """Those of the paths that can be read, and what was skipped and why."""


class HookRunner(Protocol):
    """Runs hooks (P2)."""

    def names(self) -> frozenset[str]:
        """Which hooks somebody listens on."""

    def run(self, name: str, payload: Object, seconds: float) -> MaybeAwaitable[HookAnswered]:
        """Run all of a name, each bounded in time; never raises."""

    def start(self, name: str, payload: Object) -> object:
        """Start all of a name and wait for none (R5)."""


class Keeper(Protocol):
    """Keeps records; a session file does (K1)."""

    def append(self, *records: Record) -> None:
        """Keep these together."""


class RunningTask(NamedTuple):
    """A background task or agent, from the registry of whoever runs them (C6)."""

    id: str
    task: str
    status: str = "running"


Count: TypeAlias = Callable[[Sequence[Entry]], MaybeAwaitable[int | None]]
"""Counts a view exactly (T5)."""
Attachment: TypeAlias = Callable[[], str | None]
"""Gives a text to be put back after a compaction, or nothing: plan, skills, tool changes (C3)."""
Listener: TypeAlias = Callable[[Emit], None]
"""Hears every event (P3)."""
Running: TypeAlias = Callable[[], Sequence[RunningTask]]
