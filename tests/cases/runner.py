"""Runs a case through the driver: its messages become a log, its event a setup and a scripted world, its steps what is done.

What happened is written down in a ``Run``: each compaction with what was sent before and after it, each request, each summary request,
each event, each error. Nothing here decides whether that was right; ``probes`` and ``musts_*`` do.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from fivefold.core.actions import Emit
from fivefold.core.entries import Boundary, Entry, Fold, Head, HideSpan
from fivefold.core.events import Trigger
from fivefold.core.log import Log
from fivefold.core.messages import Text
from fivefold.core.policy import Policy
from fivefold.core.rejection import Rejection
from fivefold.core.state import Setup
from fivefold.core.window import window_of
from fivefold.drive import AsyncDriver, Driver
from fivefold.driving import Outgoing
from fivefold.errors import FivefoldError
from fivefold.formats.anthropic_messages import decode
from fivefold.perform import Ports
from fivefold.plan import Plan
from fivefold.ports import RunningTask
from fivefold.providers.models import Override
from fivefold.providers.overflow import classify_stop
from fivefold.setup import make_setup
from fivefold.store.session import Session

from .world import Json, World, body_bytes, encoded, filler, plain, plain_tokens, rejection_of, text_of, texts

HERE = Path(__file__).parents[1] / "data" / "cases"
MORE = Path(os.environ.get("FIVEFOLD_CASES", Path(__file__).parents[3] / "shared" / "cases"))
SECONDS_A_MESSAGE, SECONDS_A_TURN, IDLE_SECONDS = 10.0, 30.0, 7_200.0
MODEL = "case-model"
SUMMARY = re.compile(r"\[summary(?: \d+)?\] ")
"""How the cases mark a message that is an earlier summary."""
SMALL_AT = 67_000
"""Auto threshold under which the policy's token numbers shrink (W7): what a case says is meant as it stands."""


@dataclass(frozen=True)
class Case:
    """One file. ``known``: it is one of those in the tree, whose ``must`` lines have functions of their own."""

    id: str
    kind: str
    messages: list[Json]
    event: Mapping[str, Any]
    must: list[str]
    probe: Mapping[str, Any]
    input_valid: bool
    allow_pending: bool
    known: bool


def load(path: Path, *, known: bool) -> Case:
    """A case from its file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return Case(
        id=data["id"],
        kind=data["kind"],
        messages=data["messages"],
        event=data["event"],
        must=data["must"],
        probe=data["probe"],
        input_valid=data.get("input_valid", True),
        allow_pending=data.get("allow_pending", False),
        known=known,
    )


def cases() -> list[Case]:
    """All of the tree, and what else lies in the folder beside it; of two with one id the tree's."""
    found = {path.stem: load(path, known=True) for path in sorted(HERE.glob("*.json"))}
    for path in sorted(MORE.glob("*.json")):
        case = load(path, known=False)
        found.setdefault(case.id, case)
    return list(found.values())


# --- what happened


@dataclass
class Attempt:
    """One compaction that was asked for, or that a request or a refusal led to."""

    how: str
    before: list[Json]
    view_before: int
    after: list[Json] = field(default_factory=list)
    view_after: int = 0
    plan: Plan | None = None
    error: BaseException | None = None
    cancelled: bool = False
    seconds: float = 0.0
    cancel_seconds: float | None = None
    """From the cancel to its return."""
    events: list[Emit] = field(default_factory=list)
    asks: int = 0
    failures: tuple[int, int] = (0, 0)
    """What the breaker had counted, before and after."""
    log_before: tuple[str, ...] = ()

    @property
    def applied(self) -> bool:
        """Whether a full compaction was put in place."""
        return any(emit.name == "compaction_finished" for emit in self.events)

    @property
    def succeeded(self) -> bool:
        """Whether it says so itself."""
        return self.error is None and not self.cancelled and self.applied

    def named(self, name: str) -> list[Mapping[str, Any]]:
        """The fields of the events of a name."""
        return [emit.fields for emit in self.events if emit.name == name]


class Sent(NamedTuple):
    """A main request."""

    messages: list[Json]
    system: str
    max_tokens: int | None
    transition: str
    bytes: int
    refused: bool


