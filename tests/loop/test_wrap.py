"""V4: a program that uses an official SDK changes one line, and its conversation no longer ends."""

from __future__ import annotations

from typing import Any

import anthropic
import anyio
import openai
import pytest

from fivefold.core.policy import Policy
from fivefold.simulator import script
from fivefold.simulator.faults import Fault
from fivefold.simulator.serve import Simulator
from fivefold.wrap import wrap

NAME = "claude-haiku-4-5"
TEXT = "a line of what was said, at some length\n" * 12


def speak(request: script.Request) -> script.Reply:
    return script.Reply(text=f"Answer {request.number}. " + "Some more words. " * 140)


def client_of(simulator: Simulator, **more: Any) -> anthropic.Anthropic:
    return wrap(anthropic.Anthropic(base_url=simulator.url, api_key="key", max_retries=0), window=12_000, **more)


def talk(client: anthropic.Anthropic, rounds: int, ask: Any) -> list[Any]:
    """A program that keeps its own messages and appends the SDK's own objects to them."""
    messages: list[Any] = []
    for n in range(rounds):
        messages.append({"role": "user", "content": f"Question {n}. {TEXT}"})
        messages.append({"role": "assistant", "content": ask(client, messages)})
    return messages


def created(client: anthropic.Anthropic, messages: list[Any]) -> Any:
    found = client.messages.create(model=NAME, max_tokens=900, messages=messages, system="Be brief.")
    assert isinstance(found, anthropic.types.Message)
    return found.content


def streamed(client: anthropic.Anthropic, messages: list[Any]) -> Any:
    with client.messages.stream(model=NAME, max_tokens=900, messages=messages, system="Be brief.") as stream:
        text = "".join(stream.text_stream)
        assert text.startswith("Answer") and stream.get_final_message().content[0].text == text
        return stream.get_final_message().content


def raw_events(client: anthropic.Anthropic, messages: list[Any]) -> Any:
    events = list(client.messages.create(model=NAME, max_tokens=900, messages=messages, stream=True))
    assert [event.type for event in events][:2] == ["message_start", "content_block_start"] and events[-1].type == "message_stop"
    return "".join(event.delta.text for event in events if event.type == "content_block_delta")


def beta(client: anthropic.Anthropic, messages: list[Any]) -> Any:
    found = client.beta.messages.create(model=NAME, max_tokens=900, messages=messages, betas=["context-management-2025-06-27"])
    return [block.to_dict() for block in found.content]


@pytest.mark.parametrize("ask", [created, streamed, raw_events, beta])
def test_v4_a_program_outgrows_the_window_and_nobody_notices(ask: Any) -> None:
    events: list[str] = []
    with Simulator(speak, windows={NAME: 12_000}) as simulator:
        client = client_of(simulator, listen=lambda emit: events.append(emit.name))
        assert isinstance(client, anthropic.Anthropic)
        messages = talk(client, 30, ask)
        answered, refused = simulator.journal.answered, simulator.journal.refused
        client.close()
    assert len(messages) == 60 and len(answered) == 30 and refused == []
    assert events.count("compaction_finished") >= 1 and max(record.size for record in answered) < 12_000
    assert "Question 29." in str(answered[-1].messages[-1])


def test_v4_without_it_the_program_would_have_ended() -> None:
    with Simulator(speak, windows={NAME: 12_000}) as simulator:
        client = anthropic.Anthropic(base_url=simulator.url, api_key="key", max_retries=0)
        with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
            talk(client, 30, created)
        client.close()


def test_y2_while_nothing_has_to_be_changed_the_body_is_the_clients_own() -> None:
    with Simulator(speak) as simulator:
        plain = anthropic.Anthropic(base_url=simulator.url, api_key="key")
        for client in (plain, wrap(plain)):
            messages = [{"role": "user", "content": [{"type": "text", "text": "Hi.", "cache_control": {"type": "ephemeral"}}]}]
            client.messages.create(model=NAME, max_tokens=30, messages=messages, metadata={"user_id": "u"}, stop_sequences=["x"])
        one, other = simulator.journal.answered
        plain.close()
    assert one.request == other.request


def test_r1_what_a_provider_refuses_for_size_is_made_good_behind_the_programs_back() -> None:
    """The client believes in a larger window than there is: only the refusal tells."""
    policy = Policy.of({"auto": {"reactive_only": True}})
    for ask in (created, streamed, raw_events):
        with Simulator(speak, windows={NAME: 9_000}) as simulator:
            client = wrap(anthropic.Anthropic(base_url=simulator.url, api_key="key", max_retries=0), window=200_000, policy=policy)
            assert len(talk(client, 20, ask)) == 40
            assert len(simulator.journal.refused) >= 1
            client.close()


def test_v4_errors_that_are_no_overflow_are_the_sdks_own() -> None:
    with Simulator(speak, faults=[Fault(kind="overloaded", at=(1,)), Fault(kind="error_event", at=(2,))]) as simulator:
        client = wrap(anthropic.Anthropic(base_url=simulator.url, api_key="key", max_retries=0))
        ask = {"model": NAME, "max_tokens": 30, "messages": [{"role": "user", "content": "Hi."}]}
        with pytest.raises(anthropic.APIStatusError, match="overloaded"):
            client.messages.create(**ask)
        with pytest.raises(anthropic.APIStatusError):
            list(client.messages.create(**ask, stream=True))
        assert client.messages.create(**ask).content[0].text.startswith("Answer")
        client.close()


def test_v4_the_async_client() -> None:
    async def run(url: str) -> int:
        async with wrap(anthropic.AsyncAnthropic(base_url=url, api_key="key", max_retries=0), window=12_000) as client:
            messages: list[Any] = []
            for n in range(30):
                messages.append({"role": "user", "content": f"Question {n}. {TEXT}"})
                if n % 2:
                    found = await client.messages.create(model=NAME, max_tokens=900, messages=messages)
                    messages.append({"role": "assistant", "content": found.content})
                else:
                    events = [
                        event async for event in await client.messages.create(model=NAME, max_tokens=900, messages=messages, stream=True)
                    ]
                    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
                    messages.append({"role": "assistant", "content": text})
            return len(messages)

    with Simulator(speak, windows={NAME: 12_000}) as simulator:
        assert anyio.run(run, simulator.url) == 60 and simulator.journal.refused == []


def test_v4_openais_chat_completions() -> None:
    with Simulator(speak, windows={"gpt-4o": 12_000}) as simulator:
        client = wrap(openai.OpenAI(base_url=f"{simulator.url}/v1", api_key="key", max_retries=0), window=12_000)
        messages: list[Any] = [{"role": "system", "content": "Be brief."}]
        for n in range(30):
            messages.append({"role": "user", "content": f"Question {n}. {TEXT}"})
            if n % 2:
                found = client.chat.completions.create(model="gpt-4o", messages=messages, max_tokens=900)
                messages.append(found.choices[0].message)
            else:
                chunks = list(client.chat.completions.create(model="gpt-4o", messages=messages, max_tokens=900, stream=True))
                text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
                messages.append({"role": "assistant", "content": text})
        assert simulator.journal.refused == [] and max(record.size for record in simulator.journal.answered) < 12_000
        assert simulator.journal.answered[-1].messages[0] == {"role": "system", "content": "Be brief."}
        client.close()


def test_v4_another_client_is_refused_with_its_name() -> None:
    class Client:
        def copy(self) -> Client:
            return self

    with pytest.raises(TypeError, match="not Client"):
        wrap(Client())
