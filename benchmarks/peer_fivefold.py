"""fivefold itself, run like its peers: the driver over the same messages, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fivefold.core import engine
from fivefold.core.entries import Entry
from fivefold.core.events import LevelName, MemoryRead, Replied, RequestDue, Said
from fivefold.core.log import Log
from fivefold.core.messages import Text, ToolResult, ToolUse
from fivefold.core.state import Setup, Tracking
from fivefold.drive import Driver
from fivefold.formats.openai_chat_messages import decode
from fivefold.perform import Ports
from fivefold.setup import make_setup
from fivefold.summarize.references import Extractor

PACKAGE = "fivefold"
WINDOW = 200_000
ENDLESS = 1 << 40
MEMORY = "# Current state\n" + "The parser is repaired, the tests are green, the changelog entry is open.\n" * 100
COVERED = 0.95
"""The session memory covers so much of the conversation."""


def converted(messages: list[dict[str, Any]]) -> Iterator[Entry]:
    """OpenAI's messages as entries, a response each."""
    for number, message in enumerate(messages):
        read = decode(message)
        api_id = f"r{number}" if read.role == "assistant" else None
        yield Entry(id=f"e{number}", kind=read.role, blocks=read.blocks, time=float(number), api_id=api_id)


class Remembered:
    """A session memory that is ready."""

    def read(self, wait_seconds: float, stale_seconds: float) -> MemoryRead:
        return MemoryRead(text=MEMORY)


def next_turn(number: int) -> tuple[Entry, Entry]:
    """The result that a request brings in, and the response to it."""
    result = Entry(id=f"u{number}", kind="user", blocks=(ToolResult(f"k{number - 1}", "a line of a result\n" * 20),), time=float(number))
    blocks = (Text("I go on."), ToolUse(f"k{number}", "Bash", {"command": "make test"}))
    return result, Entry(id=f"a{number}", kind="assistant", blocks=blocks, time=float(number), api_id=f"t{number}")


def turn(entries: list[Entry], setup: Setup, *, built: bool) -> Callable[[], Callable[[], int | None]]:
    """One turn: a result is taken in, the request is decided on, the response is taken in. ``built``: through the driver, which
    also builds the request and repairs it; else through the engine alone."""
    driver = Driver(Log(records=entries), setup=setup, clock=lambda: 0.0)
    number = 1_000_000
    driver.say(Entry(id="u", kind="user", blocks=(Text("Go on."),)))
    driver.before_request()
    driver.replied(next_turn(number)[1])

    def prepare() -> Callable[[], int | None]:
        nonlocal number
        number += 1
        result, response = next_turn(number)

        def call() -> int | None:
            if built:
                driver.say(result)
                assert driver.before_request().request.messages
                driver.replied(response)
            else:
                state = engine.step(driver.state, Said(entries=(result,))).state
                state = engine.step(state, RequestDue(now=0.0)).state
                driver.state = engine.step(state, Replied(entries=(response,), now=0.0)).state
            return None

        return call

    return prepare


def check(entries: list[Entry], setup: Setup) -> Callable[[], Callable[[], int | None]]:
    """The check alone: what is due before a request, once the last result has been taken in."""
    state = engine.step(
        engine.begin(Log(records=entries), setup), Said(entries=(Entry(id="u", kind="user", blocks=(Text("Go on."),)),))
    ).state

    def prepare() -> Callable[[], int | None]:
        def call() -> int | None:
            engine.step(state, RequestDue(now=0.0))
            return None

        return call

    return prepare


def compaction(
    entries: list[Entry], level: LevelName | None, *, covered: str | None = None, warm: bool = False
) -> Callable[[], Callable[[], int | None]]:
    """A compaction that was asked for, applied. ``warm``: the texts have been looked at before, as they have where a conversation
    is compacted a second time."""
    setup = make_setup(window=WINDOW)
    known = Extractor()
    if warm:
        Driver(Log(records=entries), setup=setup, ports=Ports(known=known)).preview(level="auto")

    def prepare() -> Callable[[], int | None]:
        ports = Ports(memory=Remembered() if covered else None, known=known if warm else Extractor())
        driver = Driver(Log(records=entries), setup=setup, ports=ports, tracking=Tracking(covered=covered), clock=lambda: 0.0)

        def call() -> int | None:
            plan = driver.preview(level=level)
            driver.apply(plan)
            return len(driver.state.view) if plan.folds else None

        return call

    return prepare


def cases(messages: list[dict[str, Any]]) -> dict[str, Callable[[], Callable[[], int | None]]]:
    """A whole turn where nothing is due, and each level asked for in a window of ``WINDOW`` tokens."""
    entries = list(converted(messages))
    endless = make_setup(window=ENDLESS, max_output=1_000)
    found = {
        "check: what is due, nothing": check(entries, endless),
        "check: a turn taken in and decided on": turn(entries, endless, built=False),
        "check: the same, and the request built and repaired": turn(entries, endless, built=True),
    }
    if len(entries) <= 2_000:
        covered = entries[int(len(entries) * COVERED)].id
        found |= {
            "clear: micro": compaction(entries, "micro"),
            "memory: session memory, texts new to it": compaction(entries, "memory", covered=covered),
            "memory: session memory, texts seen before": compaction(entries, "memory", covered=covered, warm=True),
            "full: structural, texts new to it": compaction(entries, "auto"),
            "full: structural, texts seen before": compaction(entries, "auto", warm=True),
        }
    return found
