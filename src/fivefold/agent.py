"""An agent whose conversation never ends, for callers with and without an event loop (Q1): both run the one body of ``loop``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Thread
from types import TracebackType
from typing import Any, TypeVar

import anyio
import msgspec

from .calling import Reply, Tool
from .core.entries import Entry
from .core.log import Log
from .core.messages import Object, Text
from .drive import AsyncDriver, Driver, called
from .driving import Driving
from .loop import Aside, Loop, Steps, Together, Wants
from .loop_events import Ended, LoopEvent, Responded
from .perform import Effect

T = TypeVar("T")
Step = Effect | Together | Aside | LoopEvent
TASK_SCHEMA: Object = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "All that the sub-agent is to know: it sees nothing of this conversation."}},
    "required": ["prompt"],
    "additionalProperties": False,
}


class _Agents:
    """What both kinds share."""

    def __init__(self, driver: Driving, wants: Wants) -> None:
        self.loop = Loop(driver, wants)
        self.wants = wants
        self._running = False
        self._stopped = False

    def stop(self) -> None:
        """End the run at the next event; from any thread. The conversation stays whole (Q4)."""
        self._stopped = True

    def _begin(self, said: Sequence[str | Entry]) -> Steps[None]:
        if self._running:
            raise RuntimeError("this agent is running already: one run at a time, a sub-agent for work beside it")
        self._running, self._stopped = True, False
        return self.loop.turn([self._spoken(words) if isinstance(words, str) else words for words in said])

    def _spoken(self, words: str) -> Entry:
        now = self.loop.driver.clock()
        return Entry(id=self.wants.new_id(), kind="user", blocks=(Text(words),), time=now, source=self.wants.source)

    def _aborted(self) -> Ended:
        return Ended(reason="aborted", turns=self.loop.turns)

    def _for_sub_agent(self, name: str, changes: dict[str, Any]) -> tuple[Log, Wants]:
        head = self.loop.driver.log.head
        system, tools = changes.pop("system", head.system), changes.pop("schemas", head.tools)
        log = Log(msgspec.structs.replace(head, id=self.wants.new_id(), name=name, system=system, tools=tools))
        return log, replace(self.wants, source=f"agent:{name}", **changes)


class Agent(_Agents):
    """An agent for callers without an event loop.

    ``wants``: the fields of ``loop.Wants``: ``model`` and ``name`` at least.
    """

    def __init__(self, driver: Driver, **wants: Any) -> None:
        super().__init__(driver, Wants(**wants))
        self.driver = driver
        self._asides: list[_Apart] = []

    def run(self, *said: str | Entry) -> Iterator[LoopEvent]:
        """Say something and hand out what follows, ``Ended`` last. Leaving the iteration early is a stop."""
        body = self._begin(said)
        ended = False
        try:
            step: Step | None = next(body)
            while step is not None:
                self._look_aside()
                if isinstance(step, Effect | Together | Aside):
                    step = self._performed(body, step)
                    continue
                ended = isinstance(step, Ended)
                yield step
                if self._stopped and not ended:
                    break
                step = next(body, None)
        finally:
            body.close()
            self._running = False
            if not ended:
                if self.loop.stream is not None:
                    with suppress(Exception):
                        self.loop.stream.close()
                self.loop.abandon()
        if not ended:
            yield self._aborted()

    def _performed(self, body: Steps[None], step: Effect | Together | Aside) -> Step | None:
        """Make a call, and go on with what it gave."""
        try:
            match step:
                case Aside(work):
                    self._asides.append(_Apart(work()))
                    return _next(body, None)
                case Together(effects):
                    return _next(body, [_given(effect) for effect in effects])
            value = step.call(*step.args)
        except Exception as error:
            with suppress(StopIteration):
                return body.throw(error)
            return None
        return _next(body, value)

    def _look_aside(self, seconds: float = 0.0) -> None:
        self._asides = [apart for apart in self._asides if not apart.is_through(seconds)]

    def settle(self, seconds: float = 60.0) -> bool:
        """Wait for what runs in the background, each at most so long; whether all of it is through."""
        self._look_aside(seconds)
        return not self._asides

    def sub(self, name: str, **changes: Any) -> Agent:
        """A sub-agent with a log and a state of its own (Q5). ``changes``: other ``Wants``; ``system`` and ``schemas`` of its head."""
        log, wants = self._for_sub_agent(name, changes)
        driver = self.driver
        ports = replace(driver.ports, memory=None, extract=None, known=type(driver.ports.known)())
        return Agent(Driver(log, setup=driver.state.setup, ports=ports, clock=driver.clock), **vars(wants))

    def task_tool(self, name: str = "task", description: str = "Give a task to a sub-agent; gives its last words.", **changes: Any) -> Tool:
        """A tool by which the agent starts sub-agents of its own. What one returns is capped like any result (X9, M10)."""

        def run(given: Object) -> str:
            last = ""
            for event in self.sub(name, **dict(changes)).run(str(given.get("prompt", ""))):
                if isinstance(event, Responded):
                    last = words_of(event.reply) or last
                if isinstance(event, Ended) and event.reason != "completed":
                    raise RuntimeError(f"the sub-agent ended with {event.reason}: {event.error}")
            return last

        return Tool(name=name, run=run, description=description, schema=TASK_SCHEMA)


class AsyncAgent(_Agents):
    """The same on an event loop, asyncio's or trio's. Inside ``async with`` background work runs beside the run; outside it is done at
    the end of each run."""

    def __init__(self, driver: AsyncDriver, **wants: Any) -> None:
        super().__init__(driver, Wants(**{"sleep": anyio.sleep, **wants}))
        self.driver = driver
        self._group: anyio.abc.TaskGroup | None = None
        self._left: list[Aside] = []

    async def __aenter__(self) -> AsyncAgent:
        self._group = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> bool | None:
        group, self._group = self._group, None
        assert group is not None
        group.cancel_scope.cancel()
        return await group.__aexit__(kind, value, trace)

    async def run(self, *said: str | Entry) -> AsyncIterator[LoopEvent]:
        """As ``Agent.run``. Cancelling the task that iterates is a stop at whatever is waited for."""
        body = self._begin(said)
        ended = False
        try:
            step: Step | None = next(body)
            while step is not None:
                if isinstance(step, Effect | Together | Aside):
                    step = await self._performed(body, step)
                    continue
                ended = isinstance(step, Ended)
                yield step
                if self._stopped and not ended:
                    break
                step = next(body, None)
            while ended and self._left:
                await self._aside(self._left.pop())
        finally:
            body.close()
            self._running = False
            if not ended:
                await self._close_stream()
                self.loop.abandon()
        if not ended:
            yield self._aborted()

    async def _close_stream(self) -> None:
        stream = self.loop.stream
        if stream is not None:
            with anyio.CancelScope(shield=True), suppress(Exception):
                await called(Effect(stream.close, (), blocking=True))

    async def _performed(self, body: Steps[None], step: Effect | Together | Aside) -> Step | None:
        try:
            match step:
                case Aside():
                    if self._group is None:
                        self._left = [step]
                    else:
                        self._group.start_soon(self._aside, step)
                    return _next(body, None)
                case Together(effects):
                    return _next(body, await _together(effects))
            value = await called(step)
        except Exception as error:
            with suppress(StopIteration):
                return body.throw(error)
            return None
        return _next(body, value)

    async def _aside(self, aside: Aside) -> None:
        await self.driver.run(aside.work())

    def sub(self, name: str, **changes: Any) -> AsyncAgent:
        """As ``Agent.sub``."""
        log, wants = self._for_sub_agent(name, changes)
        driver = self.driver
        ports = replace(driver.ports, memory=None, extract=None, known=type(driver.ports.known)())
        return AsyncAgent(AsyncDriver(log, setup=driver.state.setup, ports=ports, clock=driver.clock), **vars(wants))


class _Apart:
    """A driver's background work: its calls in a thread of their own, all else where ``is_through`` is asked."""

    def __init__(self, work: Generator[Effect, Any, int]) -> None:
        self.work = work
        self.waits: Future[object] | None = None
        self._go_on(partial(work.send, None))

    def is_through(self, seconds: float = 0.0) -> bool:
        """Whether there is nothing left to wait for; waits for the call at hand so long."""
        while self.waits is not None:
            try:
                value = self.waits.result(seconds)
            except TimeoutError:
                if not self.waits.done():
                    return False
                self._go_on(partial(self.work.throw, TimeoutError("the call timed out")))
            except Exception as error:
                self._go_on(partial(self.work.throw, error))
            else:
                self._go_on(partial(self.work.send, value))
        return True

    def _go_on(self, step: partial[Effect]) -> None:
        try:
            effect = step()
        except StopIteration:
            self.waits = None
            return
        future: Future[object] = Future()
        Thread(target=_into, args=(future, effect), daemon=True).start()
        self.waits = future


def _into(future: Future[object], effect: Effect) -> None:
    try:
        future.set_result(effect.call(*effect.args))
    except BaseException as error:
        future.set_exception(error)


def _next(body: Steps[None], value: object) -> Step | None:
    try:
        return body.send(value)
    except StopIteration:
        return None


def _given(effect: Effect) -> object:
    try:
        return effect.call(*effect.args)
    except Exception as error:
        return error


async def _together(effects: Sequence[Effect]) -> list[object]:
    """Make calls beside one another; what one raises is its answer."""
    found: list[object] = [None] * len(effects)

    async def one(place: int, effect: Effect) -> None:
        try:
            found[place] = await called(effect)
        except Exception as error:
            found[place] = error

    async with anyio.create_task_group() as group:
        for place, effect in enumerate(effects):
            group.start_soon(one, place, effect)
    return found


def words_of(reply: Reply) -> str:
    """The text of a reply."""
    return "\n".join(block.text for block in reply.blocks if isinstance(block, Text))
