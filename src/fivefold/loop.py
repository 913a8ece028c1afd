"""The query loop (Q1–Q5): what is due before a request, the request, recovery, the tools, and again, until the agent is through.

One generator body (``Loop.turn``) yields what is to be called (``Effect``, ``Together``, ``Aside``) and what is to be told
(``LoopEvent``); ``Agent`` and ``AsyncAgent`` (``agent.py``) make the calls, one plainly, one on an event loop.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from . import agent_tools
from .calling import Call, CallModel, Part, Reply, Stream, Tool
from .core.actions import Emit
from .core.cache_watch import CacheWatch, Prefix
from .core.entries import Entry
from .core.messages import JSON, Block, Image, Object, Text, ToolResult, ToolUse
from .core.rejection import Rejection
from .core.state import Phase
from .driving import Driving, Outgoing, Work, request_of
from .errors import CannotFitError, FivefoldError, MediaRejectedError, PromptTooLongError, RejectedError, VetoedError
from .loop_events import (
    CacheBroken,
    Ended,
    LoopEvent,
    Reason,
    Requested,
    Responded,
    Retry,
    Streamed,
    ToolEnded,
    ToolStarted,
    Warned,
    of_engine,
)
from .perform import Effect
from .providers.overflow import classify_stop
from .summarize.parse import pause_before
from .warn import Warned as Shown

T = TypeVar("T")
MOST_TURNS = 200
MOST_REPEATS = 6
"""A request that fails for a passing reason is sent so many times more (L8 does the same for summaries)."""
MOST_STOP_BLOCKS = 3
"""So often in a row may a stop hook send the agent back to work."""
_OWN = ("compact", "snip", "recall")


class Together(NamedTuple):
    """Calls that may run beside one another. Answered by what each gave, or the exception that it raised, in order."""

    effects: tuple[Effect, ...]


class Aside(NamedTuple):
    """Work that nobody waits for (S1, X4). Answered by None at once."""

    work: Callable[[], Work[int]]


Steps: TypeAlias = Generator[Effect | Together | Aside | LoopEvent, Any, T]


@dataclass(kw_only=True)
class Wants:
    """What a loop is made of; each part can be replaced (Q2)."""

    model: CallModel
    name: str
    """The model's name, as the provider knows it."""
    tools: Sequence[Tool] = ()
    own_tools: bool = True
    """Whether the agent gets ``compact``, ``snip`` and ``recall`` (X8)."""
    max_turns: int = MOST_TURNS
    max_tokens: int | None = None
    thinks: bool = False
    source: str = "main"
    new_id: Callable[[], str] = field(default=lambda: uuid.uuid4().hex)
    sleep: Callable[[float], object] = time.sleep
    wire: agent_tools.Wire = "anthropic"


