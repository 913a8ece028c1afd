"""OpenAI Responses items: the codec, and the reader of files that hold them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.entries import Usage
from fivefold.core.messages import (
    Compaction,
    Document,
    Image,
    Message,
    Opaque,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)
from fivefold.core.pairing import pair, server_pairs
from fivefold.errors import BadLineError
from fivefold.formats import codex, langchain, openai_chat, responses
from fivefold.formats.responses_items import CALLS, HOSTED, OUTPUTS, decode, encode
from fivefold.formats.source import Source

from .mutate import only_input_errors, refused, written

ITEMS = Path(__file__).parents[1] / "data" / "responses" / "items.json"
REAL = json.loads(ITEMS.read_text(encoding="utf-8"))

ODD: list[Any] = [
    {"role": "user", "content": "no type"},
    {"role": "user", "content": [{"type": "input_text", "text": "no type"}, {"type": "new_part", "x": 1}, "bare", 7]},
    {"type": "message", "role": "developer", "content": "as a string"},
    {"type": "message", "role": "critic", "content": []},
    {"type": "message", "role": "assistant", "content": [], "status": "in_progress"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "no"}, {"type": "output_text", "text": "", "annotations": []}],
    },
    {
        "type": "agent_message",
        "author": "/lead",
        "recipient": "/lead/a",
        "content": [{"type": "encrypted_content", "encrypted_content": "x"}],
    },
    {"type": "agent_message", "role": "user", "content": "both"},
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
        "encrypted_content": "gAAA",
    },
    {"type": "reasoning", "summary": [], "encrypted_content": None, "content": [{"type": "reasoning_text", "text": "open"}]},
    {"type": "reasoning", "encrypted_content": ""},
    {"type": "reasoning", "encrypted_content": "x"},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1,"a":2}'},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{torn"},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "null"},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"big":123456789012345678901234567890}'},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": {"an": "object"}},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": None},
    {"type": "function_call", "call_id": "c", "name": "f"},
    {"type": "function_call", "name": "f", "arguments": "{}"},
    {
        "type": "function_call_output",
        "call_id": "c",
        "output": [
            {"type": "input_text", "text": "t"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
        ],
    },
    {"type": "function_call_output", "call_id": "c", "output": None},
    {"type": "function_call_output", "call_id": "c"},
    {"type": "function_call_output", "call_id": "c", "output": {"content": "x", "success": True}},
    {"type": "function_call_output", "call_id": "same", "id": "same", "output": "x"},
    {
        "type": "computer_call",
        "id": "cu",
        "call_id": "c",
        "action": {"type": "screenshot"},
        "pending_safety_checks": [],
        "status": "completed",
    },
    {"type": "computer_call", "call_id": "c", "actions": [{"type": "click", "x": 1, "y": 2}]},
    {"type": "computer_call", "call_id": "c", "action": [1]},
    {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": "https://example.com/a.png"}},
    {"type": "local_shell_call", "id": "lsh", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}, "status": "completed"},
    {"type": "local_shell_call_output", "id": "c", "output": "text"},
    {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
    {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "a"}, "status": "completed"},
    {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {"q": 1}},
    {"type": "mcp_call", "id": "mcp", "name": "f", "server_label": "s", "arguments": '{"a": 1}', "output": "text", "error": None},
    {"type": "mcp_call", "id": "mcp", "name": None, "arguments": {"a": 1}, "output": None},
    {"type": "web_search_call", "status": "completed"},
    {"type": "web_search_call", "id": "", "action": None},
    {"type": "code_interpreter_call", "id": "ci", "code": "1+1", "container_id": "k", "outputs": [{"type": "logs", "logs": "2"}]},
    {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "AAAA"},
    {"type": "compaction", "id": "cmp", "encrypted_content": "gAAA"},
    {"type": "compaction_trigger"},
    {"type": "item_reference", "id": "msg_1"},
    {"type": "of_next_year", "call_id": "c", "output": 1},
    {"type": "input_text", "text": "a part where an item belongs"},
    {"type": None, "role": "user", "content": "x"},
    {"type": ["list"]},
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
            {"type": "input_file", "file_id": "file-1"},
            {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            {"type": "input_file", "file_data": "AAAA"},
            {"type": "input_image", "file_id": "file-2", "image_url": None},
        ],
    },
    "not an object",
    None,
]


def normal(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("item", [*REAL, *ODD], ids=lambda item: str(item.get("type") if isinstance(item, dict) else item))
def test_i6_an_item_goes_out_as_it_came(item: Any) -> None:
    assert normal(encode(decode(item))) == normal([item])


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.text(max_size=4)
    | st.sampled_from(["message", "input_text", "user", "data:a/b;base64,AA=="]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "image_url", "file_id", "file_data", "refusal", "id", "role", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
items = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "agent_message", "reasoning", "compaction", "unknown", *CALLS, *OUTPUTS, *HOSTED])},
    optional={
        key: json_values | choices
        for key, choices in {
            "role": st.sampled_from(["user", "assistant", "developer", "system"]),
            "content": json_values,
            "id": st.sampled_from(["a", "b"]),
            "call_id": st.sampled_from(["a", "b", "c"]),
            "name": st.sampled_from(["f", "g"]),
            "arguments": st.sampled_from(['{"a":1}', '{"a": 1}', "{", "[]", "1e400", "NaN"]),
            "input": json_values,
            "output": json_values,
            "outputs": json_values,
            "action": json_values,
            "actions": json_values,
            "tools": json_values,
            "summary": json_values,
            "encrypted_content": st.text(max_size=2),
            "status": json_values,
        }.items()
    },
)


@given(items)
def test_i6_any_item_goes_out_as_it_came(item: dict[str, Any]) -> None:
    assert normal(encode(decode(item))) == normal([item])


def test_i6_a_message_of_many_blocks_goes_out_as_items_in_order() -> None:
    blocks = (Thinking("why"), Text("saying"), Text("so"), ToolUse("c1", "f", {"a": 1}), ToolUse("c2", "g", None))
    assert encode(Message("assistant", blocks)) == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "saying"}, {"type": "output_text", "text": "so"}],
        },
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
    ]
    assert encode(Message("user", (ToolResult("c1", "r"), Text("and")))) == [
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and"}]},
    ]


def test_m2_a_cleared_answer_goes_out_with_the_new_text_in_its_own_shape() -> None:
    cases: list[tuple[dict[str, Any], str, Any]] = [
        ({"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "long"}]}, "output", "cleared"),
        ({"type": "function_call_output", "call_id": "c", "output": None}, "output", "cleared"),
        ({"type": "tool_search_output", "call_id": "c", "tools": [{"type": "function"}]}, "tools", []),
    ]
    for item, key, expected in cases:
        (block,) = decode(item).blocks
        assert isinstance(block, ToolResult)
        assert encode(Message("user", (ToolResult(block.tool_use_id, "cleared", False, block.extra),))) == [{**item, key: expected}]


def test_i8_a_hosted_call_is_a_pair_of_its_own() -> None:
    message = decode({"type": "mcp_call", "id": "mcp_1", "name": "ask", "server_label": "wiki", "arguments": '{"q":"x"}', "output": "y"})
    assert message.blocks == (
        ServerToolUse("mcp_1", "ask", {"q": "x"}, "mcp_call", {"name": "ask", "server_label": "wiki"}),
        ServerToolResult("mcp_1", "y", "mcp_call_result"),
    )
    assert server_pairs(message.blocks) == ([], [])


def test_i2_reasoning_keeps_its_encrypted_content_as_the_signature() -> None:
    (block,) = decode(
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Look"}], "encrypted_content": "gAAA"}
    ).blocks
    assert isinstance(block, Thinking)
    assert (block.text, block.signature) == ("Look", "gAAA")


def test_t6_a_data_url_is_an_image_with_base64_and_a_file_a_document() -> None:
    message = decode(
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
                {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            ],
        }
    )
    assert message.blocks == (
        Image({"type": "base64", "media_type": "image/png", "data": "AAAA"}),
        Document({"type": "url", "url": "https://example.com/a.pdf"}),
    )


def test_e7_a_compaction_item_is_kept_whole_and_a_trigger_is_asked_by_the_client() -> None:
    item: dict[str, Any] = {"type": "compaction", "id": "cmp", "encrypted_content": "gAAA"}
    assert decode(item) == Message("assistant", (Compaction(item),))
    assert decode({"type": "compaction_trigger"}) == Message("user", (Opaque({"type": "compaction_trigger"}),))


def test_z3_a_list_of_items_is_recognised_and_read_one_entry_an_item() -> None:
    assert responses.recognises(Source(ITEMS))
    assert not any(m.recognises(Source(ITEMS)) for m in (codex, openai_chat, langchain))
    transcript = responses.read(Source(ITEMS))
    entries = list(transcript.main.log.entries())
    assert transcript.format == "openai-responses"
    assert [normal(encode(Message(_role(e.kind), e.blocks, e.bare, e.extra))) for e in entries] == [normal([item]) for item in REAL]
    assert [e.line for e in entries] == list(range(1, len(REAL) + 1))
    counted = sum(item["type"] in CALLS for item in REAL)
    assert counted and sum(isinstance(b, ToolUse) for e in entries for b in e.blocks) == counted
    assert not pair(entries).orphans


def _role(kind: str) -> Any:
    return kind


def test_z3_items_as_json_lines_and_on_one_line_are_the_same_conversation(tmp_path: Path) -> None:
    lines = tmp_path / "items.jsonl"
    lines.write_text("".join(json.dumps(item) + "\n" for item in REAL), encoding="utf-8")
    one = tmp_path / "one.json"
    one.write_text(json.dumps(REAL), encoding="utf-8")
    assert responses.recognises(Source(lines)) and responses.recognises(Source(one))
    expected = responses.read(Source(ITEMS)).main.log
    assert responses.read(Source(one)).main.log == expected
    assert responses.read(Source(lines)).main.log == expected


RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "model": "gpt-5.5",
    "instructions": "Be brief.",
    "tools": [{"type": "function", "name": "f"}],
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ],
    "usage": {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 64},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
    },
}


def test_t2_the_usage_of_a_response_stands_on_its_last_entry_in_disjoint_parts(tmp_path: Path) -> None:
    source = written(tmp_path, RESPONSE)
    assert responses.recognises(source)
    log = responses.read(source).main.log
    first, last = log.entries()
    assert (first.usage, last.usage) == (None, Usage(input=36, cache_read=64, output=9, thinking=4))
    assert {first.api_id, last.api_id} == {"resp_1"}
    assert (log.head.model, log.head.system, log.head.tools) == ("gpt-5.5", (Text("Be brief."),), ({"type": "function", "name": "f"},))


def test_z3_a_request_with_its_response_is_one_conversation_and_several_are_samples(tmp_path: Path) -> None:
    logged = {"input": [{"role": "user", "content": "Do it."}], "model": "gpt-5.5", "response": RESPONSE}
    assert [e.kind for e in responses.read(written(tmp_path, logged)).main.log.entries()] == ["user", "assistant", "assistant"]
    asked = {**RESPONSE, "input": "Do it."}
    assert [e.kind for e in responses.read(written(tmp_path, asked)).main.log.entries()] == ["user", "assistant", "assistant"]
    bare = {"model": "gpt-5.5", "input": [{"role": "user", "content": "Do it."}]}
    assert responses.recognises(written(tmp_path, bare))
    assert len(responses.read(written(tmp_path, bare)).main.log) == 1
    lines = tmp_path / "log.jsonl"
    lines.write_text(json.dumps(logged) + "\n" + json.dumps(asked) + "\n", encoding="utf-8")
    transcript = responses.read(Source(lines))
    assert [(c.kind, len(c.log)) for c in transcript.conversations] == [("sample", 3), ("sample", 3)]


def test_z3_an_anthropic_message_and_a_chat_list_are_not_recognised(tmp_path: Path) -> None:
    anthropic = {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "x"}], "usage": {}}
    assert not responses.recognises(written(tmp_path, [anthropic]))
    assert not responses.recognises(written(tmp_path, [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]))


def test_z3_a_line_that_is_no_item_is_listed_or_in_strict_mode_refused(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps(REAL[0]) + "\n7\n{torn\n" + json.dumps(REAL[1]) + "\n", encoding="utf-8")
    transcript = responses.read(Source(path))
    assert [bad.line for bad in transcript.bad_lines] == [2, 3]
    assert [e.line for e in transcript.main.log.entries()] == [1, 4]
    with pytest.raises(BadLineError, match=r"items\.jsonl:2: "):
        responses.read(Source(path, strict=True))


def test_z3_a_file_without_items_is_refused_by_name(tmp_path: Path) -> None:
    assert "no message in it" in refused(responses.read, written(tmp_path, {"input": [], "output": []}))


def test_z3_damaged_files_are_read_or_refused_never_a_crash(tmp_path: Path) -> None:
    assert only_input_errors(responses.read, ITEMS, tmp_path, 150, recognises=responses.recognises) > 30
