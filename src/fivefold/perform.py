"""What the engine asks of the world, done: a generator for each action, that yields calls and is sent what they returned. One body
of code for sync and async drivers, which differ in how they make a call."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgspec

from .cleanup import Cleanup
from .core.actions import CountTokens, Method, ReadFiles, ReadMemory, RunHook, Stage, Summarize
from .core.edits import cut
from .core.entries import SHOWN_AS, Entry
from .core.estimate import estimate_text
from .core.events import Counted, Event, FilesRead, HookAnswered, MemoryRead, MemoryUpdated, RestoredFile, Summarized, SummaryFailed
from .core.levels import auto
from .core.log import Log
from .core.messages import Object
from .core.pairing import pair, rounds
from .core.rejection import Rejection
from .core.restore import material
from .core.state import State
from .core.tokens import PADDING
from .core.window import scaled
from .errors import SummaryError
from .ports import AskModel, Attachment, Count, Extractor, Files, HookRunner, Memory, Native, Running, RunningTask, StepExtractor
from .summarize import compose, flow, notes, structural
from .summarize.build import Job, digest
from .summarize.frame import escape, framed
from .summarize.references import Extractor as References
from .summarize.zones import Zones

Doing: TypeAlias = Generator["Effect", object, Event]


class Effect(NamedTuple):
    """A call to be made, and awaited where it gives something to await."""

    call: Callable[..., object]
    args: tuple[object, ...] = ()
    blocking: bool = False
    """It may take long and is no coroutine: in a thread, where there is a loop to be kept free."""


@dataclass(frozen=True)
class Ports:
    """What a driver is given of the world. Each may be left out: what needs it is then not done."""

    ask: AskModel | None = None
    """A model, for summaries (L1)."""
    summary_window: int | None = None
    """Context window of the model that writes summaries, where it is another one (L11)."""
    summary_output: int | None = None
    memory: Memory | None = None
    extract: Extractor | StepExtractor | None = None
    native: Native | None = None
    files: Files | None = None
    attachments: tuple[Attachment, ...] = ()
    hooks: HookRunner | None = None
    count: Count | None = None
    running: Running | None = None
    cleanup: Cleanup | None = None
    """Caches to be reset behind a compaction (C4)."""
    sleep: Callable[[float], object] = time.sleep
    known: References = field(default_factory=References)
    """What the structural summariser remembers of this conversation's texts, so that each is looked at once."""


def answer(ports: Ports, state: State, action: object) -> Doing:
    """Perform one action that needs an answer."""
    match action:
        case Summarize():
            return _summarize(ports, state, action)
        case ReadMemory(wait_seconds=wait, stale_seconds=stale):
            return _read_memory(ports, wait, stale)
        case ReadFiles(paths=paths):
            return _read_files(ports, paths)
        case RunHook(name=name, payload=payload):
            return _run_hook(ports, state, name, payload)
        case CountTokens():
            return _count(ports, state)
    raise TypeError(f"{action!r} needs no answer")


def _read_memory(ports: Ports, wait: float, stale: float) -> Doing:
    assert ports.memory is not None
    found = yield Effect(ports.memory.read, (wait, stale), blocking=True)
    assert isinstance(found, MemoryRead)
    return found


def _read_files(ports: Ports, paths: Sequence[str]) -> Doing:
    read = FilesRead()
    if ports.files is not None and paths:
        found = yield Effect(ports.files.read, (paths,), blocking=True)
        files, skipped = found if isinstance(found, tuple) else ((), ("the file reader gave nothing",))
        inert = tuple(RestoredFile(escape(file.path), escape(file.text)) for file in files)  # a file is data (H1)
        read = FilesRead(files=inert, skipped=tuple(skipped))
    texts = [*read.attachments, *(text for give in ports.attachments if (text := give()))]
    return msgspec.structs.replace(read, attachments=tuple(texts))


def _run_hook(ports: Ports, state: State, name: str, payload: Object) -> Doing:
    assert ports.hooks is not None
    found = yield Effect(ports.hooks.run, (name, payload, float(state.setup.policy.hooks.seconds)), blocking=True)
    assert isinstance(found, HookAnswered)
    return found


