"""A model that follows a script: what the loop's tests talk to where no provider is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fivefold.agent import Agent, AsyncAgent
from fivefold.calling import Call, Part, Reply
from fivefold.core.entries import Entry, Usage
from fivefold.core.messages import Block, Text, ToolUse
from fivefold.core.rejection import Rejection
from fivefold.drive import AsyncDriver, Driver
from fivefold.loop_events import LoopEvent
from tests.rules.talk import Clock, setup_of

Answer = Reply | Rejection | BaseException | Sequence[Part | Reply | Rejection | BaseException]


class Script:
    """Answers in order; each request is kept. One more request than there are answers is an error of the test."""

    def __init__(self, *answers: Answer | Callable[[Call], Answer]) -> None:
        self.answers = list(answers)
        self.calls: list[Call] = []
        self.closed = 0

    def __call__(self, call: Call) -> Any:
        self.calls.append(call)
        assert self.answers, "a request that the script does not know"
        answer = self.answers.pop(0)
        if callable(answer) and not isinstance(answer, BaseException):
            answer = answer(call)
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, Reply | Rejection) else _Stream(self, iter(answer))


class AsyncScript(Script):
    """The same, awaited."""

    async def __call__(self, call: Call) -> Any:  # type: ignore[override]
        found = super().__call__(call)
        return found if isinstance(found, Reply | Rejection) else _AsyncStream(self, found.parts)


class _Stream:
    def __init__(self, script: Script, parts: Iterator[Any]) -> None:
        self.script, self.parts = script, parts

    def next(self) -> Any:
        part = next(self.parts)
        if isinstance(part, BaseException):
            raise part
        return part

    def close(self) -> None:
        self.script.closed += 1


class _AsyncStream(_Stream):
    async def next(self) -> Any:
        part = next(self.parts)
        if callable(part):
            part = await part()
        if isinstance(part, BaseException):
            raise part
        return part

    async def close(self) -> None:  # type: ignore[override]
        self.script.closed += 1


def reply(*blocks: Block | str, stop: str = "", tokens: int | None = None) -> Reply:
    """A response of these blocks."""
    made = tuple(Text(block) if isinstance(block, str) else block for block in blocks)
    stop = stop or ("tool_use" if any(isinstance(block, ToolUse) for block in made) else "end_turn")
    return Reply(blocks=made, stop_reason=stop, usage=None if tokens is None else Usage(input=tokens, output=10))


def agent(
    model: Script, entries: Sequence[Entry] = (), *, window: int = 200_000, policy: Any = None, ports: Any = None, **wants: Any
) -> Agent:
    """An agent with a clock that stands, ids that count, and no pauses."""
    driver = Driver(setup=setup_of(window, policy), clock=Clock(), ports=ports)
    driver.say(*entries)
    return Agent(driver, **{**_wants(model), **wants})


def async_agent(
    model: Script, entries: Sequence[Entry] = (), *, window: int = 200_000, policy: Any = None, ports: Any = None, **wants: Any
) -> AsyncAgent:
    driver = AsyncDriver(setup=setup_of(window, policy), clock=Clock(), ports=ports)
    driver.say(*entries)
    return AsyncAgent(driver, **{**_wants(model), **wants})


def _wants(model: Script) -> dict[str, Any]:
    ids = iter(range(1, 1_000_000))
    return {"model": model, "name": "m-1", "new_id": lambda: f"n{next(ids)}", "sleep": lambda seconds: None}


def names(events: Sequence[LoopEvent]) -> list[str]:
    """What happened, in words: each event's tag."""
    return [type(event).__name__ for event in events]