class Loop:
    """One agent's loop over a driver."""

    def __init__(self, driver: Driving, wants: Wants) -> None:
        self.driver, self.wants = driver, wants
        self.tools = {tool.name: tool for tool in wants.tools}
        self.stream: Stream | None = None
        """The reply that is on its way: whoever runs the body closes it where the body ends early."""
        self.partial: list[str] = []
        """Text of it so far."""
        self._heard: list[LoopEvent] = []
        self.cache = CacheWatch()
        """What is in the provider's cache, as far as responses tell."""
        self._prefix: Prefix | None = None
        self._before, driver.listen = driver.listen, self._hear
        self.turns = 0
        """Requests of this run so far, recoveries not counted."""
        driver.warnings.subscribe(self._warn)

    def _hear(self, emit: Emit) -> None:
        self._heard.append(of_engine(emit.name, emit.fields))
        if self._before is not None:
            self._before(emit)

    def _warn(self, shown: Shown) -> None:
        self._heard.append(Warned(level=shown.level, percent_left=shown.percent_left))

    def _told(self) -> Steps[None]:
        while self._heard:
            yield self._heard.pop(0)

    # --- the body

    def turn(self, said: Iterable[Entry]) -> Steps[None]:
        """All that follows from what was said, up to ``Ended``."""
        self.turns = 0
        self.driver.say(*said)
        try:
            reason, error = yield from self._run()
        except (RejectedError, CannotFitError, VetoedError) as failed:
            reason, error = reason_of(failed), str(failed)
        yield from self._told()
        yield Ended(reason=reason, turns=self.turns, error=error)

    def _run(self) -> Steps[tuple[Reason, str]]:
        wants, paused, blocked = self.wants, False, 0
        while self.turns < wants.max_turns:
            self.turns += 1
            out = yield from self._through(self.driver.due_work(wants.source, wants.max_tokens, wants.thinks, True))
            yield Aside(self.driver.background_work)
            reply = yield from self._reply(out, paused)
            paused = reply.stop_reason == "pause_turn"
            if reply.calls:
                blocked = 0
                yield from self._use(reply.calls)
            elif not paused:
                why = yield from self._stop_hook(blocked)
                if not why:
                    return "completed", ""
                blocked += 1
                self.driver.say(self._entry("user", (Text(why),), meta=True))
        return "max_turns", f"{wants.max_turns} turns are the most of one run"

    def _through(self, work: Work[T]) -> Steps[T]:
        """A driver's generator, with what it tells handed on before each call that it makes."""
        go_on: Callable[[], Effect] = partial(work.send, None)
        try:
            while True:
                try:
                    effect = go_on()
                except StopIteration as stop:
                    yield from self._told()
                    found: T = stop.value
                    return found
                except FivefoldError:
                    yield from self._told()
                    raise
                yield from self._told()
                try:
                    go_on = partial(work.send, (yield effect))
                except Exception as error:
                    go_on = partial(work.throw, error)
        finally:
            work.close()

    # --- a request

    def _reply(self, out: Outgoing, paused: bool) -> Steps[Reply]:
        """A response, whatever it takes (R); what cannot be recovered is raised."""
        repeats = 0
        while True:
            found = yield from self._call(out, paused)
            if isinstance(found, Reply):
                tokens = None if found.usage is None else found.usage.output
                stopped = classify_stop(found.stop_reason, output_tokens=tokens, has_content=found.has_content)
                if stopped is None:
                    entry = self._response(found)
                    self.driver.replied(entry, source=self.wants.source, context_management=found.context_management)
                    self._watch(found)
                    yield from self._told()
                    yield Responded(reply=found, entry=entry)
                    return found
                found = stopped
            seconds = pause_before(repeats, found) if repeats < MOST_REPEATS else None
            if seconds is not None:
                repeats += 1
                yield Retry(transition="again", why=found.message, seconds=seconds)
                yield Effect(self.wants.sleep, (seconds,), blocking=True)
                continue
            out = yield from self._through(self.driver.refused_work(found))

    def _call(self, out: Outgoing, paused: bool) -> Steps[Reply | Rejection]:
        """One call of the model, its parts told as they come; an error is not told before it is known to stay one (R1)."""
        yield Requested(turn=self.turns, tokens=out.state.used, transition=out.send.transition)
        request = request_of(out.state, prefill=False, paused=True) if paused else out.request
        head = out.state.log.head
        own = agent_tools.schemas(self.wants.wire) if self.wants.own_tools else ()
        told = {name for tool in head.tools if isinstance(name := _named(tool), str)}
        given = (schema_of(tool) for tool in self.wants.tools if tool.name not in told)
        tools = (*head.tools, *given, *own)
        call = Call(request=request, send=out.send, model=self.wants.name, tools=tools, system=head.system)
        self.partial = []
        log = out.state.log
        folds = log.record_count - (len(log) - log.base)
        self._prefix = Prefix(self.wants.name, _digest(tools), _digest((*head.system, *request.system)), folds)
        found = yield Effect(self.wants.model, (call,), blocking=True)
        if isinstance(found, Reply | Rejection):
            return found
        self.stream = found
        while True:
            part = yield Effect(found.next, (), blocking=True)
            if not isinstance(part, Part):
                self.stream = None
                ended: Reply | Rejection = part
                return ended
            if part.kind == "text":
                self.partial.append(part.text)
            yield Streamed(part=part)

    def _watch(self, reply: Reply) -> None:
        """Tell of a cached prefix that was not read (P4)."""
        if reply.usage is None or self._prefix is None:
            return
        model, now = self.driver.state.setup.model, self.driver.clock()
        broken = self.cache.broken(self._prefix, reply.usage, now, model)
        self.cache = self.cache.after(self._prefix, reply.usage, now, model.cache)
        if broken is not None:
            self._heard.append(CacheBroken(cause=broken.cause, expected=broken.expected, read=broken.read, usd=broken.usd))

    def abandon(self) -> None:
        """The run ended early (Q4): what was streamed stays as text, the request is no longer waited for, and calls without a result
        are answered as interrupted when the next request is made (I1)."""
        text = "".join(self.partial).strip()
        self.partial = []
        if self.driver.state.phase is Phase.SENT and text:
            self.driver.replied(self._entry("assistant", (Text(text),)), source=self.wants.source)
        self.driver.cancel()

    # --- tools

    def _use(self, calls: Sequence[ToolUse]) -> Steps[None]:
        """Run the calls of a response, each result said as soon as it is there; those that may run beside one another do."""
        at = 0
        while at < len(calls):
            group = [calls[at]]
            while self._concurrent(group[-1]) and at + len(group) < len(calls) and self._concurrent(calls[at + len(group)]):
                group.append(calls[at + len(group)])
            for call in group:
                yield ToolStarted(call=call)
            found = yield Together(tuple(self._effect(call) for call in group))
            for call, given in zip(group, found, strict=True):
                result = result_of(call, given)
                self.driver.say(self._entry("user", (result,)))
                yield from self._told()
                yield ToolEnded(call=call, result=result)
            at += len(group)

    def _concurrent(self, call: ToolUse) -> bool:
        tool = self.tools.get(call.name)
        return tool is not None and tool.concurrent

    def _effect(self, call: ToolUse) -> Effect:
        if call.name in self.tools:
            return Effect(self.tools[call.name].run, (call.input,), blocking=True)
        if self.wants.own_tools and call.name in _OWN:
            return Effect(self.driver.call_tool, (call.name, call.input))
        known = [*self.tools, *(_OWN if self.wants.own_tools else ())]
        return Effect(lambda: LookupError(f"there is no tool {call.name!r}; there are {', '.join(known) or 'none'}"))

    def _stop_hook(self, blocked: int) -> Steps[str]:
        """Why a stop hook wants the agent to go on; empty where it may stop. Only after a response, never after a failure (R5)."""
        hooks = self.driver.ports.hooks
        if hooks is None or "stop" not in hooks.names() or blocked >= MOST_STOP_BLOCKS:
            return ""
        payload: Object = {"stop_hook_active": blocked > 0, "source": self.wants.source}
        seconds = float(self.driver.state.setup.policy.hooks.seconds)
        answered = yield Effect(hooks.run, ("stop", payload, seconds), blocking=True)
        return str(answered.veto)

    def _entry(self, kind: Literal["user", "assistant"], blocks: tuple[Block, ...], *, meta: bool = False) -> Entry:
        """A new entry; of the assistant's a response of its own."""
        id, now = self.wants.new_id(), self.driver.clock()
        api_id = id if kind == "assistant" else None
        return Entry(id=id, kind=kind, blocks=blocks, time=now, api_id=api_id, source=self.wants.source, meta=meta)

    def _response(self, reply: Reply) -> Entry:
        made = self._entry("assistant", reply.blocks)
        return msgspec.structs.replace(made, api_id=reply.api_id or made.id, usage=reply.usage, model=reply.model, extra=reply.extra)