def _count(ports: Ports, state: State) -> Doing:
    assert ports.count is not None
    found = yield Effect(ports.count, (list(state.view.sent()),), blocking=True)
    return Counted(tokens=found if isinstance(found, int) else None)


def extract_memory(ports: Ports, state: State, up_to: str, history: Callable[[], Log]) -> Doing:
    """Bring the session memory up to date in the background (S1). A failure is an event and changes nothing (S3)."""
    extract = ports.extract
    assert extract is not None
    found: object
    try:
        if isinstance(extract, StepExtractor):
            found = yield from extract.extraction(state, up_to, history, Effect)
        else:
            found = yield Effect(extract, (_since(state, up_to), state.tracking.covered), blocking=True)
    except Exception as error:
        return MemoryUpdated(covered=None, why=f"{type(error).__name__}: {error}")
    return MemoryUpdated(covered=found if isinstance(found, str) else None, why="" if isinstance(found, str) else "it gave nothing")


def _since(state: State, up_to: str) -> list[Entry]:
    """What the memory does not cover; what came since it was asked for may stop inside a call and its result (S1)."""
    view, covered = state.view, state.tracking.covered
    place = None if covered is None else cut.place_of(view, covered)
    end = cut.place_of(view, up_to)
    found = list(view.entries())[0 if place is None else place + 1 : None if end is None else end + 1]
    return [entry for entry in found if entry.kind in SHOWN_AS]


# --- summaries


def _summarize(ports: Ports, state: State, action: Summarize) -> Doing:
    match action.method:
        case "structural":
            return _structural(ports, state, action)
        case "memory":
            most = scaled(state.setup.policy.memory.section_tokens, state.setup.window)
            return _composed(ports, state, action, notes.within(action.memory, most, action.memory_path, _estimate(state)), "memory")
        case "model":
            return (yield from _written(ports, state, action))
        case "native":
            return (yield from _native(ports, state, action))


class _Sizes:
    """Tokens of an entry as the view shows it, or as it was said where it is not shown."""

    def __init__(self, state: State) -> None:
        self.state = state
        measures = state.ledger.measures
        self.shown = {item.entry.id: measure.tokens for item, measure in zip(state.view.shown(), measures, strict=True)}

    def __call__(self, entry: Entry) -> float:
        found = self.shown.get(entry.id)
        return self.state.measure(entry).tokens if found is None else found


class _Shown:
    """An entry of the log as the view shows it; None for a hidden one."""

    def __init__(self, state: State) -> None:
        self.shown = {item.entry.id: item.entry for item in state.view.shown()}

    def __call__(self, id: str) -> Entry | None:
        return self.shown.get(id)


def _estimate(state: State) -> Callable[[str], float]:
    generation = state.setup.model.generation
    return lambda text: estimate_text(text, generation)


def _budget(state: State, action: Summarize) -> structural.Budget:
    """The parts of a summary, in unpadded tokens: the usual shares of the threshold, and less where system prompt and tools leave
    less room."""
    ledger, tracking = state.ledger, state.tracking
    per_token = (ledger.calibration.ratio or PADDING) * tracking.correction
    room = max(1.0, (action.target_tokens - auto.fixed(state).overhead) / per_token) if action.target_tokens else float("inf")
    budget = structural.Budget.of(min(state.setup.window.auto, 2 * room), tail_rounds=state.setup.policy.summary.tail_rounds)
    return budget._replace(most=min(budget.most, room))


def _step(action: Summarize) -> int:
    """How much less than the usual size is asked for: the ladder's steps (A8)."""
    return 0 if action.pressure >= 1 else 1 if action.pressure >= 0.5 else 2


