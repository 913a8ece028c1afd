"""The session memory of one conversation, kept up to date in the background: the ports ``memory`` and ``extract`` in one (S1–S5).

One extraction runs at a time. Whoever asks for another one meanwhile waits for it; of several who wait the newest runs and takes in
what the others came with. A run may end early in every way (cancelled, given up on, failed): it then writes nothing, and the file
with the id of the last entry that it covers is what it was.

Drivers run ``extraction``, a generator that yields each call to be made, so that a model is asked and awaited in their way.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeAlias, TypeVar

from ..core.edits import cut
from ..core.entries import SHOWN_AS, Entry, Usage
from ..core.estimate import estimate_text
from ..core.events import MemoryRead
from ..core.log import Log
from ..core.rejection import Rejection
from ..core.restore import material
from ..core.state import State
from ..core.window import scaled
from ..errors import FivefoldError, InputError, LockedError, StoreError
from ..store.lock import acquire
from ..summarize.flow import Answer, Wait
from ..summarize.references import Extractor as References
from . import fork
from .extractor import extract
from .file import Content, MemoryFile, memory_path
from .merge import is_empty, is_note, merged, parts_of, shown
from .template import DEFAULT, PROMPT, Kind, Template, checked_prompt, template_of, text_of
from .turns import Run, Turns

T = TypeVar("T")
MakeCall: TypeAlias = Callable[[Callable[..., object], tuple[object, ...], bool], T]
"""Makes a call of a function, its arguments, and whether it may block; it is awaited where it gives something to await."""
Steps: TypeAlias = Generator[T, object, str | None]
"""Calls to be made; what each gave is sent back."""
Made: TypeAlias = Mapping[str, Sequence[str]]
STALE_SECONDS = 60.0
"""A run that is older is given up on by the next one (S5)."""
PROBLEMS = 20
CARRIED: frozenset[Kind] = frozenset({"title", "task", "files", "commands", "errors", "decisions", "log"})
"""Sections whose lines stay where only what is new was handed over."""
WINDOW, OUTPUT = 200_000, 8_000
"""Of a model that nobody has told of."""


class Held(Protocol):
    """A lock that is held."""

    def release(self) -> None:
        """Let go of it."""


class _Call(NamedTuple):
    """A call of a caller without a driver."""

    call: Callable[..., object]
    args: tuple[object, ...]
    blocking: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What one extraction takes in."""

    view: tuple[Entry, ...]
    """As sent, up to the last entry to be covered."""
    said: Callable[[], Sequence[Entry]]
    """All that was said up to there."""
    whole: bool
    """``said`` goes back to the start."""
    covered: str
    limits: Mapping[str, float]
    estimate: Callable[[str], float]
    window: int = WINDOW
    max_output: int = OUTPUT
    sent_tokens: int | None = None
    body_limit: int | None = None
    cwd: str | None = None


