"""An agent over HTTP with each of the official SDKs, until its conversation has outgrown the window many times (V1, R1)."""

from __future__ import annotations

from typing import Any

import anyio
import openai
import pytest

from fivefold.agent import Agent, AsyncAgent
from fivefold.calling import Tool
from fivefold.core.entries import Head
from fivefold.core.log import Log
from fivefold.core.messages import Text
from fivefold.drive import AsyncDriver, Driver
from fivefold.loop_events import Compaction, Ended
from fivefold.providers.openai_chat import AsyncOpenAIChatModel, OpenAIChatModel
from fivefold.providers.openai_responses import AsyncOpenAIResponsesModel, OpenAIResponsesModel
from fivefold.setup import make_setup
from fivefold.simulator import Call, Fault, Reply, Request, Simulator

NAME, WINDOW = "gpt-4o", 20_000
WIRES = {"openai-chat": (OpenAIChatModel, AsyncOpenAIChatModel), "openai-responses": (OpenAIResponsesModel, AsyncOpenAIResponsesModel)}


def speak(request: Request) -> Reply:
    last = request.messages[-1]
    if last.get("role") == "tool" or last.get("type") == "function_call_output":
        return Reply(text=f"Seen {request.number}.")
    return Reply(text="I look.", calls=(Call(name="read", input={"path": f"f{request.number}.py"}),))


READ = Tool(name="read", run=lambda given: "a line of a file\n" * 300, schema={"type": "object"})


def schemas(wire: str) -> tuple[dict[str, Any], ...]:
    shape = {"name": "read", "parameters": {"type": "object", "properties": {}}}
    return ({"type": "function", **shape},) if wire == "openai-responses" else ({"type": "function", "function": shape},)


@pytest.mark.parametrize("wire", WIRES)
def test_v1_r1_a_conversation_goes_on_and_faults_are_not_seen(wire: str) -> None:
    kinds = ("rate_limit", "server_error", "broken_stream", "reset", "prompt_too_long")
    faults = [Fault(kind=kind, at=(5 + 7 * n,), retry_after=0.0, tokens=WINDOW + 90, limit=WINDOW) for n, kind in enumerate(kinds)]
    with Simulator(speak, windows={NAME: WINDOW}, faults=faults) as simulator:
        client = openai.OpenAI(base_url=f"{simulator.url}/v1", api_key="key")
        setup = make_setup(NAME, window=WINDOW, head=Head(wire=wire))
        driver = Driver(Log(Head(tools=schemas(wire), wire=wire)), setup=setup)
        model = WIRES[wire][0](client)
        agent = Agent(driver, model=model, name=NAME, tools=[READ], own_tools=False, max_tokens=500, sleep=lambda seconds: None)
        events = [event for n in range(40) for event in agent.run(f"Point {n}.")]
        client.close()
        assert [record.error for record in simulator.journal.refused if record.fault is None] == [] and len(simulator.faults.log) == 5
    assert {event.reason for event in events if isinstance(event, Ended)} == {"completed"}
    assert sum(isinstance(event, Compaction) and event.stage == "finished" for event in events) >= 2
    said = [block.text for entry in driver.log.entries() for block in entry.blocks if isinstance(block, Text) and entry.kind == "user"]
    assert said == [f"Point {n}." for n in range(40)]


@pytest.mark.parametrize("wire", WIRES)
def test_v1_the_async_twin(wire: str) -> None:
    async def talk(url: str) -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key") as client:
            driver = AsyncDriver(Log(Head(tools=schemas(wire), wire=wire)), setup=make_setup(NAME, window=WINDOW, head=Head(wire=wire)))
            agent = AsyncAgent(driver, model=WIRES[wire][1](client), name=NAME, tools=[READ], own_tools=False, max_tokens=500)
            return [event for n in range(12) async for event in agent.run(f"Point {n}.")]

    with Simulator(speak, windows={NAME: WINDOW}) as simulator:
        events = anyio.run(talk, simulator.url)
        assert simulator.journal.refused == []
    assert {event.reason for event in events if isinstance(event, Ended)} == {"completed"}