def _structural(ports: Ports, state: State, action: Summarize) -> Summarized | SummaryFailed:
    entries = material(state.log)
    if action.first is not None and action.last is not None:
        return _partial(ports, state, action, entries)
    made = structural.plan(
        entries,
        size_of=_Sizes(state),
        estimate=_estimate(state),
        target=_budget(state, action),
        pins=[pin.text for pin in state.tracking.pins],
        cwd=state.log.head.cwd,
        known=ports.known,
        step=_step(action),
        running=_running(ports),
        shown=_Shown(state),
    )
    if made is None:
        return SummaryFailed(why="there is nothing to fold")
    text = framed(
        made.summary,
        transcript=state.setup.transcript,
        tail_follows=made.cut < len(entries),
        unasked=action.trigger != "manual",
        brief=made.brief,
    )
    return Summarized(
        text=text,
        method="structural",
        first=entries[made.start].id,
        last=entries[made.cut - 1].id,
        middle=made.middle,
        standing=made.standing,
        receipt=msgspec.to_builtins(made.receipt),
    )


def _running(ports: Ports) -> list[RunningTask] | None:
    return None if ports.running is None else list(ports.running())


def _places(entries: Sequence[Entry], action: Summarize, log: Log) -> tuple[int, int]:
    """The span of an action among the entries of the material."""
    low = 0 if action.first is None else log.position(action.first)
    high = len(log) - 1 if action.last is None else log.position(action.last)
    places = [i for i, entry in enumerate(entries) if low <= log.position(entry.id) <= high]
    return (places[0], places[-1] + 1) if places else (0, 0)


def _partial(ports: Ports, state: State, action: Summarize, entries: list[Entry]) -> Summarized | SummaryFailed:
    """The structural summary of a span that was chosen (X2, X4)."""
    start, cut = _places(entries, action, state.log)
    zones = Zones(start, cut, cut, len(rounds(entries)), pair(entries), [0.0] * len(entries), (), frozenset(), 0.0)
    known, pins = ports.known.knowing(entries), [pin.text for pin in state.tracking.pins]
    budget = _budget(state, action)
    made = digest(Job(entries, known, _estimate(state), budget, pins, state.log.head.cwd, _running(ports)), zones)
    if not made.summary:
        return SummaryFailed(why="nothing was said in the stretch to be folded")
    brief = budget.is_small
    text = framed(made.summary, transcript=state.setup.transcript, tail_follows=action.tail_follows, unasked=False, brief=brief)
    return Summarized(text=text, method="structural", receipt=msgspec.to_builtins(made.receipt))


def _composed(ports: Ports, state: State, action: Summarize, body: str, source: compose.Source, **seen: Any) -> Summarized:
    """What a model or a memory wrote, with what code carries beside it (C6)."""
    entries = material(state.log)
    start, cut = _places(entries, action, state.log)
    window, policy = state.setup.window, state.setup.policy.summary
    threshold = window.auto
    made = compose.compose(
        entries,
        start,
        cut,
        body,
        estimate=_estimate(state),
        budget=Shares(people=min(scaled(policy.people_tokens, window), threshold * 0.2), facts=threshold * 0.05),
        transcript=state.setup.transcript,
        tail_follows=action.tail_follows,
        unasked=action.trigger != "manual",
        cwd=state.log.head.cwd,
        source=source,
        pins=[pin.text for pin in state.tracking.pins],
        running=_running(ports),
        instructions=[] if state.setup.restores or "session_start" in state.setup.hooks else None,
        known=ports.known,
        **seen,
    )
    notes = tuple(f"taken out of the summary, since nobody said it: {line[:200]}" for line in made.removed)
    return Summarized(text=made.text, method=action.method, receipt=msgspec.to_builtins(made.receipt), notes=notes)


class Shares(NamedTuple):
    """Tokens for what code carries over."""

    people: float
    facts: float


