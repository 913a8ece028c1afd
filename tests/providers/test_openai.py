"""V1, V2, I6, L10, T5: OpenAI's official SDK, Chat Completions and Responses: what is sent, what comes back, what a refusal is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import anyio
import msgspec
import openai
import pytest

from fivefold.agent import Agent, AsyncAgent
from fivefold.calling import Call, Part, Reply, Tool
from fivefold.core.actions import Send
from fivefold.core.events import Summarized, SummaryFailed
from fivefold.core.messages import Compaction, Message, Object, RedactedThinking, ServerToolUse, Text, Thinking, ToolUse, decode_block
from fivefold.core.policy import Policy
from fivefold.core.rejection import Rejection
from fivefold.core.repair import Request, outgoing
from fivefold.drive import AsyncDriver, Driver
from fivefold.loop_events import Compaction as Compacted
from fivefold.loop_events import Ended, Streamed
from fivefold.perform import Ports
from fivefold.providers.openai_chat import AsyncOpenAIChatModel, OpenAIChatModel
from fivefold.providers.openai_responses import AsyncOpenAIResponsesModel, OpenAIResponsesModel
from fivefold.setup import make_setup
from fivefold.simulator import script
from fivefold.simulator.faults import Fault
from fivefold.simulator.serve import Simulator
from fivefold.summarize.flow import Answer, Ask
from tests.build import assistant, user
from tests.build import call as tool_call
from tests.build import result as tool_result
from tests.providers.recorder import Canned, Recorder

NAME = "gpt-5.5"
SYSTEM = (Text("Be brief."), Text("Be kind."))
TOOLS: tuple[Object, ...] = (
    {"name": "read", "description": "Read.", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}},
)


class Kind(NamedTuple):
    """One of the two APIs."""

    model: Any
    twin: Any
    whole: dict[str, Any]
    stream: list[Any]
    key: str
    """Of the request's list of messages."""


CHAT: dict[str, Any] = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": NAME, "service_tier": "default",
    "choices": [{
        "index": 0, "finish_reason": "tool_calls", "logprobs": None,
        "message": {
            "role": "assistant", "content": "Naïve – 你好.", "refusal": None, "annotations": [],
            "reasoning_details": [{"type": "r", "data": "x"}],
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a.py","n":[1,2.5,null]}'}},
                {"id": "call_2", "type": "function", "function": {"name": "read", "arguments": '{"path": "b.py"}'}},
            ],
        },
    }],
    "usage": {
        "prompt_tokens": 1_000, "completion_tokens": 50, "total_tokens": 1_050, "completion_tokens_details": {"reasoning_tokens": 20},
        "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300},
    },
}  # fmt: skip
OUTPUT: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I weigh it."}], "encrypted_content": "gAAA"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
    {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary",
        "content": [{"type": "output_text", "text": "Naïve – 你好.", "annotations": [], "logprobs": []}],
    },
    {"type": "hologram", "id": "h_1", "depth": 3},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": '{"path":"a.py"}', "status": "completed"},
    {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "read", "arguments": '{"path": "b.py"}', "status": "completed"},
]  # fmt: skip
RESPONSE: dict[str, Any] = {
    "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "error": None, "incomplete_details": None, "model": NAME,
    "output": OUTPUT, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    "usage": {
        "input_tokens": 1_000, "input_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300}, "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 20}, "total_tokens": 1_050,
    },
}  # fmt: skip


def chunks() -> list[Any]:
    base = {key: CHAT[key] for key in ("id", "created", "model", "service_tier")} | {"object": "chat.completion.chunk", "usage": None}
    message = CHAT["choices"][0]["message"]
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "refusal": None}, {"content": "Naïve – "}, {"content": "你好."},
        {"reasoning_details": message["reasoning_details"]},
    ]  # fmt: skip
    for index, call in enumerate(message["tool_calls"]):
        text = call["function"]["arguments"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": {"name": "read", "arguments": ""}}]})
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in (text[:5], text[5:])]
    made = [{**base, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]} for delta in deltas]
    made.append({**base, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "tool_calls"}]})
    return [*made, {**base, "choices": [], "usage": CHAT["usage"]}, "[DONE]"]


