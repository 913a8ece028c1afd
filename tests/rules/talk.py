"""A made-up conversation, scripted answers of the world, and the engine between them: what the tests of the rules talk through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fivefold.core import engine
from fivefold.core.actions import NEEDS_ANSWER, Emit
from fivefold.core.economics import CacheRules, MediaLimits, Model, Price, Prices
from fivefold.core.entries import Entry, Usage
from fivefold.core.estimate import Measure, estimate_text
from fivefold.core.events import Event, MemoryRead
from fivefold.core.log import Log
from fivefold.core.messages import Text, Thinking, ToolResult, is_thinking, result_text
from fivefold.core.policy import Policy
from fivefold.core.rejection import Rejection
from fivefold.core.state import Setup, State
from fivefold.drive import Driver
from fivefold.perform import Ports
from fivefold.setup import make_setup
from fivefold.summarize.flow import Answer, Ask
from tests.build import assistant, call, result, user

MODEL = Model(
    id="m-1",
    provider="anthropic",
    window=200_000,
    max_output=64_000,
    prices=Prices(Price(5.0, 25.0, 0.5, 6.25, 10.0)),
    cache=CacheRules(),
    media=MediaLimits(max_items=100, max_side=8_000, many_items=21, many_side=2_000, max_image_bytes=5_000_000),
)
"""200K tokens, cached for five minutes. No compaction of its own, no server-side edits, and no thinking."""
BOUND = msgspec.structs.replace(MODEL, id="m-bound", thinking="bound")
"""A model whose thinking is refused after any change before it."""
FREE = msgspec.structs.replace(MODEL, id="m-free", thinking="free")
LIMIT = "prompt is too long"


def words(tokens: int, about: str = "item") -> str:
    """A text of about so many unpadded tokens, each line another."""
    line = estimate_text(f"{about} 100: nothing to see here\n")
    return "\n".join(f"{about} {100 + i}: nothing to see here" for i in range(max(1, round(tokens / line))))


def rounds_of(count: int, tokens: int, *, start: int = 1, tool: str = "Read", time: float | None = None) -> list[Entry]:
    """``count`` rounds: a person's message, a call, its result of so many tokens, and an answer."""
    found: list[Entry] = []
    for n in range(start, start + count):
        found += [
            user(f"u{n}", f"Look into part {n} of it.", time=time),
            assistant(f"a{n}", f"I read part {n}.", call(f"t{n}", tool, file_path=f"src/part{n}.py"), api_id=f"m{n}", time=time),
            user(f"r{n}", result(f"t{n}", words(tokens, f"part{n}")), time=time),
            assistant(f"b{n}", f"Part {n} holds value_{n}.", api_id=f"n{n}", time=time),
        ]
    return found


def loop_of(count: int, tokens: int, *, start: int = 1, tool: str = "Read") -> list[Entry]:
    """A person's message, then ``count`` calls with results of so many tokens: a tool loop that goes on."""
    found = [user(f"u{start}", "Look into all of it.")]
    for n in range(start, start + count):
        found.append(assistant(f"a{n}", f"I read part {n}.", call(f"t{n}", tool, file_path=f"src/part{n}.py"), api_id=f"m{n}"))
        found.append(user(f"r{n}", result(f"t{n}", words(tokens, f"part{n}"))))
    return found


def thought(n: int) -> Thinking:
    return Thinking(f"Part {n} it is.", f"c2ln{n:04d}")


def thoughtful(entries: list[Entry]) -> list[Entry]:
    """The same, every response beginning with a thought of its own."""
    found = []
    for n, entry in enumerate(entries):
        blocks = (thought(n), *entry.blocks) if entry.kind == "assistant" else entry.blocks
        found.append(msgspec.structs.replace(entry, blocks=blocks))
    return found


def setup_of(window: int = 200_000, policy: dict[str, Any] | None = None, *, model: Model = MODEL, overhead: int | None = 0) -> Setup:
    """What a conversation runs under; its sizes are estimates, times 4/3, unless ``overhead`` is None."""
    return make_setup(model, window=window, policy=Policy.of(policy or {}), overhead=overhead)


