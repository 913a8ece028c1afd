"""U1 to U3: OpenAI's Chat Completions and Responses, through the official client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

from fivefold.simulator import chat_api, responses_api
from fivefold.simulator.script import Call, Reply
from fivefold.simulator.serve import Simulator

from .asking import Clock, openai_of, png, words

MODEL = "gpt-5.5"
NEW = "gpt-6-sol"
TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_X", "type": "function", "function": {"name": "bash", "arguments": "{}"}}],
}
ANSWERED = {"role": "tool", "tool_call_id": "call_X", "content": "ok"}
CALL = {"type": "function_call", "call_id": "call_X", "name": "bash", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_X", "output": "ok"}
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: call_X"
)
ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
REPLY = Reply(
    thinking="Let me look.",
    text="Some text in more than one piece of the stream, for it is long enough for two.",
    calls=(Call("bash", {"command": "ls"}, "call_1"),),
)


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def sim(clock: Clock) -> Iterator[Simulator]:
    with Simulator(lambda request: "ok", clock=clock, windows={"gpt-5.4-mini": 8_192}) as sim:
        yield sim


@pytest.fixture(scope="module")
def client(sim: Simulator) -> Iterator[openai.OpenAI]:
    with openai_of(sim) as client:
        yield client


@pytest.fixture(autouse=True)
def another_day(clock: Clock) -> None:
    clock.now += 1_000_000


def chat(client: openai.OpenAI, messages: list[Any], **body: Any) -> openai.types.chat.ChatCompletion:
    sent = {"model": MODEL, "messages": messages, **body}
    return client.post("/chat/completions", body=sent, cast_to=openai.types.chat.ChatCompletion)


def respond(client: openai.OpenAI, input: Any, **body: Any) -> openai.types.responses.Response:
    sent = {"model": MODEL, "input": input, **body}
    return client.post("/responses", body=sent, cast_to=openai.types.responses.Response)


CHAT_RULES: list[tuple[str, list[Any], dict[str, Any], str, str | None, str | None]] = [
    ("unanswered", [said("a"), CALLED, said("b")], {}, UNANSWERED, "messages.[2].role", None),
    ("unanswered_at_the_end", [said("a"), CALLED], {}, UNANSWERED, "messages.[2].role", None),
    ("orphan", [said("a"), ANSWERED], {}, ORPHAN, "messages.[1].role", None),
    ("unknown", [said("a")], {"frobnicate": 1}, "Unknown parameter: 'frobnicate'.", "frobnicate", "unknown_parameter"),
    (
        "too_long",
        [said(words(9_000))],
        {"model": "gpt-5.4-mini"},
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9004 tokens. "
        "Please reduce the length of the messages.",
        "messages",
        "context_length_exceeded",
    ),
    (
        "too_long_with_output",
        [said(words(8_000))],
        {"model": "gpt-5.4-mini", "max_completion_tokens": 1_000},
        "This model's maximum context length is 8192 tokens. However, you requested 9004 tokens (8004 in the messages, 1000 in the "
        "completion). Please reduce the length of the messages or completion.",
        "messages",
        "context_length_exceeded",
    ),
]


@pytest.mark.parametrize(("messages", "body", "text", "param", "code"), [rule[1:] for rule in CHAT_RULES], ids=[r[0] for r in CHAT_RULES])
def test_u2_chat_refuses_in_the_words_of_the_api(
    client: openai.OpenAI, messages: list[Any], body: dict[str, Any], text: str, param: str | None, code: str | None
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, messages, **body)
    assert caught.value.body == {"message": text, "type": "invalid_request_error", "param": param, "code": code}


RESPONSES_RULES: list[tuple[str, Any, dict[str, Any], str, str | None]] = [
    ("no_output", [said("a"), CALL], {}, "No tool output found for function call call_X.", None),
    ("no_call", [said("a"), OUTPUT], {}, "No tool call found for function call output with call_id call_X.", None),
    (
        "reasoning_alone",
        [said("a"), REASONING, said("b")],
        {},
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        None,
    ),
    (
        "too_long",
        words(9_000),
        {"model": "gpt-5.4-mini"},
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "context_length_exceeded",
    ),
]


@pytest.mark.parametrize(
    ("input", "body", "text", "code"), [rule[1:] for rule in RESPONSES_RULES], ids=[rule[0] for rule in RESPONSES_RULES]
)
def test_u2_responses_refuse_in_the_words_of_the_api(
    client: openai.OpenAI, input: Any, body: dict[str, Any], text: str, code: str | None
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        respond(client, input, **body)
    assert caught.value.body == {"message": text, "type": "invalid_request_error", "param": "input", "code": code}


def test_u2_calls_and_outputs_of_responses_pair_wherever_they_stand(client: openai.OpenAI) -> None:
    assert respond(client, [said("a"), CALL, said("b"), OUTPUT]).output_text == "ok"
    assert respond(client, [said("a"), REASONING, CALL, OUTPUT]).output_text == "ok"
    assert chat(client, [said("a"), CALLED, ANSWERED]).choices[0].message.content == "ok"


def test_u2_unknown_models_and_wrong_keys(sim: Simulator, client: openai.OpenAI) -> None:
    assert (chat(client, [said("a")])._request_id or "").startswith("req_")
    with pytest.raises(openai.NotFoundError) as caught:
        chat(client, [said("a")], model="gpt-nobody")
    assert caught.value.code == "model_not_found"
    with Simulator(keys=("right",)) as strict, openai_of(strict) as wrong, pytest.raises(openai.AuthenticationError):
        chat(wrong, [said("a")])


def test_u2_the_parameters_taken_are_those_of_the_sdk() -> None:
    assert set(completion_create_params.CompletionCreateParamsBase.__annotations__) | {"stream"} == chat_api.KEYS
    assert set(response_create_params.ResponseCreateParamsBase.__annotations__) | {"stream"} == responses_api.CREATE_KEYS


# --- answers and streams


def test_u1_chat_answers_plain_and_streamed_alike() -> None:
    with Simulator([REPLY, REPLY]) as sim, openai_of(sim) as client:
        plain = chat(client, [said("a")], tools=[TOOL])
        with client.chat.completions.stream(
            model=MODEL, messages=[said("a")], tools=[TOOL], stream_options={"include_usage": True}
        ) as stream:  # type: ignore[list-item]
            kinds = [event.type for event in stream]
            streamed = stream.get_final_completion()
    assert kinds.count("content.delta") >= 2 and "tool_calls.function.arguments.done" in kinds
    message = plain.choices[0].message
    assert message.content == REPLY.text and plain.choices[0].finish_reason == "tool_calls" == streamed.choices[0].finish_reason
    assert message.tool_calls is not None and streamed.choices[0].message.tool_calls is not None
    for calls in (message.tool_calls, streamed.choices[0].message.tool_calls):
        (call,) = calls
        assert call.type == "function" and (call.id, call.function.name, call.function.arguments) == ("call_1", "bash", '{"command":"ls"}')
    assert streamed.choices[0].message.content == message.content and streamed.usage == plain.usage
    assert plain.usage is not None and plain.usage.completion_tokens_details is not None
    assert plain.usage.completion_tokens_details.reasoning_tokens == 4


def test_u1_chat_sends_usage_only_where_it_is_asked_for(client: openai.OpenAI) -> None:
    def usages(**options: Any) -> list[Any]:
        with client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "a"}], stream=True, **options) as stream:
            return [chunk.usage for chunk in stream if chunk.usage is not None]

    assert usages() == []
    (last,) = usages(stream_options={"include_usage": True})
    assert (last.prompt_tokens, last.completion_tokens) == (5, 1)


def test_u1_responses_answer_plain_and_streamed_alike() -> None:
    with Simulator([REPLY, REPLY]) as sim, openai_of(sim) as client:
        plain = respond(client, "a")
        with client.responses.stream(model=MODEL, input="a") as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_response()
    assert [item.type for item in plain.output] == ["reasoning", "message", "function_call"] == [item.type for item in streamed.output]
    assert plain.output_text == streamed.output_text == REPLY.text
    assert plain.usage == streamed.usage
    runs = [kind for i, kind in enumerate(kinds) if i == 0 or kind != kinds[i - 1]]
    assert runs == [
        *("response.created", "response.in_progress"),
        *("response.output_item.added", "response.output_item.done"),
        *("response.output_item.added", "response.content_part.added", "response.output_text.delta", "response.output_text.done"),
        *("response.content_part.done", "response.output_item.done"),
        *("response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.done"),
        *("response.output_item.done", "response.completed"),
    ]


def test_u1_a_previous_response_stands_before_the_new_input(client: openai.OpenAI, sim: Simulator) -> None:
    first = respond(client, words(100))
    second = respond(client, words(50), previous_response_id=first.id)
    assert first.usage is not None and second.usage is not None
    assert (first.usage.input_tokens, second.usage.input_tokens) == (104, 104 + 5 + 54)
    with pytest.raises(openai.BadRequestError, match="not found"):
        respond(client, "a", previous_response_id="resp_nobody")


def test_u2_a_call_without_the_reasoning_it_came_with_is_refused() -> None:
    with Simulator([REPLY, "ok"]) as sim, openai_of(sim) as client:
        first = respond(client, "a")
        items = [json.loads(item.to_json()) for item in first.output]
        output = {"type": "function_call_output", "call_id": "call_1", "output": "ok"}
        with pytest.raises(openai.BadRequestError, match="was provided without its required 'reasoning' item: 'rs_"):
            respond(client, [said("a"), items[2], output])
        assert respond(client, [said("a"), *items, output]).output_text == "ok"


# --- the cache, by hand: a message is its text and a frame of 4


def test_u3_chat_reads_a_prefix_in_steps_of_128_tokens(client: openai.OpenAI, clock: Clock) -> None:
    def cached(*messages: dict[str, Any]) -> tuple[int, int]:
        usage = chat(client, list(messages)).usage
        assert usage is not None and usage.prompt_tokens_details is not None
        return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens or 0

    first = said(words(2_000))
    assert cached(first) == (2_004, 0)
    assert cached(first, said("ok", "assistant"), said(words(96))) == (2_004 + 5 + 100, 1_920)  # 15 x 128
    clock.now += 301
    assert cached(first) == (2_004, 0)
    assert cached(said(words(1_000))) == (1_004, 0)
    assert cached(said(words(1_000))) == (1_004, 0)  # under 1,024


def test_u3_new_models_bill_what_they_write(client: openai.OpenAI, sim: Simulator) -> None:
    """GPT-6 Sol: 1,280 tokens of 1,304 are written, then read."""
    first, second = (respond(client, words(1_300), model=NEW).usage for _ in range(2))
    assert first is not None and second is not None
    assert (first.input_tokens_details.cached_tokens, first.input_tokens_details.cache_write_tokens) == (0, 1_280)
    assert (second.input_tokens_details.cached_tokens, second.input_tokens_details.cache_write_tokens) == (1_280, 0)
    prices = sim.world.limits(NEW).model.prices
    assert prices is not None
    price = prices.base
    assert price.cache_write_5m > price.input
    assert sim.journal.records[-2].usd == pytest.approx((24 * price.input + 1_280 * price.cache_write_5m + price.output) / 1e6)
    assert sim.journal.records[-1].usd == pytest.approx((24 * price.input + 1_280 * price.cache_read + price.output) / 1e6)


def test_u3_other_tools_are_another_prefix(client: openai.OpenAI) -> None:
    chat(client, [said(words(2_000))], tools=[TOOL])
    usage = chat(client, [said(words(2_000))]).usage
    assert usage is not None and usage.prompt_tokens_details is not None and usage.prompt_tokens_details.cached_tokens == 0


def test_u5_images_count_by_their_size_and_not_by_their_base64(client: openai.OpenAI) -> None:
    image = png(280, 280, chars=100_000)["source"]
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image['data']}"}}
    usage = chat(client, [{"role": "user", "content": [{"type": "text", "text": "a"}, part]}]).usage
    assert usage is not None and usage.prompt_tokens == 4 + 1 + 100


# --- compaction (section 7.1)


def test_u3_responses_compact_hands_back_user_messages_and_one_item() -> None:
    seen: list[Any] = []

    def model(request: Any) -> str:
        seen.append(request)
        return "what was said" if request.purpose == "compaction" else "ok"

    with Simulator(model) as sim, openai_of(sim) as client:
        history: list[Any] = [said("first"), said("answer " * 500, "assistant"), said("second")]
        compacted = client.responses.compact(model=MODEL, input=history)
        assert compacted.object == "response.compaction"
        items = [item.to_dict(warnings=False) for item in compacted.output]
        assert [item.get("role", item["type"]) for item in items] == ["user", "user", "compaction"]
        after = respond(client, [*items, said("third")])
        assert after.usage is not None and after.usage.input_tokens < 30
        assert [request.purpose for request in seen] == ["compaction", "turn"]
        assert compacted.usage.output_tokens == 3
        with pytest.raises(openai.BadRequestError, match="could not be verified"):
            respond(client, [{"type": "compaction", "encrypted_content": "made up"}, said("a")])


def test_u3_over_its_threshold_a_response_begins_with_a_compaction_item() -> None:
    with Simulator(lambda request: "short" if request.purpose == "compaction" else "ok") as sim, openai_of(sim) as client:
        edits = [{"type": "compaction", "compact_threshold": 2_000}]
        history = [said(words(1_000)), said(words(1_000), "assistant"), said("go on")]
        response = respond(client, history, context_management=edits)
        assert [item.type for item in response.output] == ["compaction", "message"]
        items = [json.loads(item.to_json()) for item in response.output]
        longer, shorter = (respond(client, [*start, *items, said("more")]) for start in (history, []))
        assert longer.usage == shorter.usage and longer.usage is not None and longer.usage.input_tokens == 1 + 5 + 5
        record = sim.journal.records[0]
        assert [part.kind for part in record.iterations] == ["compaction", "message"]
        assert [part.used.total for part in record.iterations] == [1_004 + 1_004 + 6, 1]


def test_u3_a_trigger_item_compacts_at_once_and_says_so_in_the_stream() -> None:
    with Simulator(lambda request: "ok") as sim, openai_of(sim) as client:
        body = {"model": MODEL, "input": [said("a"), {"type": "compaction_trigger"}], "stream": True}
        with client.responses.create(**body) as stream:  # type: ignore[call-overload]
            events = list(stream)
    assert [event.type for event in events].count("response.compaction.compacting") == 1
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_u2_truncation_auto_drops_items_from_the_beginning(client: openai.OpenAI) -> None:
    history = [said(words(5_000)), CALL, OUTPUT, said(words(5_000))]
    response = respond(client, history, model="gpt-5.4-mini", truncation="auto")
    assert response.usage is not None and 5_004 < response.usage.input_tokens < 5_040


def test_u1_input_tokens_counts_without_answering(client: openai.OpenAI) -> None:
    assert client.responses.input_tokens.count(model=MODEL, input=words(100)).input_tokens == 104


def test_u2_output_ends_at_its_limit(client: openai.OpenAI) -> None:
    with Simulator([words(50), words(50)]) as sim, openai_of(sim) as limited:
        completion = chat(limited, [said("a")], max_completion_tokens=20)
        response = respond(limited, "a", max_output_tokens=20)
    assert completion.choices[0].finish_reason == "length" and completion.choices[0].message.content == words(20)
    assert response.status == "incomplete" and response.output_text == words(20)


def test_u1_the_list_of_models_is_in_the_client_s_shape(client: openai.OpenAI) -> None:
    assert {"gpt-5.4-mini", NEW} <= {model.id for model in client.models.list()}