class SessionMemory:
    """The memory of one conversation, in the file ``path``.

    ``ask``: performs one request of a model, as ``ports.AskModel``, a function or a coroutine function; None: the code writes the
    memory from the log. ``template``, ``prompt``: Markdown, or the path of a file; a prompt holds ``$file`` and ``$sections``.
    ``readonly``: only to be read. ``running``: the registry of background tasks. Errors of a template or prompt are InputErrors that
    name the place.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        ask: Callable[..., object] | None = None,
        template: str | Path | Template | None = None,
        prompt: str | Path | None = None,
        readonly: bool = False,
        running: Callable[[], Sequence[tuple[str, str, str]]] | None = None,
        on_problem: Callable[[FivefoldError], None] | None = None,
        stale_seconds: float = STALE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.file = MemoryFile(path)
        self.ask, self.readonly, self.running, self.on_problem = ask, readonly, running, on_problem
        self.template = DEFAULT if template is None else template if isinstance(template, Template) else template_of(*text_of(template))
        self.prompt = PROMPT if prompt is None else checked_prompt(*text_of(prompt))
        self.sleep = sleep
        self.problems: list[FivefoldError] = []
        """Why the file could not be read, the newest last."""
        self.calls = 0
        """Requests made of a model so far."""
        self.usage: Usage | None = None
        """What they used, all together: a cost of its own, never the size (T2)."""
        self._turns = Turns(clock, stale_seconds)
        self._covered: str | None = None
        self._known = References()
        self._seen: tuple[Entry, ...] = ()
        self._lock: Held | None = None

    @classmethod
    def of(
        cls,
        folder: str | Path,
        id: str,
        *,
        ask: Callable[..., object] | None = None,
        template: str | Path | Template | None = None,
        prompt: str | Path | None = None,
        readonly: bool = False,
    ) -> Self:
        """The memory of conversation ``id`` in a folder. Raises StoreError for an id that is no plain file name (H3)."""
        return cls(memory_path(folder, id), ask=ask, template=template, prompt=prompt, readonly=readonly)

    # --- reading

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.file.path

    @property
    def covered(self) -> str | None:
        """The last entry that the file covers, as the file says: for ``Tracking(covered=…)`` of a conversation that goes on (S8). None:
        there is no memory, or it does not say."""
        content = self._content()
        return None if content is None else content.covered

    def read(self, wait_seconds: float, stale_seconds: float) -> MemoryRead:
        """The memory's text, waiting for a running extraction so long; one older than ``stale_seconds`` is given up on, and whatever it
        brings later is not written (S5). A file that cannot be read counts as none and is listed in ``problems``."""
        running = not self._turns.waited(wait_seconds, stale_seconds)
        content = self._content()
        text = None if content is None else shown(content.text, self.template)
        return MemoryRead(text=text, running=running, path=str(self.path))

    def _content(self) -> Content | None:
        """What the file says; None where that is nothing (S4)."""
        try:
            found = self.file.read()
        except InputError as error:
            self._problem(error)
            return None
        return None if found is None or is_empty(found.text, self.template) else found

    def _problem(self, error: FivefoldError) -> None:
        self.problems = [*self.problems[1 - PROBLEMS :], error]
        if self.on_problem is not None:
            self.on_problem(error)

    # --- writing

    def extraction(self, state: State, up_to: str, history: Callable[[], Log], call: MakeCall[T]) -> Steps[T]:
        """Bring the file up to date with a conversation up to the entry ``up_to`` (S1), at the last place there that parts no call from
        its result. ``history``: the whole log, where the state's is not loaded whole. Gives the last entry covered."""
        view, setup = state.view, state.setup
        place = cut.place_of(view, up_to)
        at = cut.back(cut.legal(view), len(view) if place is None else place + 1)
        items = view.shown()[:at]
        covered = next((item.entry.id for item in reversed(items) if item.side == 0 and item.entry.kind in SHOWN_AS), None)
        if covered is None:
            return None
        return (
            yield from self._steps(
                call,
                _Job(
                    view=tuple(item.entry for item in items if item.entry.kind in SHOWN_AS),
                    said=lambda: _until(material(history() if state.log.base else state.log), covered),
                    whole=True,
                    covered=covered,
                    limits={section.name: scaled(section.tokens, setup.window) for section in self.template.sections},
                    estimate=lambda text: estimate_text(text, setup.model.generation),
                    window=min(setup.window.context, setup.model.window),
                    max_output=setup.model.max_output,
                    sent_tokens=state.used if place is None or at == len(view) else None,
                    body_limit=setup.model.body_limit,
                    cwd=state.log.head.cwd,
                ),
            )
        )

    def __call__(self, entries: Sequence[Entry], covered: str | None = None) -> str | None:
        """The same for callers without a driver: take in the entries behind ``covered``. What came before is known where this object was
        given it; else the lines that the file holds stay beside the new ones."""
        return performed(self._taking(entries, covered))

    def _taking(self, entries: Sequence[Entry], covered: str | None) -> Steps[_Call]:
        goes_on = covered is not None and covered == self._covered and bool(self._seen)
        seen = (*self._seen, *entries) if goes_on else tuple(entries)
        if not entries:
            return self._covered
        job = _Job(
            view=seen,
            said=lambda: seen,
            whole=goes_on or covered is None,
            covered=entries[-1].id,
            limits={section.name: float(section.tokens) for section in self.template.sections},
            estimate=estimate_text,
        )
        found = yield from self._steps(_Call, job)
        if found == job.covered:
            self._seen = seen
        return found

    def _steps(self, call: MakeCall[T], job: _Job) -> Steps[T]:
        run = Run()
        try:
            if not (yield call(self._enter, (run, job.covered), True)):
                return self._covered
            made = (yield call(self._extracted, (job,), True)) if self.ask is None else (yield from self._asked(call, job))
            yield call(self._put, (run, made, job), True)
            return job.covered
        finally:
            self._turns.leave(run)

    def _extracted(self, job: _Job) -> Made:
        """The sections from the log."""
        kinds: dict[Kind, float] = {section.kind: job.limits[section.name] for section in self.template.sections if section.kind != "own"}
        tasks = None if self.running is None else self.running()
        lines = extract(job.said(), limits=kinds, estimate=job.estimate, known=self._known, cwd=job.cwd, running=tasks)
        made = {section.name: lines[section.kind] for section in self.template.sections if section.kind in lines}
        return made if job.whole else self._carried(made)

    def _carried(self, made: dict[str, list[str]]) -> Made:
        """New lines with those that the file holds: in front of them, of a log behind them; of the title the old one."""
        old = self.file.read() or Content()
        for part in parts_of(old.text, self.template):
            if part.section is not None and part.section.kind in CARRIED:
                kind, new = part.section.kind, made.get(part.section.name, [])
                was = [line for line in part.lines if not is_note(line)]
                found = was or new if kind == "title" else [*was, *new] if kind == "log" else [*new, *was]
                made[part.section.name] = list(dict.fromkeys(found))
        return made

    def _asked(self, call: MakeCall[T], job: _Job) -> Generator[T, object, Made]:
        """The sections from a model."""
        old = yield call(self.file.read, (), True)
        task = fork.Task(
            entries=job.view,
            file=old.text if isinstance(old, Content) else "",
            template=self.template,
            prompt=self.prompt,
            limits=job.limits,
            estimate=job.estimate,
            window=job.window,
            max_output=job.max_output,
            sent_tokens=job.sent_tokens,
            body_limit=job.body_limit,
        )
        flow = fork.write(task)
        reply: Answer | Rejection | None = None
        try:
            while True:
                wanted = flow.send(reply)
                if isinstance(wanted, Wait):
                    yield call(self.sleep, (wanted.seconds,), True)
                    reply = None
                    continue
                assert self.ask is not None
                self.calls += 1
                try:
                    reply = self._answer((yield call(self.ask, (wanted,), True)))
                except Exception as error:  # a failure like any other: of a connection one that may pass (L8)
                    passing = isinstance(error, OSError | TimeoutError)
                    reply = Rejection(why="transient" if passing else "other", message=f"{type(error).__name__}: {error}")
        except StopIteration as stop:
            made: Made = stop.value
            return made
        finally:
            flow.close()

    def _answer(self, found: object) -> Answer | Rejection:
        if inspect.iscoroutine(found):
            found.close()
            raise TypeError("ask is a coroutine function: it needs the async driver")
        if not isinstance(found, Answer | Rejection):
            raise TypeError(f"ask has to give an Answer or a Rejection, not {type(found).__name__}")
        if isinstance(found, Answer) and found.usage is not None:
            self.usage = found.usage if self.usage is None else self.usage + found.usage
        return found

    def _put(self, run: Run, made: Made, job: _Job) -> None:
        """Write the file, unless the run is over. What a person has written meanwhile is kept: it is read at the last moment."""
        with self._turns.writing(run):
            old = self.file.read() or Content()
            limits, estimate = job.limits, job.estimate
            self.file.write(merged(old, made, self.template, job.covered, lambda section: limits[section.name], estimate))
            self._covered = job.covered

    # --- one writer

    def _enter(self, run: Run, covered: str) -> bool:
        if self.readonly:
            raise StoreError(f"{self.path}: this session memory was opened to be read only")
        return self._turns.enter(run, lambda: covered == self._covered, self._hold)

    def _hold(self) -> None:
        """Be the only writer of the file, until ``close`` (K3)."""
        if self._lock is None:
            try:
                self._lock = acquire(self.path)
            except LockedError:
                message = f"{self.path}: another process keeps this session memory; end it, or open the memory with readonly=True"
                raise LockedError(message) from None
            self.file.sweep()

    def close(self) -> None:
        """Give up on what runs, and let another process keep the file."""
        self._turns.stop()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _until(entries: Sequence[Entry], covered: str) -> Sequence[Entry]:
    end = next((i for i, entry in enumerate(entries) if entry.id == covered), len(entries) - 1)
    return entries[: end + 1]


def performed(steps: Steps[_Call]) -> str | None:
    """Make each call that the steps ask for, plainly, one after the other."""
    go_on: Callable[[], _Call] = partial(steps.send, None)
    try:
        while True:
            try:
                made = go_on()
            except StopIteration as stop:
                found: str | None = stop.value
                return found
            try:
                go_on = partial(steps.send, made.call(*made.args))
            except Exception as error:
                go_on = partial(steps.throw, error)
    finally:
        steps.close()