class Clock:
    """A clock that stands until it is set on."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass
class Talk:
    """A driver, what it said, and its clock."""

    driver: Driver
    events: list[Emit]
    clock: Clock

    def named(self, name: str) -> list[dict[str, Any]]:
        """The fields of all events of a name."""
        return [dict(event.fields) for event in self.events if event.name == name]


def talk(
    entries: Sequence[Entry],
    *,
    window: int = 200_000,
    policy: dict[str, Any] | None = None,
    ports: Ports | None = None,
    model: Model = MODEL,
    overhead: int | None = 0,
    setup: Setup | None = None,
    log: Log | None = None,
    **more: Any,
) -> Talk:
    """A conversation of these entries under fivefold."""
    events: list[Emit] = []
    clock = Clock()
    driver = Driver(
        log if log is not None else Log(records=entries),
        setup=setup or setup_of(window, policy, model=model, overhead=overhead),
        ports=ports,
        listen=events.append,
        clock=clock,
        **more,
    )
    return Talk(driver, events, clock)


def shown(state: State) -> list[str]:
    """Ids of what is in view."""
    return [item.entry.id for item in state.view.shown()]


def said(state: State) -> str:
    """All text in view, results included."""
    blocks = [block for entry in state.view.entries() for block in entry.blocks]
    return "\n".join(
        block.text if isinstance(block, Text) else result_text(block) for block in blocks if isinstance(block, Text | ToolResult)
    )


def thoughts(found: Talk) -> list[Any]:
    """Thinking in the request, in order."""
    return [block for message in found.driver.outgoing().messages for block in message.blocks if is_thinking(block)]


def summaries(state: State) -> list[Entry]:
    """The summaries in view."""
    return [entry for entry in state.view.entries() if entry.summary]


def usage(size: int) -> Usage:
    """What a provider counts: so many tokens of input, none of output."""
    return Usage(input=size)


def too_long(actual: int | None = None, limit: int | None = None, *, status: int | None = 400) -> Rejection:
    """A refusal for the size of the prompt."""
    return Rejection(why="too_long", message=LIMIT, status=status, actual=actual, limit=limit)


@dataclass
class Writer:
    """A model that writes summaries: what it was asked, and its answers in order, the last one again and again."""

    answers: list[Answer | Rejection | BaseException]
    asked: list[Ask] = field(default_factory=list)

    def __call__(self, ask: Ask) -> Answer | Rejection:
        self.asked.append(ask)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def written(text: str = "The parts were read; value_1 was found.", **more: Any) -> Answer:
    """A usable answer of a model."""
    return Answer(text=f"<analysis>thinking about it</analysis>\n<summary>\n{text}\n</summary>", stop_reason="end_turn", **more)


@dataclass
class Remembered:
    """A session memory: its text, and what it was asked to wait."""

    text: str | None
    running: bool = False
    path: str = ""
    waits: list[tuple[float, float]] = field(default_factory=list)

    def read(self, wait_seconds: float, stale_seconds: float) -> MemoryRead:
        self.waits.append((wait_seconds, stale_seconds))
        return MemoryRead(text=self.text, running=self.running, path=self.path)


def counting(sizes: dict[str, int], *, usual: int = 10) -> Callable[[Entry], Measure]:
    """A measure that gives entries the tokens written out in a test."""
    return lambda entry: Measure(sizes.get(entry.id, usual), 4 * sizes.get(entry.id, usual), False)


def stepped(state: State, *events: Event) -> tuple[State, list[Any]]:
    """The engine taken through some events, and all that it wanted done."""
    actions: list[Any] = []
    for event in events:
        state, made = engine.step(state, event)
        actions += made
    return state, actions


def of(actions: Sequence[Any], kind: type) -> list[Any]:
    """The actions of a kind."""
    return [action for action in actions if isinstance(action, kind)]


def played(state: State, event: Event, answer: Callable[[Any], Event]) -> tuple[State, list[Any]]:
    """An event taken through the engine, each request to the world answered by ``answer``; all actions, in order."""
    actions: list[Any] = []
    waiting: Event | None = event
    while waiting is not None:
        state, made = engine.step(state, waiting)
        actions += made
        waiting = next((answer(action) for action in made if isinstance(action, NEEDS_ANSWER)), None)
    return state, actions