@dataclass
class Run:
    """All of one case."""

    case: Case
    world: World
    setup: Setup
    driver: Any
    path: Path
    attempts: list[Attempt] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    errors: list[FivefoldError] = field(default_factory=list)
    events: list[Emit] = field(default_factory=list)
    original: list[Json] = field(default_factory=list)
    """What would be sent of the case's messages with nothing done to them."""
    loads: list[tuple[list[Json], list[Json]]] = field(default_factory=list)
    """At each load: what was sent before it, and after."""
    crashes: list[tuple[int, list[Json] | BaseException, Path]] = field(default_factory=list)
    """For each cut: the bytes left, what the session then sends or what it raised."""
    projections: list[tuple[list[Json], list[Json]]] = field(default_factory=list)
    session: Session | None = None

    # --- reading

    @property
    def now(self) -> list[Json]:
        """What would be sent now."""
        return encoded(self.driver.outgoing().messages)

    @property
    def text(self) -> str:
        """All texts of what would be sent now."""
        return texts(self.now)

    @property
    def tokens(self) -> float:
        """Its size by the plain estimate, with system prompt and tools."""
        return plain_tokens(self.now, self.world.system, self.world.tools)

    @property
    def asks(self) -> list[Any]:
        """All summary requests."""
        return self.world.asks

    def named(self, name: str) -> list[Mapping[str, Any]]:
        """The fields of all events of a name."""
        return [emit.fields for emit in self.events if emit.name == name]

    def summaries(self) -> list[str]:
        """Texts of the summary entries in view."""
        return [
            "\n".join(block.text for block in entry.blocks if isinstance(block, Text))
            for entry in self.driver.state.view.entries()
            if entry.summary
        ]

    def history(self) -> Log:
        """The whole log."""
        return self.session.history() if self.session is not None else self.driver.log

    @property
    def event(self) -> Mapping[str, Any]:
        """The case's event."""
        return self.case.event

    def copied(self, name: str) -> Path:
        """The session's file as it is now, under another name."""
        assert self.session is not None
        return Path(shutil.copyfile(self.session.path, self.path / name))


# --- setting up