def response_events() -> list[Any]:
    begun = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
    made: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(OUTPUT):
        at = {"output_index": index, "item_id": item["id"]}
        made.append({"type": "response.output_item.added", "output_index": index, "item": item})
        if item["type"] == "message":
            made += [{"type": "response.output_text.delta", **at, "content_index": 0, "delta": piece} for piece in ("Naïve – ", "你好.")]
        if item["type"] == "function_call":
            text = item["arguments"]
            made += [{"type": "response.function_call_arguments.delta", **at, "delta": piece} for piece in (text[:5], text[5:])]
        made.append({"type": "response.output_item.done", "output_index": index, "item": item})
    made.append({"type": "response.completed", "response": RESPONSE})
    return [{**event, "sequence_number": number} for number, event in enumerate(made)]


KINDS = {
    "chat": Kind(OpenAIChatModel, AsyncOpenAIChatModel, CHAT, chunks(), "messages"),
    "responses": Kind(OpenAIResponsesModel, AsyncOpenAIResponsesModel, RESPONSE, response_events(), "input"),
}
CLIENTS: list[openai.OpenAI] = []


@pytest.fixture(autouse=True, scope="module")
def client() -> Iterator[None]:
    """A client is slow to make: one for all."""
    with openai.OpenAI(base_url="http://127.0.0.1:9", api_key="k") as made:
        CLIENTS.append(made)
        yield
        CLIENTS.clear()


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def client_of(url: str, timeout: float = 5.0) -> openai.OpenAI:
    return CLIENTS[0].with_options(base_url=url, timeout=timeout)


def call_of(*entries: Any, **send: Any) -> Call:
    request = outgoing(list(entries), family="openai-responses")
    return Call(request=request, send=Send(source="main", **send), model=NAME, tools=TOOLS, system=SYSTEM)


def end_of(found: Any) -> tuple[list[Part], Any]:
    parts: list[Part] = []
    while not isinstance(found, Reply | Rejection):
        part = found.next()
        if isinstance(part, Part):
            parts.append(part)
        else:
            found = part
    return parts, found


def answered(kind: Kind, canned: Canned, *, timeout: float = 5.0, **options: Any) -> Any:
    with Recorder(canned) as server:
        _, found = end_of(kind.model(client_of(server.url, timeout), **options)(call_of(user("u", "Look."))))
        assert len(server.asked) == 1, "the SDK has asked again by itself"
    return found


def sent_by(kind: Kind, *calls: Call, **options: Any) -> list[Any]:
    with Recorder(Canned(kind.whole)) as server:
        model = kind.model(client_of(server.url), **{"stream": False, **options})
        for call in calls:
            assert isinstance(model(call), Reply)
        return server.asked


def test_v1_i6_a_streamed_response_is_the_one_that_is_not_streamed(kind: Kind) -> None:
    plain = answered(kind, Canned(kind.whole), stream=False)
    with Recorder(Canned(kind.stream)) as server:
        parts, streamed = end_of(kind.model(client_of(server.url))(call_of(user("u", "Look."))))
    assert isinstance(plain, Reply) and plain.blocks == streamed.blocks and plain.extra == streamed.extra
    assert (plain.usage, plain.stop_reason, plain.api_id, plain.model) == (
        streamed.usage, streamed.stop_reason, streamed.api_id, streamed.model,
    )  # fmt: skip
    used = plain.usage
    assert used is not None and (used.input, used.cache_read, used.cache_write, used.output, used.thinking) == (100, 600, 300, 50, 20)
    assert "".join(part.text for part in parts if part.kind == "text") == "Naïve – 你好."
    assert [call.id for call in plain.calls] == ["call_1", "call_2"] and [part.name for part in parts if part.name] == ["read", "read"]
    written = "".join(part.text for part in parts if part.kind == "call")
    assert written.startswith('{"path":"a.py"') and written.endswith('{"path": "b.py"}')


