"""U1, section 4: the stream of the Messages API through the official clients, plain and asynchronous, and what stops a reply."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import pytest

from fivefold.simulator.script import Call, Reply, Request
from fivefold.simulator.serve import Simulator

from .asking import MODEL, OLD, TOOL, client_of, user, words

LONG = "Some text, long enough to be sent in more than one piece. " * 4
REPLY = Reply(thinking="First I look. " * 8, text=LONG, calls=(Call("bash", {"command": "ls -la " * 20}, "toolu_1"),))


def test_u1_events_come_in_the_order_of_the_api() -> None:
    with (
        Simulator([REPLY]) as sim,
        client_of(sim) as client,
        client.messages.create(
            model=MODEL, max_tokens=1000, messages=[user("a")], thinking={"type": "adaptive", "display": "summarized"}, stream=True
        ) as stream,
    ):
        events: list[Any] = list(stream)
    order = [event.delta.type if event.type == "content_block_delta" else event.type for event in events]
    runs = [kind for i, kind in enumerate(order) if i == 0 or kind != order[i - 1]]
    assert runs == [
        "message_start",
        *("content_block_start", "thinking_delta", "signature_delta", "content_block_stop"),
        *("content_block_start", "text_delta", "content_block_stop"),
        *("content_block_start", "input_json_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    assert order.count("text_delta") == 3 and order.count("input_json_delta") == 2
    start, end = events[0].message, events[-2]
    assert (start.content, start.stop_reason, start.usage.input_tokens, start.usage.output_tokens) == ([], None, 6, 1)
    assert end.delta.stop_reason == "tool_use" and end.usage.output_tokens > 100 and end.usage.input_tokens == 6


def test_u1_a_ping_is_sent_that_clients_ignore() -> None:
    with Simulator([REPLY, REPLY]) as sim, client_of(sim) as client:
        response = client.messages.with_raw_response.create(model=MODEL, max_tokens=1000, messages=[user("a")], stream=True)
        names = [line.removeprefix("event: ") for line in response.http_response.iter_lines() if line.startswith("event: ")]
        assert names[:2] == ["message_start", "ping"]
        assert client.messages.create(model=MODEL, max_tokens=1000, messages=[user("a")]).stop_reason == "tool_use"


def test_u1_streamed_and_plain_answers_are_the_same() -> None:
    with Simulator([REPLY, REPLY]) as sim, client_of(sim) as client:
        body: dict[str, Any] = {"model": MODEL, "max_tokens": 1000, "messages": [user("a")], "tools": [TOOL]}
        plain = client.messages.create(**body)
        with client.messages.stream(**body) as stream:
            streamed = stream.get_final_message()
        keep = {"content", "stop_reason", "usage", "model", "role"}
        same: list[Any] = [json.loads(message.to_json()) for message in (plain, streamed)]
        for message in same:
            message["usage"].pop("cache_creation"), message["usage"].pop("service_tier")
            message["content"][1].pop("parsed_output", None)
        assert {k: v for k, v in same[0].items() if k in keep} == {k: v for k, v in same[1].items() if k in keep}
        assert sim.journal.records[0].answer is not None and [record.streamed for record in sim.journal.records] == [False, True]


def test_u1_the_asynchronous_client_is_served_many_at_once() -> None:
    async def ask(client: anthropic.AsyncAnthropic, text: str) -> str:
        async with client.messages.stream(model=MODEL, max_tokens=100, messages=[user(text)]) as stream:
            return await stream.get_final_text()

    async def main(url: str) -> list[str]:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="key", max_retries=0) as client:
            return list(await asyncio.gather(*(ask(client, f"number {i}") for i in range(12))))

    with Simulator(lambda request: str(request.messages[-1]["content"])) as sim:
        assert asyncio.run(main(sim.url)) == [f"number {i}" for i in range(12)]


def test_u2_output_ends_at_max_tokens() -> None:
    with Simulator([words(50)]) as sim, client_of(sim) as client:
        answer = client.messages.create(model=OLD, max_tokens=20, messages=[user("a")])
    assert (answer.stop_reason, answer.usage.output_tokens) == ("max_tokens", 20)
    assert isinstance(answer.content[0], anthropic.types.TextBlock) and answer.content[0].text == words(20)


def test_u2_output_ends_at_the_window_from_4_5_on() -> None:
    with Simulator([words(500)], windows={OLD: 1_000}) as sim, client_of(sim) as client:
        answer = client.messages.create(model=OLD, max_tokens=800, messages=[user(words(796))])
    assert (answer.stop_reason, answer.usage.input_tokens, answer.usage.output_tokens) == ("model_context_window_exceeded", 800, 200)


def test_u2_output_ends_before_a_stop_sequence() -> None:
    with Simulator(["one two STOP three"]) as sim, client_of(sim) as client:
        answer = client.messages.create(model=OLD, max_tokens=100, messages=[user("a")], stop_sequences=["END", "STOP"])
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "STOP")
    assert isinstance(answer.content[0], anthropic.types.TextBlock) and answer.content[0].text == "one two "


def test_u1_models_tell_their_limits() -> None:
    """Section 6: what the Models API gives at run time, a window given to the simulator included."""
    with Simulator(windows={"claude-opus-5-5": 8_192, "my-model": 4_096}) as sim, client_of(sim) as client:
        small, mine, haiku = (client.models.retrieve(name) for name in ("claude-opus-5-5", "my-model", OLD))
        assert (small.max_input_tokens, mine.max_input_tokens, haiku.max_input_tokens) == (8_192, 4_096, 200_000)
        assert haiku.max_tokens == 64_000 and haiku.lifecycle == "active"
        assert {"my-model", "claude-sonnet-5-5"} <= {model.id for model in client.models.list()}
        able = client.beta.models.retrieve("claude-opus-5-5", betas=["compact-2026-09-04"]).capabilities
        assert able is not None and able.compaction is not None and able.compaction.summarize.supported
        assert able.thinking.types.adaptive.supported and not able.thinking.types.disabled.supported
        with pytest.raises(anthropic.NotFoundError):
            client.models.retrieve("claude-nobody-9")


def test_u4_the_model_is_told_what_was_asked() -> None:
    seen: list[Request] = []

    def model(request: Request) -> str:
        seen.append(request)
        return "ok"

    with Simulator(model) as sim, client_of(sim) as client:
        client.messages.create(model=OLD, max_tokens=7, system="Be brief.", tools=[TOOL], messages=[user("a")])  # type: ignore[list-item]
    (request,) = seen
    assert (request.api, request.purpose, request.model, request.system) == ("messages", "turn", OLD, "Be brief.")
    assert (request.messages, request.tools, request.max_tokens, request.number) == ([user("a")], [TOOL], 7, 0)
    assert request.input_tokens == sim.journal.records[0].input
