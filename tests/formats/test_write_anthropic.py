"""A view as a request of Anthropic's Messages API (Z4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fivefold.core.entries import Entry, Head
from fivefold.core.log import Log
from fivefold.core.messages import Document, Image, Opaque, Text, Thinking, ToolResult, decode_content
from fivefold.core.view import view_of
from fivefold.errors import InputError
from fivefold.formats.write import TARGETS, render
from tests.build import assistant, call, invariants, result, user

from .writing import SUMMARY, document, messages_of, reread, views, written

PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
MARK = {"type": "ephemeral"}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


def log_of(*entries: Entry, **head: Any) -> Log:
    return Log(Head(**head), entries)


def test_z4_every_recorded_view_is_legal_and_reads_back_as_it_was(tmp_path: Path) -> None:
    count = 0
    for name, _, head, log, view in views():
        data = render(head, log, view, "anthropic")
        body = json.loads(data)
        assert invariants.check(body["messages"], allow_pending=True, strict_alternation=True) == [], name
        assert [m["role"] for m in body["messages"]] == [m.role for m in messages_of(head, view)], name
        assert [decode_content(m["content"])[0] for m in body["messages"]] == [m.blocks for m in messages_of(head, view)], name
        again = reread(data, tmp_path).main.log
        assert again.head.wire in ("anthropic", "openai-chat"), name
        assert render(again.head, again, view_of(again), "anthropic") == data, name
        count += 1
    assert count > 50


def test_z4_two_runs_give_the_same_bytes() -> None:
    log = log_of(user("u", "hello"), assistant("a", "hi"), wire="anthropic")
    assert [written(log, to) for to in TARGETS] == [written(log, to) for to in TARGETS]


def test_z4_system_prompt_and_tools_go_along_as_they_came() -> None:
    tool = {"name": "read", "input_schema": SCHEMA, "strict": True}
    search = {"type": "web_search_20250305", "name": "web_search"}
    head = {"system": (Text("Be brief.", {"cache_control": MARK}),), "tools": (tool, search), "wire": "anthropic"}
    body = document(log_of(user("u", "hello"), **head), "anthropic")
    assert list(body) == ["system", "tools", "messages"]
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    assert body["tools"] == [tool, search]


def test_z4_without_system_prompt_and_tools_there_are_no_such_keys() -> None:
    assert document(log_of(user("u", "hello", bare=True)), "anthropic") == {"messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.parametrize(
    ("wire", "tool"),
    [
        ("openai-chat", {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA, "strict": True}}),
        ("openai-responses", {"type": "function", "name": "read", "description": "Reads.", "parameters": SCHEMA}),
        ("inspect", {"name": "read", "description": "Reads.", "parameters": SCHEMA}),
        ("cline", {"name": "read", "description": "Reads.", "input_schema": SCHEMA}),
    ],
)
def test_z4_tools_of_other_providers_take_this_ones_shape(wire: str, tool: dict[str, Any]) -> None:
    body = document(log_of(user("u", "hello"), wire=wire, tools=(tool, tool)), "anthropic")
    assert body["tools"] == [{"name": "read", "description": "Reads.", "input_schema": SCHEMA}]


def test_z4_a_tool_that_takes_text_gets_a_schema_that_fits_its_calls() -> None:
    """A call whose input is no object is sent as ``{"input": …}``, and a schema always has a type."""
    tools = (
        {"type": "custom", "name": "apply_patch"},
        {"type": "custom", "custom": {"name": "run"}},
        {"type": "function", "function": {"name": "ls"}},
        {"type": "web_search"},
    )
    log = log_of(user("u", "go"), assistant("a", call("c", "apply_patch")), wire="openai-responses", tools=tools)
    text = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    assert document(log, "anthropic")["tools"] == [
        {"name": "apply_patch", "input_schema": text},
        {"name": "run", "input_schema": text},
        {"name": "ls", "input_schema": {"type": "object", "properties": {}}},
    ]


def test_i6_unknown_blocks_and_fields_pass_and_those_of_others_become_text() -> None:
    container = {"type": "container_upload", "file_id": "f"}
    entries = (user("u", Opaque(container), Text("see it", {"citations": None})), assistant("a", "ok", extra={"x": 1}))
    own = document(log_of(*entries, wire="anthropic"), "anthropic")["messages"]
    assert own[0]["content"] == [container, {"type": "text", "text": "see it", "citations": None}]
    assert own[1]["x"] == 1
    other = document(log_of(*entries, wire="pi"), "anthropic")["messages"]
    assert other[0]["content"] == [
        {"type": "text", "text": json.dumps(container, separators=(",", ":"))},
        {"type": "text", "text": "see it"},
    ]
    assert "x" not in other[1]


def test_i5_no_more_than_four_cache_marks_over_all_parts() -> None:
    marked = [Text(str(n), {"cache_control": MARK}) for n in range(3)]
    tools = tuple({"name": f"t{n}", "input_schema": SCHEMA, "cache_control": MARK} for n in range(3))
    log = log_of(user("u", *marked), system=(Text("s", {"cache_control": MARK}),), tools=tools[:1], wire="anthropic")
    assert written(log, "anthropic").count(b"cache_control") == 4
    assert "cache_control" not in document(log, "anthropic")["tools"][0]
    log = log_of(user("u", *marked[:2]), tools=tools, wire="anthropic")
    assert ["cache_control" in tool for tool in document(log, "anthropic")["tools"]] == [False, True, True]
    log = log_of(user("u", "hi"), system=tuple(Text(str(n), {"cache_control": MARK}) for n in range(6)), wire="anthropic")
    assert written(log, "anthropic").count(b"cache_control") == 4


def test_z4_images_and_documents_stay() -> None:
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    log = log_of(
        user("u", Image(PNG), Document(pdf, {"title": "report"})),
        assistant("a", call("c")),
        user("r", ToolResult("c", (Text("shot"), Image(PNG)))),
        wire="anthropic",
    )
    first, _, last = document(log, "anthropic")["messages"]
    assert first["content"] == [{"type": "image", "source": PNG}, {"type": "document", "source": pdf, "title": "report"}]
    assert last["content"][0]["content"][1] == {"type": "image", "source": PNG}


def test_i1_i2_what_would_be_refused_is_mended() -> None:
    log = log_of(assistant("a", Thinking("hm"), call("c")), user("u", "go on"), user("r", result("lost")), wire="anthropic")
    messages = document(log, "anthropic")["messages"]
    assert invariants.check(messages, strict_alternation=True) == []


def test_z4_half_surrogates_and_huge_numbers_can_be_written() -> None:
    tool = {"name": "t\udc00", "input_schema": {"type": "object", "maximum": 2**70}}
    log = log_of(user("u", "a\ud800b"), assistant("a", call("c", n=2**70)), wire="anthropic", tools=(tool,))
    body = document(log, "anthropic")
    assert body["tools"][0] == {"name": "t\ufffd", "input_schema": {"type": "object", "maximum": 2**70}}
    assert body["messages"][0]["content"][0]["text"] == "a\ufffdb"
    assert body["messages"][1]["content"][0]["input"] == {"n": 2**70}


def test_h4_what_is_nested_too_deep_is_a_typed_error() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"d": deep}
    log = log_of(user("u", "go"), tools=({"name": "t", "input_schema": deep},), wire="anthropic")
    try:
        with pytest.raises(InputError, match="nested too deep"):
            written(log, "anthropic")
    finally:
        while deep:  # taken apart level by level, or freeing it would recurse as deep
            deep = deep.pop("d")


def test_z4_a_folded_view_shows_its_summary_first() -> None:
    first = next(document(log, "anthropic")["messages"][0] for name, _, _, log, _ in views() if name == "examples/session.jsonl 0 folded")
    content = first["content"]
    assert (content if isinstance(content, str) else content[0]["text"]) == SUMMARY