def test_i6_a_response_goes_back_as_it_came(kind: Kind) -> None:
    reply = answered(kind, Canned(kind.whole), stream=False)
    said = msgspec.structs.replace(assistant("a", *reply.blocks, api_id="m"), extra=reply.extra)
    entries = [user("u", "Look."), said, user("r", tool_result("call_1", "x"), tool_result("call_2", "y"))]
    (asked,) = sent_by(kind, call_of(*entries))
    if kind.key == "input":
        assert asked.body["input"][1:-2] == OUTPUT
        assert asked.body["input"][-2:] == [
            {"type": "function_call_output", "call_id": "call_1", "output": "x"},
            {"type": "function_call_output", "call_id": "call_2", "output": "y"},
        ]
    else:
        message = CHAT["choices"][0]["message"]
        assert asked.body["messages"][2] == {key: message[key] for key in ("role", "content", "reasoning_details", "tool_calls")}
        assert asked.body["messages"][3:] == [
            {"role": "tool", "tool_call_id": "call_1", "content": "x"}, {"role": "tool", "tool_call_id": "call_2", "content": "y"},
        ]  # fmt: skip


def test_v1_what_a_request_holds_and_nothing_else() -> None:
    call = call_of(user("u", "Look."), max_tokens=77)
    (chat,) = sent_by(KINDS["chat"], call, settings={"reasoning_effort": "high"}, stream=False)
    parameters = TOOLS[0]["input_schema"]
    assert chat.path == "/chat/completions" and chat.body == {
        "model": NAME, "max_completion_tokens": 77, "reasoning_effort": "high",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": "Look."},
        ],
        "tools": [{"type": "function", "function": {"name": "read", "description": "Read.", "parameters": parameters}}],
    }  # fmt: skip
    (older,) = sent_by(KINDS["chat"], call, limit="max_tokens")
    assert older.body["max_tokens"] == 77 and "max_completion_tokens" not in older.body
    (response,) = sent_by(KINDS["responses"], call, settings={"include": ["message.output_text.logprobs"]})
    assert response.path == "/responses" and response.body == {
        "model": NAME, "max_output_tokens": 77, "store": False, "instructions": "Be brief.\n\nBe kind.",
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]}],
        "tools": [{"type": "function", "name": "read", "description": "Read.", "parameters": parameters, "strict": False}],
    }  # fmt: skip


def test_i5_over_30_turns_the_bytes_before_do_not_move(kind: Kind) -> None:
    entries, calls = [user("u", "Begin.")], []
    for n in range(30):
        calls.append(call_of(*entries))
        entries += [
            assistant(f"a{n}", f"Step {n}.", tool_call(f"t{n}", "read", path="é.py"), api_id=f"m{n}"),
            user(f"r{n}", tool_result(f"t{n}", "x")),
        ]
    asked = sent_by(kind, *calls)
    texts = [json.dumps(one.body[kind.key], ensure_ascii=False, separators=(",", ":")) for one in asked]
    for one, before, after in zip(asked[1:], texts, texts[1:], strict=False):
        assert after.startswith(before[:-1]) and after.encode() in one.raw


def test_v1_what_another_provider_has_signed_or_run_itself_is_not_sent_as_it_is(kind: Kind) -> None:
    blocks = (Thinking("Hm.", "signed"), RedactedThinking("x"), Text("Yes."), ServerToolUse("s", "web_search", {"q": 1}))
    (asked,) = sent_by(
        kind, Call(request=Request((), (Message("user", (Text("x"),)), Message("assistant", blocks)), ()), send=Send(), model=NAME)
    )
    assert "signed" not in asked.raw.decode() and "Yes." in asked.raw.decode()


def test_v5_a_system_message_inside_the_conversation_stays_at_its_place(kind: Kind) -> None:
    messages = (Message("user", (Text("x"),)), Message("system", (Text("Remember."),)), Message("user", (Text("y"),)))
    (asked,) = sent_by(kind, Call(request=Request((), messages, ()), send=Send(), model=NAME))
    assert [one["role"] for one in asked.body[kind.key]] == ["user", "system", "user"]


# --- what goes wrong