def _named(schema: Object) -> JSON:
    """A tool's name in a provider's schema of it."""
    function = schema.get("function")
    return function.get("name") if isinstance(function, dict) else schema.get("name")


def schema_of(tool: Tool) -> Object:
    """A tool as Anthropic's API takes it; providers of another wire rewrite it."""
    said: Object = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **said, "input_schema": tool.schema or {"type": "object"}}


def _digest(value: object) -> str:
    return blake2b(msgspec.json.encode(value), digest_size=8).hexdigest()


def result_of(call: ToolUse, given: object) -> ToolResult:
    """What a tool gave, as the result of its call."""
    if isinstance(given, Exception):
        return ToolResult(call.id, f"{type(given).__name__}: {given}", is_error=True)
    if isinstance(given, str):
        return ToolResult(call.id, given)
    if isinstance(given, Sequence) and given and all(isinstance(part, Text | Image) for part in given):
        return ToolResult(call.id, tuple(given))
    try:
        return ToolResult(call.id, msgspec.json.encode(given).decode())
    except TypeError as error:
        return ToolResult(call.id, f"the tool gave what is neither a text nor JSON: {error}", is_error=True)


def reason_of(error: FivefoldError) -> Reason:
    """How a run ends that an error ends (Q3)."""
    match error:
        case PromptTooLongError():
            return "prompt_too_long"
        case MediaRejectedError():
            return "image_error"
        case RejectedError():
            return "model_error"
        case VetoedError():
            return "vetoed"
        case CannotFitError():
            return "blocking_limit"
    return "model_error"
