"""LangChain messages: the codec of the three serialisations, and the reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.entries import Usage
from fivefold.core.messages import Image, Message, Text, Thinking, ToolResult, ToolUse
from fivefold.core.pairing import pair
from fivefold.errors import BadLineError
from fivefold.formats import codex, langchain, openai_chat, responses
from fivefold.formats.langchain_messages import decode, encode
from fivefold.formats.source import Source

from .mutate import only_input_errors, refused, written

MESSAGES = Path(__file__).parents[1] / "data" / "langchain" / "messages.json"
REAL: list[dict[str, Any]] = json.loads(MESSAGES.read_text(encoding="utf-8"))

NAMES = {
    "human": "HumanMessage",
    "ai": "AIMessageChunk",
    "system": "SystemMessage",
    "tool": "ToolMessage",
    "function": "FunctionMessage",
    "chat": "ChatMessage",
}


def wrapped(kind: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """A message in each of the three serialisations."""
    return [
        {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", NAMES[kind]], "kwargs": body},
        {"type": kind, "data": body},
        {**body, "type": NAMES[kind] if kind == "ai" else kind},
    ]


CALL: dict[str, Any] = {"name": "f", "args": {"a": 1}, "id": "c", "type": "tool_call"}
BLOCK: dict[str, Any] = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}
ODD: list[tuple[str, dict[str, Any]]] = [
    ("human", {"content": "x", "additional_kwargs": {}, "name": None}),
    ("human", {"content": None}),
    ("human", {"content": ""}),
    ("human", {"content": []}),
    (
        "human",
        {
            "content": [
                "plain",
                {"type": "text", "text": "x", "index": 0},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                7,
            ]
        },
    ),
    ("human", {"content": [{"type": "image_url", "image_url": "https://example.com/a.png"}, {"type": "image_url"}]}),
    (
        "human",
        {
            "content": [
                {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
                {"type": "image", "source": {"type": "url", "url": "https://example.com"}},
            ]
        },
    ),
    ("ai", {"content": "", "tool_calls": [CALL], "invalid_tool_calls": []}),
    ("ai", {"content": "x", "tool_calls": [], "usage_metadata": None}),
    ("ai", {"content": [BLOCK], "tool_calls": [CALL]}),
    ("ai", {"content": [BLOCK]}),
    ("ai", {"content": [BLOCK], "tool_calls": []}),
    ("ai", {"content": [BLOCK], "tool_calls": None}),
    ("ai", {"content": [{"type": "text", "text": "x"}, BLOCK], "tool_calls": [CALL, {**CALL, "id": "d"}]}),
    ("ai", {"content": [BLOCK], "tool_calls": [{**CALL, "id": "d"}, CALL]}),
    ("ai", {"content": [BLOCK], "tool_calls": [{**CALL, "args": {"a": 2}}]}),
    ("ai", {"content": "x", "tool_calls": [{"name": "f", "args": {}, "id": None}, 7]}),
    (
        "ai",
        {
            "content": [
                {"type": "reasoning", "reasoning": "why", "index": 0},
                {"type": "tool_call", "id": "c", "name": "f", "args": {"a": 1}},
            ],
            "tool_calls": [CALL],
        },
    ),
    ("ai", {"content": [{"type": "thinking", "thinking": "why", "signature": "s"}, {"type": "function_call", "call_id": "c"}]}),
    ("system", {"content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}),
    ("tool", {"content": "x", "tool_call_id": "c", "status": "error", "artifact": None}),
    ("tool", {"content": [{"type": "text", "text": "x"}], "tool_call_id": "c"}),
    ("tool", {"content": None, "tool_call_id": None}),
    ("tool", {"content": "x"}),
    ("function", {"content": "x", "name": "f"}),
    ("chat", {"content": "x", "role": "assistant"}),
]
ALL = [*REAL, *(message for kind, body in ODD for message in wrapped(kind, body))]


def normal(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("message", ALL, ids=lambda message: str(message["type"]))
def test_i6_a_message_goes_out_as_it_came(message: dict[str, Any]) -> None:
    assert normal(encode(decode(message))) == normal(message)


values = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["", "x", "text", "image_url", "reasoning", "tool_use", "tool_call", "c"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "image_url", "url", "reasoning", "id", "name", "args", "input", "x"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
bodies = st.fixed_dictionaries(
    {"content": values},
    optional={
        "tool_calls": st.lists(values | st.just(CALL), max_size=3),
        "tool_call_id": values,
        "status": values,
        "id": values,
        "name": values,
        "x": values,
    },
)


@given(st.sampled_from(["human", "ai", "system", "tool", "function"]), bodies, st.integers(0, 2))
def test_i6_any_message_goes_out_as_it_came(kind: str, body: dict[str, Any], envelope: int) -> None:
    message = wrapped(kind, body)[envelope]
    assert normal(encode(decode(message))) == normal(message)


@pytest.mark.parametrize(
    "value",
    [
        7,
        {},
        {"type": "human"},
        {"type": "human", "data": {}},
        {"type": "gemini", "content": "x"},
        {"lc": 1, "type": "constructor", "id": ["PromptTemplate"], "kwargs": {"content": "x"}},
    ],
)
def test_z3_what_is_no_message_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="LangChain message"):
        decode(value)


def test_i4_calls_that_are_written_twice_are_one_block() -> None:
    message = decode({"type": "ai", "data": {"content": [BLOCK], "tool_calls": [CALL, {**CALL, "id": "d"}]}})
    assert [(block.id, block.input) for block in message.blocks if isinstance(block, ToolUse)] == [("c", {"a": 1}), ("d", {"a": 1})]


def test_i6_a_message_from_elsewhere_goes_out_in_the_envelope_of_messages_to_dict() -> None:
    assert encode(Message("assistant", (Text("so"), ToolUse("c", "f", {"a": 1})))) == {
        "type": "ai",
        "data": {
            "content": [{"type": "text", "text": "so"}, {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}],
            "tool_calls": [CALL],
        },
    }
    assert encode(Message("user", (ToolResult("c", "x", True),))) == {
        "type": "tool",
        "data": {"tool_call_id": "c", "content": "x", "status": "error"},
    }
    assert encode(Message("user", (Text("x"),), True)) == {"type": "human", "data": {"content": "x"}}


def test_m2_a_cleared_result_goes_out_with_the_new_text() -> None:
    message = decode({"type": "tool", "data": {"content": [{"type": "text", "text": "long"}], "tool_call_id": "c"}})
    assert encode(Message("user", (ToolResult("c", "cleared"),), False, message.extra)) == {
        "type": "tool",
        "data": {"content": "cleared", "tool_call_id": "c"},
    }


def test_z3_parts_become_blocks() -> None:
    body: Any = {
        "content": [{"type": "reasoning", "reasoning": "why"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    }
    thought, picture = decode({"type": "ai", "data": body}).blocks
    assert isinstance(thought, Thinking) and thought.text == "why"
    assert isinstance(picture, Image) and picture.source == {"type": "base64", "media_type": "image/png", "data": "AAAA"}


# --- files


def test_z3_a_list_is_recognised_and_read_one_entry_a_message() -> None:
    assert langchain.recognises(Source(MESSAGES))
    assert not any(module.recognises(Source(MESSAGES)) for module in (codex, responses, openai_chat))
    entries = list(langchain.read(Source(MESSAGES)).main.log.entries())
    assert [e.kind for e in entries] == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert [normal(encode(Message(_role(e.kind), e.blocks, e.bare, e.extra))) for e in entries] == [normal(m) for m in REAL]
    assert len(pair(entries).pairs) == 2 and not pair(entries).orphans
    assert [e.id for e in entries] == [m["kwargs"]["id"] for m in REAL]


def _role(kind: str) -> Any:
    return kind


def test_t2_usage_is_split_into_disjoint_parts_and_named_by_its_response() -> None:
    entries = list(langchain.read(Source(MESSAGES)).main.log.entries())
    assert entries[1].usage == Usage(input=3, cache_write=6717, output=116)
    assert (entries[1].api_id, entries[1].model) == ("msg_01TiwbujjVaz9UbX7R3EeoRw", "claude-sonnet-4-5-20250929")
    assert entries[0].usage is None and entries[0].api_id is None


def test_t2_one_hour_writes_thinking_and_openais_own_count_are_read() -> None:
    metadata: Any = {
        "input_tokens": 100,
        "output_tokens": 9,
        "input_token_details": {"cache_read": 40, "cache_creation": 0, "ephemeral_1h_input_tokens": 30},
        "output_token_details": {"reasoning": 4},
    }
    assert langchain.usage_of({"usage_metadata": metadata}) == Usage(
        input=30, cache_write=30, cache_read=40, output=9, thinking=4, cache_write_1h=30
    )
    own: Any = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    assert langchain.usage_of({"response_metadata": {"token_usage": own}}) == Usage(input=6, cache_read=4, output=2)
    assert langchain.usage_of({}) is None


def test_z3_states_and_lines_hold_the_same_messages(tmp_path: Path) -> None:
    expected = list(langchain.read(Source(MESSAGES)).main.log.entries())
    for value in (
        {"messages": REAL},
        {"values": {"messages": REAL}},
        {"channel_values": {"messages": REAL, "files": {}}},
        {"messages": [REAL]},
    ):
        source = written(tmp_path, value)
        assert langchain.recognises(source)
        assert list(langchain.read(source).main.log.entries()) == expected
    one = tmp_path / "one.json"
    one.write_text(json.dumps(REAL), encoding="utf-8")
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps(message) + "\n" for message in REAL), encoding="utf-8")
    for path in (one, lines):
        assert langchain.recognises(Source(path))
        assert list(langchain.read(Source(path)).main.log.entries()) == expected


def test_z3_a_state_keeps_its_thread_and_its_other_values(tmp_path: Path) -> None:
    state = {"values": {"messages": REAL, "files": {"a": "b"}}, "config": {"configurable": {"thread_id": "t1"}}}
    head = langchain.read(written(tmp_path, state)).main.log.head
    assert (head.id, head.extra["values"]) == ("t1", {"files": {"a": "b"}})
    lines = tmp_path / "states.jsonl"
    lines.write_text(json.dumps(state) + "\n" + json.dumps(state) + "\n", encoding="utf-8")
    assert [(c.kind, len(c.log)) for c in langchain.read(Source(lines)).conversations] == [("sample", 6), ("sample", 6)]


def test_z3_a_summary_of_the_middleware_is_known_as_one(tmp_path: Path) -> None:
    summary = {"type": "human", "content": "Here is a summary", "additional_kwargs": {"lc_source": "summarization"}}
    first, second = langchain.read(written(tmp_path, [summary, {"type": "ai", "content": "x"}])).main.log.entries()
    assert (first.summary, first.meta, second.summary) == (True, True, False)


def test_z3_an_order_to_remove_is_kept_but_no_entry_and_what_is_unknown_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    remove = {"type": "remove", "content": "", "id": "a"}
    path.write_text(
        json.dumps([{"type": "human", "content": "x"}, remove, {"type": "ghost", "content": ""}, 7], indent=1), encoding="utf-8"
    )
    transcript = langchain.read(Source(path))
    assert [json.loads(record.raw) for record in transcript.other] == [remove]
    assert [(bad.line, bad.why) for bad in transcript.bad_lines] == [
        (3, "a LangChain message of the kind 'ghost'"),
        (4, "not a LangChain message"),
    ]
    with pytest.raises(BadLineError, match=r"state\.json:3: "):
        langchain.read(Source(path, strict=True))


@pytest.mark.parametrize(
    "value",
    [[{"type": "gemini", "content": "x"}], [{"type": "system", "content": "x"}], {"messages": []}, [{"role": "user", "content": "x"}]],
)
def test_z3_what_belongs_to_another_reader_is_not_recognised(value: Any, tmp_path: Path) -> None:
    assert not langchain.recognises(written(tmp_path, value))


def test_z3_a_file_without_a_message_is_refused_by_name(tmp_path: Path) -> None:
    assert "no message in it" in refused(langchain.read, written(tmp_path, [{"type": "ghost", "content": "x"}]))


def test_z3_damaged_files_are_read_or_refused_never_a_crash(tmp_path: Path) -> None:
    assert only_input_errors(langchain.read, MESSAGES, tmp_path, 150, recognises=langchain.recognises) > 40
