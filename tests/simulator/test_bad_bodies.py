"""U2: whatever is sent, the answer is the API's: a refusal with a reason, never a failure of the simulator."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fivefold.simulator.serve import Simulator

from .asking import MARK, MODEL, TOOL, assistant, png, result, text, use, user

MESSAGES: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 100,
    "system": [text("s", **MARK)],
    "tools": [TOOL],
    "tool_choice": {"type": "auto"},
    "thinking": {"type": "adaptive", "display": "summarized"},
    "output_config": {"effort": "low"},
    "cache_control": {"type": "ephemeral"},
    "stop_sequences": ["x"],
    "diagnostics": {"previous_message_id": None},
    "context_management": {
        "edits": [
            {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}},
            {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 0}, "keep": {"type": "tool_uses", "value": 0}},
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}},
        ]
    },
    "messages": [
        user(text("a", **MARK), png(10, 10)),
        assistant("b", use("t1"), use("t2")),
        user(result("t1", [text("c"), png(9, 9)]), result("t2")),
    ],
}
CHAT: dict[str, Any] = {
    "model": "gpt-5.5",
    "tools": [{"type": "function", "function": {"name": "bash", "parameters": {}}}],
    "max_completion_tokens": 100,
    "stop": ["x"],
    "prompt_cache_options": {"mode": "implicit"},
    "messages": [
        {
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "b", "arguments": ""}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ],
}
RESPONSES: dict[str, Any] = {
    "model": "gpt-5.5",
    "instructions": "i",
    "max_output_tokens": 100,
    "context_management": [{"type": "compaction", "compact_threshold": 5_000}],
    "truncation": "auto",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "b", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "rest:x"},
    ],
}
ODD = st.sampled_from(
    [None, True, 0, -1, 10**12, 1.5, "", "x", [], [[]], [None], ["x"], {}, {"type": "x"}, {"type": None}, [{}], {"a": []}]
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of each value inside a value."""
    inner = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    return [(*at, key) for key, _ in inner] + [place for key, part in inner for place in places(part, (*at, key))]


@st.composite
def spoiled(draw: st.DrawFn, body: dict[str, Any]) -> dict[str, Any]:
    """A body with one or two values taken out or replaced."""
    made = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from(places(made)))
        inside = made
        for key in way:
            inside = inside[key]
        if draw(st.booleans()):
            inside[last] = copy.deepcopy(draw(ODD))  # what is drawn may be spoiled itself
        else:
            del inside[last]
        if not places(made):
            break
    return made


HEADERS = {
    "x-api-key": "k",
    "authorization": "Bearer k",
    "anthropic-version": "2026-10-21",
    "anthropic-beta": "context-management-2025-06-27,compact-2026-01-12,compact-2026-09-04",
}
SIM = Simulator(lambda request: "ok")


def post(path: str, body: bytes) -> tuple[int, Any]:
    """Status and body of a request to the app itself, without a socket."""
    sent: list[dict[str, Any]] = []
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(parts, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [(k.encode(), v.encode()) for k, v in HEADERS.items()]}
    scope |= {"query_string": b"", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "scheme": "http", "root_path": ""}
    app: Callable[..., Awaitable[None]] = SIM.app
    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    content = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], content if content.startswith(b"event:") or content.startswith(b"data:") else msgspec.json.decode(content)


def check(path: str, body: dict[str, Any]) -> None:
    status, answer = post(path, msgspec.json.encode(body))
    assert status in (200, 400, 404), answer
    if status != 200:
        assert answer["error"]["message"] and answer["error"]["type"] in ("invalid_request_error", "not_found_error")


def test_u2_the_bodies_are_legal_before_they_are_spoiled() -> None:
    for path, body in [("/v1/messages", MESSAGES), ("/v1/chat/completions", CHAT), ("/v1/responses", RESPONSES)]:
        assert post(path, msgspec.json.encode(body))[0] == 200


@given(spoiled(MESSAGES))
def test_u2_a_spoiled_message_request_is_refused_not_failed(body: dict[str, Any]) -> None:
    check("/v1/messages", body)


@given(spoiled(CHAT))
def test_u2_a_spoiled_chat_request_is_refused_not_failed(body: dict[str, Any]) -> None:
    check("/v1/chat/completions", body)


@given(spoiled(RESPONSES))
def test_u2_a_spoiled_responses_request_is_refused_not_failed(body: dict[str, Any]) -> None:
    check("/v1/responses", body)


def test_u2_what_is_no_json_is_refused() -> None:
    for path in ("/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions", "/v1/responses", "/v1/responses/compact"):
        for data in (b"", b"{", b"[]", b"null", b'{"model": 1}', b"\xff", b'{"a":' * 2_000, b"[" * 100_000):
            status, answer = post(path, data)
            assert status == 400 and answer["error"]["message"], (path, data[:20])