LONG = "This model's maximum context length is 128000 tokens. However, your messages resulted in 129123 tokens."
BOTH = (
    "This model's maximum context length is 128000 tokens. However, you requested 130000 tokens (120000 in the messages, "
    "10000 in the completion)."
)
INPUT = "Your input exceeds the context window of this model. Please adjust your input and try again."
GAP = "request (13392 tokens) exceeds the available context size (8192 tokens), try increasing it"
TGI = "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`"
TPM = "Rate limit reached for tokens per min (TPM): Limit 30000."
BAD = {"type": "invalid_request_error", "param": "input"}
LENGTH = {"type": "invalid_request_error", "code": "context_length_exceeded"}
ROWS: list[tuple[int, Any, str, dict[str, Any]]] = [
    (400, {"message": LONG, "param": "messages", **LENGTH}, "too_long", {"gap": 1_123}),
    (400, {"message": BOTH, **LENGTH}, "output_too_large", {"actual": 120_000, "max_tokens": 10_000, "limit": 128_000}),
    (400, {"message": INPUT, "param": "input", **LENGTH}, "too_long", {"gap": None}),
    (
        400, {"code": 400, "type": "exceed_context_size_error", "message": GAP, "n_prompt_tokens": 13_392, "n_ctx": 8_192},
        "too_long", {"gap": 5_200},
    ),
    (400, {"message": "Input length (9000) exceeds model's maximum context length (8192).", "code": None}, "too_long", {"gap": 808}),
    (400, {"message": "prompt too long; exceeded max context length by 42 tokens"}, "too_long", {}),
    (413, {"message": "Please reduce the length of the messages or completion."}, "too_long", {}),
    (422, {"message": TGI}, "too_long", {}),
    (429, {"message": TPM, "type": "tokens", "code": "rate_limit_exceeded"}, "transient", {}),
    (429, {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": "insufficient_quota"}, "other", {}),
    (500, {"message": "The server had an error.", "type": "server_error"}, "transient", {}),
    (503, {"message": "Overloaded."}, "transient", {}),
    (400, {"message": "No tool output found for function call call_X.", **BAD}, "other", {}),
    (401, {"message": "Incorrect API key provided.", "type": "invalid_request_error", "code": "invalid_api_key"}, "other", {}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "error", "why", "told"), ROWS, ids=[f"{row[0]}-{row[2]}-{i}" for i, row in enumerate(ROWS)])
def test_v2_each_refusal_comes_through_the_sdks_errors_as_what_it_is(status: int, error: Any, why: str, told: dict[str, Any]) -> None:
    found = answered(KINDS["chat"], Canned({"error": error}, status, {"retry-after": "4", "x-request-id": "req_7"}))
    assert isinstance(found, Rejection) and (found.why, found.status, found.retry_after) == (why, status, 4.0)
    assert found.message == f"{error['message']} (request req_7)" and {key: getattr(found, key) for key in told} == told
    assert answered(KINDS["responses"], Canned({"error": error}, status)).why == why


def test_v2_errors_inside_of_what_began_well() -> None:
    chat, responses = KINDS["chat"], KINDS["responses"]
    error = {"type": "invalid_request_error", "code": "context_length_exceeded", "message": INPUT, "param": "input"}
    for instead in (
        {"type": "error", "error": error},
        {"type": "error", "sequence_number": 9, **{k: error[k] for k in ("code", "message", "param")}},
    ):
        assert answered(responses, Canned([*responses.stream[:4], instead])).why == "too_long"
    failed = {"type": "response.failed", "sequence_number": 9, "response": {**RESPONSE, "status": "failed", "error": error}}
    assert answered(responses, Canned([*responses.stream[:4], failed])).why == "too_long"
    assert answered(responses, Canned({**RESPONSE, "status": "failed", "error": error}), stream=False).why == "too_long"
    late = {"error": {"code": 502, "message": "Provider returned error"}, "choices": []}
    found = answered(chat, Canned([*chat.stream[:4], late]))
    assert (found.why, found.status) == ("transient", 502)
    assert (
        answered(chat, Canned({"error": {"code": 429, "message": "Rate limited upstream"}, "choices": None}), stream=False).why
        == "transient"
    )


def test_v2_what_the_network_does_is_a_refusal_that_may_pass(kind: Kind) -> None:
    assert answered(kind, Canned(kind.stream[:4], cut=True)).why == "transient"
    assert answered(kind, Canned(kind.stream[:4])).why == "transient", "a stream that stops short"
    assert answered(kind, Canned(kind.whole, cut=True), stream=False).why == "transient"
    assert answered(kind, Canned(kind.whole, wait=0.4), stream=False, timeout=0.1).why == "transient"
    assert answered(kind, Canned(b'data: {"id\n\n', headers={"content-type": "text/event-stream"})).why == "transient"
    assert answered(kind, Canned(b"", 413)).why == "bytes"
    assert answered(kind, Canned(b"<html>Sign in</html>", 200, {"content-type": "text/html"}), stream=False).why == "other"


def test_r10_why_an_answer_ended_is_told_in_the_providers_own_word() -> None:
    cut = {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
    assert answered(KINDS["responses"], Canned(cut), stream=False).stop_reason == "max_output_tokens"
    choice = {**CHAT["choices"][0], "finish_reason": "length"}
    assert answered(KINDS["chat"], Canned({**CHAT, "choices": [choice]}), stream=False).stop_reason == "length"
    assert answered(KINDS["chat"], Canned({**CHAT, "choices": []}), stream=False).why == "transient"


def test_a_call_whose_arguments_are_no_json_and_calls_without_an_index_stay_whole() -> None:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": NAME}
    deltas: list[Any] = [
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"pa'}}]},
        {"tool_calls": [{"function": {"arguments": "th"}}]},
        {"tool_calls": [{"id": "b", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
    ]
    stream: list[Any] = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    stream.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    first, second = answered(KINDS["chat"], Canned([*stream, "[DONE]"])).calls
    assert (first.id, first.input, second) == ("a", '{"path', ToolUse("b", "read", {}))


def test_a_server_that_thinks_aloud_is_heard_and_gets_its_thinking_back() -> None:
    message = {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}
    whole = {**CHAT, "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    reply = answered(KINDS["chat"], Canned(whole), stream=False)
    assert reply.blocks == (Thinking("Hm."), Text("Yes."))
    (asked,) = sent_by(KINDS["chat"], call_of(user("u", "x"), assistant("a", *reply.blocks, api_id="m"), user("v", "y")))
    assert asked.body["messages"][2] == message


# --- against the simulator


def look(given: Any) -> str:
    return "a line of a file\n" * 300


def speak(request: script.Request) -> script.Reply:
    last = request.messages[-1]
    if last.get("role") == "tool" or last.get("type") == "function_call_output":
        return script.Reply(text=f"Seen {request.number}.", thinking="So.")
    return script.Reply(text="I look.", thinking="Hm.", calls=(script.Call("read", {"path": f"f{request.number}.py"}),))


def setup_of(kind: Kind, **more: Any) -> Any:
    made = make_setup(NAME, **more)
    return msgspec.structs.replace(made, family="openai-responses") if kind.key == "input" else made


def test_a_conversation_that_outgrows_its_window_goes_on_through_faults_and_nothing_else_is_refused(kind: Kind) -> None:
    plan: tuple[Any, ...] = ("overloaded", "broken_stream", "prompt_too_long", "reset", "error_event")
    faults = [Fault(kind=name, at=(n,), retry_after=0.0, tokens=21_180, limit=20_000) for n, name in enumerate(plan, 3)]
    with Simulator(speak, windows={NAME: 20_000}, faults=faults) as simulator:
        driver = Driver(setup=setup_of(kind, window=20_000))
        model = kind.model(client_of(f"{simulator.url}/v1"))
        agent = Agent(driver, model=model, name=NAME, tools=[Tool(name="read", run=look)], max_tokens=500, sleep=lambda seconds: None)
        events = [event for n in range(16) for event in agent.run(f"Point {n}.")]
        assert {event.reason for event in events if isinstance(event, Ended)} == {"completed"}
        assert sum(isinstance(event, Compacted) and event.stage == "finished" for event in events) >= 2
        assert {record.fault for record in simulator.journal.refused} == {"overloaded", "prompt_too_long"}
        assert sum(record.read > 0 for record in simulator.journal.answered) > 10, "the provider's own cache finds the prefix"


def test_the_async_twin_and_a_cancel_in_mid_stream(kind: Kind) -> None:
    async def talk(url: str, held: str) -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key") as client:
            model = kind.twin(client)
            agent = AsyncAgent(AsyncDriver(setup=setup_of(kind)), model=model, name=NAME, tools=[Tool(name="read", run=look)])
            first = [event async for event in agent.run("Point 1.")]
            agent = AsyncAgent(AsyncDriver(setup=setup_of(kind)), model=kind.twin(client.with_options(base_url=held)), name=NAME)
            with anyio.move_on_after(5) as scope:
                async for event in agent.run("Point 2."):
                    if isinstance(event, Streamed):
                        scope.deadline = anyio.current_time() + 0.1
            assert scope.cancelled_caught
            return first

    with Simulator(speak) as simulator, Recorder(Canned(kind.stream[:7], hold=True)) as server:
        first = anyio.run(talk, simulator.url, server.url)
        assert isinstance(first[-1], Ended) and first[-1].reason == "completed" and simulator.journal.refused == []
        assert server.gone.wait(5), "the provider goes on writing to somebody who has left"


def asked(kind: str, *entries: Any) -> Ask:
    fork = kind == "fork"
    return Ask(
        kind="fork" if fork else "direct", model="", system="" if fork else "You sum up.", entries=(*entries, user("q", "Sum up.")),
        text="Sum up.", max_tokens=1_000, thinking="inherit" if fork else "lowest", tools="inherit" if fork else "none",
    )  # fmt: skip


def test_l1_a_fork_has_the_conversations_own_prefix_and_a_direct_request_none_of_it(kind: Kind) -> None:
    settings = {"reasoning_effort": "high", "stop": ["END"]} if kind.key == "messages" else {"reasoning": {"effort": "high"}}
    with Simulator(lambda request: "Yes.") as simulator:
        model = kind.model(client_of(f"{simulator.url}/v1"), settings=settings)
        entries = [user("u", "Begin. " * 600)]
        _, reply = end_of(model(call_of(*entries)))
        entries.append(assistant("a", *reply.blocks, api_id="m"))
        fork, direct = model.ask(asked("fork", *entries)), model.ask(asked("direct"))
        before, forked, plain = simulator.journal.answered
    assert isinstance(fork, Answer) and isinstance(direct, Answer) and fork.text == direct.text == "Yes." and forked.read > 1_000
    assert forked.messages[: len(before.messages)] == before.messages and forked.body["tools"] == before.body["tools"]
    assert "stop" not in forked.body and "high" in str(forked.body)
    assert "tools" not in plain.body and "high" not in str(plain.body) and "low" in str(plain.body)
    assert len(plain.messages) == (2 if kind.key == "messages" else 1) and "You sum up." in str(plain.request)


@pytest.mark.parametrize(("effort", "sent"), [("high", "low"), ("none", "none"), (None, None)])
def test_l1_a_direct_request_thinks_as_little_as_the_model_surely_can(kind: Kind, effort: str | None, sent: str | None) -> None:
    chat = kind.key == "messages"
    settings: dict[str, Any] = {} if effort is None else {"reasoning_effort": effort} if chat else {"reasoning": {"effort": effort}}
    with Recorder(Canned(kind.stream)) as server:
        assert isinstance(kind.model(client_of(server.url), settings=settings, model=NAME).ask(asked("direct")), Answer)
        body = server.asked[0].body
    assert (body.get("reasoning_effort") if chat else (body.get("reasoning") or {}).get("effort")) == sent


def test_l1_a_summary_is_not_forced_into_the_conversations_output_format(kind: Kind) -> None:
    format = {"format": {"type": "json_object"}, "verbosity": "low"}
    settings: dict[str, Any] = {"response_format": {"type": "json_object"}} if kind.key == "messages" else {"text": format}
    with Recorder(Canned(kind.stream)) as server:
        model = kind.model(client_of(server.url), settings=settings, model=NAME)
        assert isinstance(model.ask(asked("fork", user("u", "x"))), Answer) and isinstance(model.ask(asked("direct")), Answer)
    assert all("json_object" not in str(one.body) for one in server.asked)
    assert server.asked[0].body.get("text") == ({"verbosity": "low"} if kind.key == "input" else None)


def test_t5_w9_counts_and_limits_where_the_server_tells_them(kind: Kind) -> None:
    with Simulator(lambda request: "Yes.") as simulator:
        model = kind.model(client_of(f"{simulator.url}/v1"), stream=False)
        entries = [user("u", "Begin. " * 600)]
        assert isinstance(model(call_of(*entries)), Reply)
        counted = model.count(entries)
        assert counted == (simulator.journal.answered[-1].input if kind.key == "input" else None)
        assert model.window() is None
    with Recorder(Canned({"id": NAME, "object": "model", "created": 1, "owned_by": "us", "max_model_len": 32_768})) as server:
        limits = kind.model(client_of(server.url), model=NAME).window()
    assert limits is not None and limits.window == 32_768


def test_l10_the_compaction_endpoints_items_are_sent_back_as_they_are() -> None:
    policy = Policy.of({"summary": {"method": "native"}})
    with Simulator(speak, windows={NAME: 20_000}) as simulator:
        model = OpenAIResponsesModel(client_of(f"{simulator.url}/v1"))
        driver = Driver(setup=setup_of(KINDS["responses"], window=20_000, policy=policy), ports=Ports(native=model.native))
        agent = Agent(driver, model=model, name=NAME, tools=[Tool(name="read", run=look)], max_tokens=500)
        reasons = {event.reason for n in range(12) for event in agent.run(f"Point {n}.") if isinstance(event, Ended)}
        made = [record for record in simulator.journal.records if record.api == "compact"]
        assert reasons == {"completed"} and made and simulator.journal.refused == []
        answer = made[0].answer
        behind = simulator.journal.records[made[0].number]
        assert answer is not None and list(behind.messages[: len(answer["output"])]) == answer["output"]
    assert answer["output"][-1]["type"] == "compaction" and behind.api == "responses"


def test_the_async_twin_asks_counts_and_compacts_too(kind: Kind) -> None:
    async def all_of(url: str) -> tuple[Any, ...]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key") as client:
            model = kind.twin(client, stream=False, model=NAME)
            entries = [user("u", "Begin. " * 600)]
            reply = await model(call_of(*entries))
            made = await model.native(entries) if kind.key == "input" else None
            return reply, await model.ask(asked("fork", *entries)), await model.count(entries), made, await model.window()

    with Simulator(lambda request: "Yes.") as simulator:
        reply, fork, counted, made, limits = anyio.run(all_of, simulator.url)
        first = simulator.journal.answered[0]
    assert isinstance(reply, Reply) and isinstance(fork, Answer) and fork.text == "Yes." and limits is None
    if kind.key == "input":
        assert counted == first.input and isinstance(made, Summarized) and made.block["output"]
    else:
        assert counted is None


def test_l10_no_compaction_is_said() -> None:
    error = {"error": {"message": INPUT, "code": "context_length_exceeded"}}
    empty = {"id": "r", "object": "response.compaction", "created_at": 1, "output": [], "usage": RESPONSE["usage"]}
    for canned, why in ((Canned(error, 400), "refused"), (Canned(empty), "no compaction item")):
        with Recorder(canned) as server:
            found = OpenAIResponsesModel(client_of(server.url), model=NAME).native([user("u", "x")])
        assert isinstance(found, SummaryFailed) and found.calls == 1 and why in found.why
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
    with Recorder(Canned({**empty, "output": [item]})) as server:
        made = OpenAIResponsesModel(client_of(server.url), model=NAME).native([user("u", "x")])
    assert isinstance(made, Summarized) and made.usage is not None and made.usage.size == 1_050
    (asked,) = sent_by(
        KINDS["responses"], call_of(user("s", Compaction(made.block), Text("Go on."))), call_of(user("t", decode_block(item)))
    )[:1]
    assert asked.body["input"][0] == item