def _written(ports: Ports, state: State, action: Summarize) -> Doing:
    """A model writes it."""
    if ports.ask is None:
        return SummaryFailed(why="no model was given to write summaries: give `ask`, or set summary.method to structural")
    writing = flow.summarise(_task(ports, state, action))
    calls, used = 0, None
    reply: flow.Answer | Rejection | None = None
    try:
        while True:
            wanted = writing.send(reply)
            if isinstance(wanted, flow.Wait):
                yield Effect(ports.sleep, (wanted.seconds,), blocking=True)
                reply = None
                continue
            calls += 1
            reply = yield from _asked(ports.ask, wanted)
            if isinstance(reply, flow.Answer) and reply.usage is not None:
                used = reply.usage if used is None else used + reply.usage
    except StopIteration as stop:
        written: flow.Written = stop.value
    except SummaryError as error:
        return SummaryFailed(why=str(error), calls=calls, usage=used)
    finally:
        writing.close()
    made = _composed(ports, state, action, written.text, "model", unseen=written.unseen, seen_in_part=written.shortened)
    return msgspec.structs.replace(made, calls=calls, usage=used, model=written.model, notes=(*made.notes, *written.notes))


def _asked(ask: AskModel, wanted: flow.Ask) -> Generator[Effect, Any, flow.Answer | Rejection]:
    """One request. What it raises is a failure like any other, so that the ladder goes on and the breaker counts (A4, A6)."""
    try:
        found = yield Effect(ask, (wanted,), blocking=True)
    except Exception as error:
        passing = isinstance(error, OSError | TimeoutError)
        return Rejection(why="transient" if passing else "other", message=f"{type(error).__name__}: {error}")
    if isinstance(found, flow.Answer | Rejection):
        return found
    if inspect.iscoroutine(found):
        found.close()
    what = "a coroutine, which only an AsyncDriver awaits" if inspect.isawaitable(found) else repr(found)[:200]
    return Rejection(why="other", message=f"ask has to give an Answer or a Rejection, and gave {what}")


def _task(ports: Ports, state: State, action: Summarize) -> flow.Task:
    setup, view = state.setup, state.view
    policy, log = setup.policy.summary, state.log
    low = 0 if action.first is None else log.position(action.first)
    high = len(log) - 1 if action.last is None else log.position(action.last)
    shown = view.shown()
    inside = tuple(item.entry for item in shown if low <= item.position <= high)
    before = tuple(item.entry for item in shown if item.position < low)
    own = setup.model.id
    return flow.Task(
        entries=inside,
        before=before,
        window=ports.summary_window or min(setup.window.context, setup.model.window),
        max_output=ports.summary_output or setup.model.max_output,
        models=(policy.model, own) if policy.model else (own,),
        own_model=own,
        fork=policy.fork,
        estimate=_estimate(state),
        max_tokens=max(1, action.max_tokens - action.max_tokens // 10),  # a tenth is for what code puts beside it (C6, L12)
        instructions=action.instructions,
        direction=action.direction,
        policy=policy,
        body_limit=setup.model.body_limit,
        fork_tokens=state.used,
    )


def _native(ports: Ports, state: State, action: Summarize) -> Doing:
    """The provider's own compaction writes it (L10)."""
    if ports.native is None:
        return SummaryFailed(why="no way to ask the provider for its own compaction was given")
    low = 0 if action.first is None else state.log.position(action.first)
    high = len(state.log) - 1 if action.last is None else state.log.position(action.last)
    inside = tuple(item.entry for item in state.view.shown() if low <= item.position <= high)
    found = yield Effect(ports.native, (inside,), blocking=True)
    if isinstance(found, SummaryFailed):
        return found
    if not isinstance(found, Summarized) or not found.block:
        return SummaryFailed(why=f"the provider's compaction gave no block, but {type(found).__name__}")
    carried = _composed(ports, state, action, "", "native")
    return msgspec.structs.replace(found, text=carried.text, method="native", receipt=carried.receipt)


def stage_summary(state: State, action: Stage) -> Summarize:
    """The summary to be made beforehand for a stretch (X4)."""
    policy = state.setup.policy.summary
    method: Method = "model" if policy.method == "model" else "structural"
    return Summarize(
        method=method,
        trigger="collapse",
        first=action.first,
        last=action.last,
        pressure=0.25,
        max_tokens=scaled(policy.max_tokens, state.setup.window) // 4,
    )
