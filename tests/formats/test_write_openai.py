"""A view as OpenAI Chat Completions messages (Z4)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from fivefold.core.entries import Entry, Head
from fivefold.core.log import Log
from fivefold.core.messages import Document, Image, Opaque, ServerToolUse, Text, Thinking, ToolResult, ToolUse
from fivefold.core.view import view_of
from fivefold.formats.write import render
from tests.build import assistant, call, entry, result, user

from .writing import document, reread, views, written

PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
PARTS = {
    "system": {"text"},
    "user": {"text", "image_url", "file", "input_audio"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}
"""Types of content parts that the API takes, by role."""
MAX_ID = 40


def faults(messages: list[dict[str, Any]]) -> list[str]:
    """What the API would refuse in a list of messages; an open call at the very end is none."""
    found: list[str] = []
    waiting: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        role, content = message["role"], message.get("content")
        found += [f"{place}: {why}" for why in _content_faults(role, content, bool(message.get("tool_calls")))]
        if role == "tool":
            id = message.get("tool_call_id")
            found += [] if id in waiting else [f"{place}: an answer to {id}, which is not open"]
            waiting = [other for other in waiting if other != id]
            continue
        found += [f"{place}: {waiting} were not answered"] if waiting else []
        waiting = []
        for made in message.get("tool_calls") or []:
            found += [f"{place}: {why}" for why in _call_faults(made, seen)]
            waiting.append(made["id"])
            seen.add(made["id"])
    return found


def _content_faults(role: str, content: Any, calls: bool) -> list[str]:
    if role not in PARTS:
        return [f"the role {role}"]
    if content is None:
        return [] if role == "assistant" and calls else ["no content"]
    if isinstance(content, str):
        return []
    types = [part.get("type") if isinstance(part, dict) else part for part in content]
    return ["empty content"] * (not types) + [f"a {type} in a message of role {role}" for type in types if type not in PARTS[role]]


def _call_faults(made: dict[str, Any], seen: set[str]) -> list[str]:
    text = made["custom"]["input"] if made["type"] == "custom" else made["function"]["arguments"]
    return (
        ["arguments that are no text"] * (not isinstance(text, str))
        + [f"the id {made['id']} again"] * (made["id"] in seen)
        + [f"the id {made['id']}"] * (not 0 < len(made["id"]) <= MAX_ID)
    )


def log_of(*entries: Entry, **head: Any) -> Log:
    return Log(Head(**{"wire": "anthropic", **head}), entries)


def messages(*entries: Entry, **head: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document(log_of(*entries, **head), "openai")["messages"]
    assert faults(found) == []
    return found


def test_the_check_itself_finds_what_it_is_for() -> None:
    made = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    ask, answer = {"role": "assistant", "tool_calls": [made]}, {"role": "tool", "tool_call_id": "c", "content": "x"}
    assert faults([ask, answer]) == faults([ask]) == []
    assert faults([answer]) and faults([ask, {"role": "user", "content": "x"}, answer])
    assert faults([ask, answer, ask, answer]) and faults([ask, {**answer, "content": None}]) and faults([{"role": "user"}])
    assert faults([ask, {**answer, "content": [PNG_PART]}]) and faults([{"role": "user", "content": []}])
    assert faults([{**ask, "tool_calls": [{**made, "function": {"name": "f", "arguments": {}}}]}])
    assert faults([{**ask, "tool_calls": [{**made, "id": "c" * 41}]}])


def test_z4_every_recorded_view_is_legal_and_reads_back_as_it_was(tmp_path: Path) -> None:
    count = 0
    for name, _, head, log, view in views():
        data = render(head, log, view, "openai")
        assert faults(json.loads(data)["messages"]) == [], name
        again = reread(data, tmp_path).main.log
        assert render(again.head, again, view_of(again), "openai") == data, name
        count += 1
    assert count > 50


def test_z4_no_text_of_a_recorded_view_is_lost() -> None:
    for name, _, head, log, view in views():
        text = written(log, "openai", head=head).decode()
        for shown in view.sent():
            for block in shown.blocks:
                if isinstance(block, Text) and block.text.strip():
                    assert json.dumps(block.text.rstrip(), ensure_ascii=False)[1:-1] in text, name


def test_z4_a_call_has_its_arguments_as_text_and_its_answers_right_behind_it() -> None:
    entries = (
        user("u", "look", bare=True),
        assistant("a1", "two calls", call("c1", "read", path="a"), api_id="r"),
        assistant("a2", call("c2", "read", path="b"), api_id="r"),
        user("r2", result("c2", "B")),
        user("r1", result("c1", "A"), "and then?"),
    )
    assert messages(*entries) == [
        {"role": "user", "content": "look"},
        {
            "role": "assistant",
            "content": "two calls",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}},
                {"id": "c2", "type": "function", "function": {"name": "read", "arguments": '{"path":"b"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "c2", "content": "B"},
        {"role": "tool", "tool_call_id": "c1", "content": "A"},
        {"role": "user", "content": "and then?"},
    ]


def test_z4_the_system_prompt_is_a_system_message() -> None:
    found = messages(entry("s", "system", "Rules."), user("u", "hi", bare=True), system=(Text("Be brief."),))
    assert found[0] == {"role": "system", "content": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Rules."}]}
    assert messages(user("u", "hi"), system=(Text("Be brief."),))[0] == {"role": "system", "content": "Be brief."}


def test_z4_tools_take_the_shape_of_functions() -> None:
    tools = ({"name": "read", "description": "Reads.", "input_schema": SCHEMA}, {"type": "web_search_20250305", "name": "web_search"})
    body = document(log_of(user("u", "hi"), tools=tools), "openai")
    assert list(body) == ["tools", "messages"]
    assert body["tools"] == [{"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA}}]
    own = ({"type": "function", "function": {"name": "read", "strict": True}}, {"type": "custom", "custom": {"name": "run"}})
    assert document(log_of(user("u", "hi"), tools=own, wire="openai-chat"), "openai")["tools"] == list(own)


def test_z4_images_of_a_person_stay_images() -> None:
    web = {"type": "url", "url": "https://example.org/a.png"}
    (found,) = messages(user("u", "see", Image(PNG), Image(web), Image({"type": "file", "file_id": "f1"})))
    assert found["content"][1:] == [
        PNG_PART,
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "text", "text": "[image: f1]"},
    ]


def test_z4_images_in_a_result_stand_behind_all_results_and_the_result_says_so() -> None:
    shot = ToolResult("c1", (Text("took it"), Image(PNG)))
    found = messages(user("u", "go"), assistant("a", call("c1"), call("c2")), user("r", shot, result("c2")), user("n", "nice"))
    assert [message["role"] for message in found] == ["user", "assistant", "tool", "tool", "user"]
    assert [part["text"] for part in found[2]["content"]] == ["took it", "[image of this result: in the user message behind]"]
    assert found[4]["content"] == [
        {"type": "text", "text": "[image of the result of c1]"},
        PNG_PART,
        {"type": "text", "text": "nice"},
    ]


def test_z4_each_image_of_a_result_is_kept_in_its_order() -> None:
    other = {**PNG, "data": "iVBORw0KGgoAAA=="}
    found = messages(user("u", "go"), assistant("a", call("c")), user("r", ToolResult("c", (Image(PNG), Image(other)))))
    assert [part["type"] for part in found[3]["content"]] == ["text", "image_url"] * 2
    assert [part["image_url"]["url"][-4:] for part in found[3]["content"] if part["type"] == "image_url"] == ["Ggo=", "AA=="]


def test_z4_anthropics_image_limits_do_not_hold() -> None:
    """Anthropic refuses one of 9,000 pixels a side."""
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (9000).to_bytes(4, "big") * 2 + bytes(40)
    large = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(header).decode()}
    entries = (user("u", "see", Image(large)),)
    assert messages(*entries)[0]["content"][1]["type"] == "image_url"
    assert document(log_of(*entries), "anthropic")["messages"][0]["content"][1]["type"] == "text"


def test_z4_an_image_in_the_agents_own_message_is_told_in_words() -> None:
    assert messages(user("u", "draw"), assistant("a", "here:", Image(PNG)))[1]["content"][1] == {
        "type": "text",
        "text": "[image: image/png]",
    }


def test_z4_documents_become_files_or_say_what_was_there() -> None:
    blocks = (
        Document(PDF),
        Document({"type": "text", "media_type": "text/plain", "data": "the text"}),
        Document({"type": "content", "content": [{"type": "text", "text": "part"}, {"type": "image", "source": PNG}]}),
        Document({"type": "url", "url": "https://example.org/a.pdf"}),
        Document({"type": "file", "file_id": "f1"}),
        Document({"type": "path", "path": "docs/a.pdf"}),
    )
    (found,) = messages(user("u", *blocks))
    assert found["content"] == [
        {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
        {"type": "text", "text": "the text"},
        {"type": "text", "text": "part"},
        PNG_PART,
        {"type": "text", "text": "[document: https://example.org/a.pdf]"},
        {"type": "text", "text": "[document: f1]"},
        {"type": "text", "text": "[document: docs/a.pdf]"},
    ]
    (found,) = messages(user("u", Document({"type": "file", "file_id": "f1"}, {"file": {"filename": "a.pdf"}})), wire="openai-chat")
    assert found["content"] == [{"type": "file", "file": {"file_id": "f1", "filename": "a.pdf"}}]


def test_i6_what_only_another_provider_knows_becomes_text_and_its_thinking_is_left_out() -> None:
    search = ServerToolUse("s", "web_search", {"q": "x"})
    found = messages(
        user("u", Opaque({"type": "container_upload", "file_id": "f"})),
        assistant("a", Thinking("hm", "sig"), search, "found", model="claude-x"),
        assistant("t", Thinking("only this", "sig"), api_id="t"),
    )
    assert found[0]["content"] == '{"type":"container_upload","file_id":"f"}'
    assert len(found) == 2 and "found" in str(found[1]["content"]) and "hm" not in str(found)


def test_i6_its_own_keys_and_parts_stay() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    found = messages(
        user("u", "hear", Opaque(audio), extra={"name": "Kim"}),
        assistant("a", Thinking("hm"), call("c"), extra={"content": None}),
        user("r", ToolResult("c", "x", False, {"name": "Bash"})),
        wire="openai-chat",
    )
    assert found[0]["name"] == "Kim" and found[0]["content"][1] == audio
    assert found[1]["content"] is None and found[1]["reasoning_content"] == "hm"
    assert found[2] == {"role": "tool", "tool_call_id": "c", "name": "Bash", "content": "x"}


def test_z4_calls_of_the_older_api_become_calls_of_the_present_one(tmp_path: Path) -> None:
    def made(arguments: str) -> list[dict[str, Any]]:
        call = {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": arguments}}
        return [call, {"role": "function", "name": "ls", "content": "a.py"}]

    old = {"messages": [{"role": "user", "content": "look"}, *made('{"p":1}'), *made('{"p":2}')]}
    log = reread(json.dumps(old).encode(), tmp_path).main.log
    found = document(log, "openai")["messages"]
    assert faults(found) == []
    assert [m["role"] for m in found] == ["user", "assistant", "tool", "assistant", "tool"]
    assert [m["tool_calls"][0]["function"]["arguments"] for m in found if m["role"] == "assistant"] == ['{"p":1}', '{"p":2}']


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic"])
def test_z4_broken_arguments_go_out_as_they_came(wire: str) -> None:
    found = messages(user("u", "go"), assistant("a", ToolUse("c", "read", '{"path": "a')), user("r", result("c")), wire=wire)
    assert found[1]["tool_calls"][0]["function"]["arguments"] == '{"path": "a'


def test_z4_a_call_of_a_tool_that_takes_text_keeps_its_kind() -> None:
    patch = ToolUse("c", "apply_patch", "*** Begin Patch", {"type": "custom"})
    found = messages(user("u", "go"), assistant("a", patch), user("r", result("c")), wire="openai-chat")
    assert found[1]["tool_calls"] == [{"id": "c", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin Patch"}}]


def test_z4_calls_that_are_not_well_formed_are_told_in_words(tmp_path: Path) -> None:
    broken = {"role": "assistant", "content": "wait", "tool_calls": [{"id": "c", "function": {"name": "ls"}}]}
    rows = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "go"}, broken]}
    found = document(reread(json.dumps(rows).encode(), tmp_path).main.log, "openai")["messages"]
    assert faults(found) == []
    assert [part["text"] for part in found[2]["content"]] == ["wait", '[{"id":"c","function":{"name":"ls"}}]']


def test_i4_ids_that_are_too_long_are_shortened_alike_and_stay_apart() -> None:
    ids = ["x" * 60 + "1", "x" * 60 + "2"]
    found = messages(user("u", "go"), assistant("a", call(ids[0]), call(ids[1])), user("r", result(ids[0], "A"), result(ids[1], "B")))
    made = [call["id"] for call in found[1]["tool_calls"]]
    assert [(m["tool_call_id"], m["content"]) for m in found[2:]] == [(made[0], "A"), (made[1], "B")]
    assert made[0] != made[1]


def test_i1_orphans_and_open_calls_are_mended() -> None:
    found = messages(
        user("u", "go"),
        assistant("a", call("c1")),
        user("n", "stop"),
        user("r", result("lost")),
        assistant("b", call("c2")),
        user("e", ToolResult("c2", ())),
    )
    assert [m.get("content") for m in found if m["role"] == "tool"] == ["[No result: the tool call was interrupted.]", ""]


def test_z4_a_developers_message_in_the_middle_lends_its_role_to_nobody(tmp_path: Path) -> None:
    rows = [
        {"role": "user", "content": "one"},
        {"role": "developer", "content": "rule"},
        {"role": "user", "content": "two"},
    ]
    log = reread(json.dumps(rows).encode(), tmp_path).main.log
    assert [m["role"] for m in document(log, "openai")["messages"]] == ["user"]