def policy_of(event: Mapping[str, Any]) -> Policy:
    """The policy that an event asks for."""
    window, config = event.get("window", 200_000), dict(event.get("config", {}))
    sections: dict[str, dict[str, Any]] = {name: {} for name in ("window", "micro", "auto", "reactive", "memory", "summary")}
    summary = sections["summary"]
    summary["method"] = "model" if event.get("summarizer") else "structural"
    if "threshold" in event:
        share = event["threshold"] if event["threshold"] <= 1 else event["threshold"] / window
        sections["window"] |= _thresholds(window, share, event.get("max_output"))
    scale = _scale(window, event.get("max_output") or max(1, window // 4), sections["window"])
    if "keep_recent_messages" in event:
        summary |= {"keep_entries": event["keep_recent_messages"], "keep_tokens": 0}
    if "keep_recent_tokens" in event:
        tokens = event["keep_recent_tokens"] if event["keep_recent_tokens"] > 1 else event["keep_recent_tokens"] * window
        summary |= {
            "keep_entries": 0,
            "keep_tokens": round(tokens / scale),
            "keep_max_tokens": round(max(tokens * 1.2, tokens + 1) / scale),
        }
    if event["trigger"] == "provider_error":
        sections["auto"]["reactive_only"] = True  # the request is at the provider: nothing was done before
    if event["trigger"] == "turn":
        sections["micro"]["time_clear"] = True
    for key, value in config.items():
        match key:
            case "auto" if isinstance(value, bool):
                sections["auto"]["enabled"] = value
            case "summarizer_model":
                summary["model"] = value
            case "max_summary_tokens":
                summary["max_tokens"] = round(value / scale)
            case "min_output":
                sections["reactive"]["min_output_tokens"] = value
            case "extract_min_new_tokens":
                sections["memory"] |= {"first_tokens": round(value / scale), "grow_tokens": round(value / scale)}
            case "main_model" | "instruction_files" | "truncate_to":
                pass
            case _ if key in Policy.__struct_fields__ and isinstance(value, dict):
                sections.setdefault(key, {}).update(value)
            case _:
                raise AssertionError(f"config.{key} is not known to this runner")
    return Policy.of({name: values for name, values in sections.items() if values})


def _thresholds(window: int, share: float, max_output: int | None) -> dict[str, Any]:
    """The buffers that put the auto threshold at a share of the window, where the defaults have it lower; an override may
    only lower it (W2)."""
    wanted = round(window * share)
    default = window_of(window, max_output or max(1, window // 4))
    if wanted <= default.auto:
        return {"threshold_tokens": wanted}
    full = min(window, 100_000)
    left = (window - wanted) * 100_000 // full  # as the policy counts, before it shrinks with the window
    reserve, buffer = left // 3, left - left // 3
    return {"summary_reserve_tokens": reserve, "auto_buffer_tokens": buffer, "blocking_buffer_tokens": buffer // 3}


def _scale(window: int, max_output: int, values: dict[str, Any]) -> float:
    policy = Policy.of({"window": values} if values else {})
    return min(1.0, window_of(window, max_output, policy.window).auto / SMALL_AT)


def model_name(event: Mapping[str, Any]) -> str:
    """The conversation's own model."""
    return str(event.get("model") or event.get("config", {}).get("main_model") or MODEL)


def setup_of(event: Mapping[str, Any], head: Head, policy: Policy | None = None) -> Setup:
    """What a case runs under."""
    name, window = model_name(event), event.get("window", 200_000)
    overrides = {name: Override(window=window, max_output=event.get("max_output"), body_limit=event.get("body_limit_bytes"))}
    chosen = policy or policy_of(event)
    if "body_limit_bytes" in event:
        return make_setup(name, policy=chosen, head=head, overrides=overrides)
    return make_setup(name, window=window, max_output=event.get("max_output"), policy=chosen, head=head)


def entries_of(messages: Sequence[Json], *, start: int = 1, at: float, prefix: str = "m") -> list[Entry]:
    """Entries m1, m2 … of messages, as the reader of this format makes them."""
    found = []
    for number, message in enumerate(messages, start):
        entry = decode(message, lambda _, number=number: f"{prefix}{number}", number)
        assert entry is not None, message
        summary = entry.kind == "user" and isinstance(message["content"], str) and SUMMARY.match(message["content"]) is not None
        time = at + number * SECONDS_A_MESSAGE
        found.append(msgspec.structs.replace(entry, time=time, line=None, meta=entry.meta or summary, summary=summary))
    return found


def log_of(case: Case, world: World) -> Log:
    """The log that a case begins with."""
    event = case.event
    head = Head(
        id=case.id,
        model=model_name(event),
        window=event.get("window"),
        system=(Text(world.system),) if world.system else (),
        tools=tuple(world.tools),
        wire="anthropic",
    )
    messages = [dict(message) for message in case.messages]
    if "last_usage" in event:
        last = max(i for i, message in enumerate(messages) if message["role"] == "assistant")
        messages[last]["usage"] = event["last_usage"]
    entries = entries_of(messages, at=world.now)
    if "boundary_index" in event:
        return _behind_a_boundary(head, entries, event)
    return Log(head, entries)


def _behind_a_boundary(head: Head, entries: list[Entry], event: Mapping[str, Any]) -> Log:
    """A log whose message at ``boundary_index`` is the summary of what was said before: a long history, and the entries up to
    the one whose usage is older than the boundary."""
    at, stale = event["boundary_index"], event.get("stale_usage_message", event["boundary_index"])
    summary = msgspec.structs.replace(entries[at], id="s1", meta=True, summary=True)
    earlier, kept, later = entries[:at], entries[at + 1 : stale + 1], entries[stale + 1 :]
    size = max((entry.usage.size for entry in kept if entry.usage is not None), default=1_000)
    told = [Entry(id="before1", kind="user", blocks=(Text(filler(size * 1.05)),), time=entries[0].time), *earlier]
    boundary = Entry(id="b1", kind="boundary", boundary=Boundary(trigger="auto", covered=told[-1].id, tokens_before=size))
    fold = Fold(id="f1", level="auto", changes=(HideSpan(last=told[-1].id, stand_ins=(boundary, summary)),), time=entries[0].time)
    return Log(head, [*told, *kept, fold, *later])


def world_of(case: Case) -> World:
    """The world of a case."""
    event = case.event
    system = event.get("system", "")
    tools = event.get("tools", ())
    return World(
        event, system=system if isinstance(system, str) else texts([{"content": system}]), tools=tools, own_model=model_name(event)
    )


def ports_of(case: Case, world: World, path: Path, *, is_async: bool) -> Ports:
    """What the driver is given of the world."""
    event = case.event
    instructions = event.get("config", {}).get("instruction_files", {})
    for name, text in instructions.items():
        (path / name).write_text(text, encoding="utf-8")
    tasks = [RunningTask(task["id"], task["task"], task.get("status", "running")) for task in event.get("running", ())]
    tasks += [RunningTask(task["id"], task["task"], task.get("status", "finished")) for task in event.get("finished", ())]
    extracts = "extractor" in event
    return Ports(
        ask=(world.ask_async if is_async else world.ask) if event.get("summarizer") else None,
        summary_window=event.get("summarizer_window"),
        summary_output=event.get("max_output") if "summarizer_window" in event else None,
        memory=world if extracts else None,
        extract=world.extract if extracts else None,
        attachments=tuple(lambda name=name: (path / name).read_text(encoding="utf-8") for name in instructions),
        hooks=world.hooks(),
        running=(lambda: tasks) if tasks else None,
        sleep=world.sleep,
    )


# --- doing


async def got(value: Any) -> Any:
    """A value, or what it comes to."""
    return await value if inspect.isawaitable(value) else value


EVENT_KEYS = frozenset(
    {
        "what", "trigger", "force", "window", "max_output", "threshold", "keep_recent_messages", "keep_recent_tokens", "summarizer",
        "summarizer_window", "provider", "extractor", "hooks", "config", "steps", "running", "finished", "system", "tools",
        "body_limit_bytes", "boundary_index", "stale_usage_message", "model", "last_usage", "overflow", "not_overflow",
    }
)  # fmt: skip
TRIGGERS = frozenset({"auto", "manual", "turn", "resume", "background", "provider_error", "estimate", "meter", "classify"})


class Runner:
    """Does what a case says. Raises AssertionError for what it does not know: nothing of a case is passed over."""

    def __init__(self, case: Case, path: Path, *, policy: Policy | None = None, messages: Sequence[Json] | None = None) -> None:
        unknown = sorted(case.event.keys() - EVENT_KEYS)
        assert not unknown, f"the event says {unknown}, which this runner does not know"
        assert case.event["trigger"] in TRIGGERS, f"the trigger {case.event['trigger']!r} is not known to this runner"
        steps = case.event.get("steps", [])
        self.is_async = any("async" in step or "cancel" in step for step in steps)
        self.policy = policy
        world = world_of(case)
        log = log_of(case, world)
        world.now += len(case.messages) * SECONDS_A_MESSAGE + SECONDS_A_TURN
        setup = setup_of(case.event, log.head, policy)
        self.ports = ports_of(case, world, path, is_async=self.is_async)
        self.run = Run(case, world, setup, None, path)
        self.refusal: Rejection | None = None
        self.fresh_ids = (f"x{i}" for i in itertools.count(1))
        self.running: list[Attempt] = []
        self._scopes: list[anyio.CancelScope] = []
        self._group: Any = None
        self._began = 0.0
        self._before: list[Json] = []
        if any({"save", "load"} & step.keys() for step in steps) or case.event["trigger"] == "resume":
            self.run.session = Session.create(path / "case.jsonl", log.head, fsync="never")
            self.run.session.append(*log.records())
            log = self.run.session.log
        self.drive(log)
        self.run.original = self.run.now
        world.records = lambda: self.run.driver.log.record_count

    def drive(self, log: Log) -> None:
        """A driver over a log."""
        kind = AsyncDriver if self.is_async else Driver
        self.run.driver = kind(
            log, setup=self.run.setup, ports=self.ports, keeper=self.run.session, listen=self._heard, clock=self.run.world.clock
        )

    def _heard(self, emit: Emit) -> None:
        self.run.events.append(emit)
        for attempt in self.running:
            attempt.events.append(emit)

    # --- compactions

    async def attempt(self, how: str, do: Callable[[], Any]) -> Attempt:
        """Something that may compact, with what it did."""
        run, world = self.run, self.run.world
        world.attempt += 1
        driver = run.driver
        attempt = Attempt(how, run.now, driver.tokens, log_before=tuple(entry.id for entry in driver.log.entries()))
        self.running.append(attempt)
        asks, failures, began = len(world.asks), driver.state.tracking.failures, time.monotonic()
        try:
            found = await got(do())
            attempt.plan = found if isinstance(found, Plan) else None
        except FivefoldError as error:
            attempt.error = error
            run.errors.append(error)
        except anyio.get_cancelled_exc_class():
            attempt.cancelled = True
            raise
        finally:
            attempt.seconds = time.monotonic() - began
            self.running.remove(attempt)
            attempt.asks = len(world.asks) - asks
            attempt.failures = (failures, driver.state.tracking.failures)
            attempt.after, attempt.view_after = run.now, driver.tokens
            run.attempts.append(attempt)
        return attempt

    async def compact(self, trigger: Trigger) -> Attempt:
        """A compaction that is called directly."""
        self.ready()
        return await self.attempt(trigger, lambda: self.run.driver.compact(trigger=trigger))

    def ready(self) -> None:
        """A request that is at the provider is answered first."""
        if self.run.driver.state.phase.value == "sent":
            self.said([{"role": "assistant", "content": "ok"}])

    async def turn(self) -> Attempt:
        """A request that is due, sent, and what the provider says to it; nothing is answered yet."""
        run = self.run
        self.ready()
        run.world.now += SECONDS_A_TURN
        out: list[Outgoing] = []

        async def due() -> None:
            out.append(await got(run.driver.before_request(max_tokens=run.event.get("max_output"))))

        attempt = await self.attempt("request", due)
        while out and self._refused(out.pop()):
            assert self.refusal is not None

            async def again(rejection: Rejection = self.refusal) -> None:
                out.append(await got(run.driver.rejected(rejection)))

            attempt = await self.attempt("recovery", again)
        return attempt

    async def believing_more(self) -> None:
        """The blocking limit has stopped the request: the same with a window that is believed to be larger than the provider takes."""
        run = self.run
        run.setup = setup_of({**run.event, "window": run.event["window"] * 4}, run.driver.log.head, self.policy or policy_of(run.event))
        self.drive(run.driver.log)
        await self.turn()

    def _refused(self, out: Outgoing) -> bool:
        """Send a request; whether the provider refuses it."""
        run, world = self.run, self.run.world
        messages = encoded(out.request.messages)
        size = body_bytes(messages, world.system, world.tools)
        item = world.provider.next() if world.provider.given < len(world.provider.items) else {}
        if "body_limit_bytes" in run.event and size > run.event["body_limit_bytes"] and "error" not in item:
            item = {"error": {"status": 413, "type": "request_too_large", "message": "Request exceeds the maximum size"}}
        stopped = classify_stop(item["stop_reason"], output_tokens=None, has_content="text" in item) if "stop_reason" in item else None
        self.refusal = stopped if stopped is not None else rejection_of(item) if "error" in item else None
        system = texts([{"content": [{"type": "text", "text": world.system}]}]) if world.system else ""
        run.sent.append(Sent(messages, system, out.send.max_tokens, out.send.transition, size, self.refusal is not None))
        if self.refusal is None and ("text" in item or "usage" in item):
            self.said([{"role": "assistant", "content": item.get("text", "ok"), "usage": item.get("usage")}])
        return self.refusal is not None

    # --- what is said

    def said(self, messages: Sequence[Json]) -> None:
        """Messages that come in, one after the other."""
        driver, world = self.run.driver, self.run.world
        for message in messages:
            world.now += SECONDS_A_MESSAGE
            [entry] = entries_of([message], at=world.now)
            entry = msgspec.structs.replace(entry, id=next(self.fresh_ids), time=world.now)
            if entry.kind == "assistant":
                driver.replied(entry)
            else:
                driver.say(entry)

    def rounds(self, count: int) -> Iterator[list[Json]]:
        """So many more rounds of one call and its result, of the size that results have in this case."""
        found = [plain(text_of(m)) for m in self.run.case.messages if m["role"] == "user" and isinstance(m["content"], list)]
        size = sum(found) / len(found) if found else 300.0
        for _ in range(count):
            number = next(self.fresh_ids)
            use = {"type": "tool_use", "id": f"toolu_more_{number}", "name": "Read", "input": {"file_path": f"src/more_{number}.py"}}
            result = {"type": "tool_result", "tool_use_id": use["id"], "content": filler(size, topic=f"line {number}")}
            yield [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]

    def exchanges(self, count: int) -> Iterator[list[Json]]:
        """So many short questions and answers."""
        for _ in range(count):
            number = next(self.fresh_ids)
            yield [{"role": "user", "content": f"question {number}"}, {"role": "assistant", "content": f"answer {number}"}]

    def grow(self, share: float) -> None:
        """Talk until the view is as large as it was when the case began, and at that share of the threshold at least."""
        driver = self.run.driver
        wanted = driver.state.setup.window.auto * share
        while driver.tokens < wanted:
            number = next(self.fresh_ids)
            self.said([{"role": "user", "content": f"Go on with part {number}."}])
            self.said([{"role": "assistant", "content": filler(200, topic=f"part {number}")}])

    # --- steps

    async def go(self) -> Run:
        """The whole case."""
        event = self.run.event
        steps = list(event.get("steps", []))
        async with anyio.create_task_group() as group:
            self._group, self._began = group, anyio.current_time()
            if event["trigger"] in ("provider_error", "turn"):
                if event["trigger"] == "turn":
                    self.run.world.now += IDLE_SECONDS
                await self.turn()
                if event["trigger"] == "provider_error" and not self.run.sent:
                    await self.believing_more()
            elif event.get("force") and not (steps and _compacts_first(steps[0])):
                await self.compact(_trigger(event))
            elif event["trigger"] in ("auto", "background") and not steps:
                await self.turn()
            asked = any("compact" in step for step in steps)
            for step in steps:
                for _ in range(step.get("repeat", 1)):
                    await self.step(step, turns=not asked and event["trigger"] in ("auto", "background"))
        return self.run

    async def step(self, step: Mapping[str, Any], *, turns: bool) -> None:
        """One step. ``turns``: what is said is answered, a request for each message of a person."""
        unknown = set(step) - STEP_KEYS
        assert not unknown, f"steps say {sorted(unknown)}, which this runner does not know"
        if "at_s" in step:
            await anyio.sleep(max(0.0, self._began + step["at_s"] - anyio.current_time()))
        if "advance_s" in step:
            self.run.world.now += step["advance_s"]
        if step.get("cancel"):
            await self.cancel()
        for message in step.get("append", ()):
            await self.heard([message], turns=turns)
        for messages in self.rounds(step.get("append_rounds", 0)):
            await self.heard(messages, turns=turns)
        for messages in self.exchanges(step.get("append_exchanges", 0)):
            await self.heard(messages, turns=turns)
        if step.get("project_twice"):
            self.project()
        if "append_rounds" in step and self.run.event["trigger"] == "turn":
            await self.turn()
        if step.get("compact"):
            await self.compact_as(step)
        if step.get("save") and self.run.session is not None:
            self._before = self.run.now
            self.run.session.close()
        if step.get("load"):
            self.load()

    async def heard(self, messages: Sequence[Json], *, turns: bool) -> None:
        """Messages of a step, with the requests that they bring where the case is about turns."""
        self.said(messages)
        if not turns or messages[-1]["role"] != "user":
            if turns:
                await got(self.run.driver.run_background())
            return
        await self.turn()
        await got(self.run.driver.run_background())

    async def compact_as(self, step: Mapping[str, Any]) -> None:
        """A compaction as a step asks for it: directly, in the background, by a path, or with the process dying in it."""
        how = step["compact"]
        if step.get("async"):
            self._group.start_soon(self._in_background, _trigger(self.run.event))
            await anyio.sleep(0.01)  # it is under way
        elif "crash_after_bytes" in step:
            await self.crash(step["crash_after_bytes"])
        elif how is True:
            await self.compact(_trigger(self.run.event))
        else:
            await self.by_path(str(how))

    async def by_path(self, path: str) -> None:
        """A compaction by one of the ways to it."""
        first = not self.run.attempts
        if path in ("manual", "fallback"):
            if not first:
                self.grow(1.0)
            await self.compact("manual" if path == "manual" else "auto")
        elif path == "auto":
            self.grow(1.02)
            await self.turn()
        elif path == "overflow":
            self.grow(0.9)
            out = await got(self.run.driver.before_request())
            self._refused(out)
            rejection = rejection_of({"error": {"status": 400, "message": "prompt is too long"}})
            await self.attempt("overflow", lambda: self.run.driver.rejected(rejection))
        else:
            raise AssertionError(f"compact: {path!r} is not known to this runner")

    async def _in_background(self, trigger: Trigger) -> None:
        self.run.world.patient = True
        with anyio.CancelScope() as scope:
            self._scopes.append(scope)
            await self.compact(trigger)
        self._scopes.remove(scope)

    async def cancel(self) -> None:
        """Cancel what runs, and wait until it has stopped."""
        began = time.monotonic()
        waiting = list(self._scopes)
        for scope in waiting:
            scope.cancel()
        while self._scopes:
            await anyio.sleep(0.001)
        for attempt in self.run.attempts[-len(waiting) :] if waiting else ():
            attempt.cancel_seconds = time.monotonic() - began

    # --- files

    def load(self) -> None:
        """Go on from the file."""
        run = self.run
        assert run.session is not None
        before = self._before or run.now
        with suppress(FivefoldError):
            run.session.close()
        run.session = Session.open(run.session.path, fsync="never")
        self.drive(run.session.log)
        run.loads.append((before, run.now))
        self._before = []

    async def crash(self, where: Any) -> None:
        """The process dies in the middle of the compaction's write, at each byte of it: each file is opened again."""
        run = self.run
        assert run.session is not None
        path = run.session.path
        start = path.stat().st_size
        attempt = await self.compact(_trigger(run.event))
        assert attempt.applied, attempt.error
        stop = path.stat().st_size
        whole = path.read_bytes()
        cuts = range(start, stop + 1) if where == "each prefix" else [start + int(where)]
        for size in cuts:
            torn = run.path / f"torn-{size}.jsonl"
            torn.write_bytes(whole[:size])
            found: list[Json] | BaseException
            try:
                with Session.open(torn, fsync="never", readonly=True) as session:
                    found = encoded(Driver(session.log, setup=run.setup).outgoing().messages)
            except Exception as error:
                found = error
            run.crashes.append((size, found, torn))

    # --- projections

    def project(self) -> None:
        """The same messages through another driver at another time; then what came out through one more."""
        run = self.run
        first = run.sent[-1].messages
        again = Runner(run.case, run.path, policy=self.policy)
        again.run.world.now += IDLE_SECONDS * 3
        second = encoded(again.run.driver.before_request(max_tokens=run.event.get("max_output")).request.messages)
        run.projections.append((first, second))
        log = Log(run.driver.log.head, entries_of(first, at=0.0))
        third = Driver(log, setup=run.setup, clock=again.run.world.clock)
        run.projections.append((first, encoded(third.before_request().request.messages)))


STEP_KEYS = frozenset(
    {
        "append", "append_rounds", "append_exchanges", "repeat", "compact", "async", "at_s", "advance_s", "cancel", "save", "load",
        "crash_after_bytes", "project_twice",
    }
)  # fmt: skip


def _compacts_first(step: Mapping[str, Any]) -> bool:
    return "compact" in step and not any(key.startswith("append") for key in step)


def _trigger(event: Mapping[str, Any]) -> Trigger:
    return "auto" if event["trigger"] == "auto" else "manual"


def run_case(case: Case, path: Path, **how: Any) -> Run:
    """A case from beginning to end."""
    path.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as pool:  # a thread of its own: a browser test may have left a loop in this one
        return pool.submit(anyio.run, Runner(case, path, **how).go).result()
