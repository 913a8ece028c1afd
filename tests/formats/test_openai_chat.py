"""OpenAI Chat messages: the codec, and the reader of lists, logs of calls and results files."""

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
from fivefold.formats.openai_chat_messages import ROLES, PairCalls, decode, encode
from fivefold.formats.source import Source

from .mutate import only_input_errors, refused, written

DATA = Path(__file__).parents[1] / "data" / "openai_chat"
LIST, LOG, TAU_ONE, TAU_LIST = (DATA / name for name in ("fncall.json", "call_log.json", "tau_bench_one.json", "tau_bench_list.json"))
FILES = [LIST, LOG, TAU_ONE, TAU_LIST]


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


REAL: list[dict[str, Any]] = [
    *_load(LIST),
    *_load(LOG)["messages"],
    *_load(LOG)["raw_messages"],
    _load(LOG)["response"]["choices"][0]["message"],
    *_load(TAU_ONE)["traj"],
    *_load(TAU_LIST)[0]["traj"],
]

CALL: dict[str, Any] = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
ODD: list[dict[str, Any]] = [
    {"role": "user"},
    {"role": "user", "content": None, "name": "ann"},
    {"role": "user", "content": ""},
    {"role": "user", "content": []},
    {"role": "user", "content": {"an": "object"}},
    {
        "role": "user",
        "content": ["bare", 7, {"type": "new"}, {"type": "text"}, {"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}],
    },
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}, "x": 1}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png;base64,AAAA"}, {"type": "image_url", "image_url": {}}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:text/plain,hello"}}]},
    {"role": "user", "content": [{"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}}]},
    {
        "role": "user",
        "content": [{"type": "file", "file": {"file_id": "file-1"}}, {"type": "file", "file": {"file_data": "AAAA"}}, {"type": "file"}],
    },
    {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]},
    {"role": "developer", "content": "x"},
    {"role": "system", "content": [{"type": "text", "text": "x"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "audio": None},
    {"role": "assistant", "content": "x", "tool_calls": [], "function_call": None},
    {
        "role": "assistant",
        "tool_calls": [{**CALL, "index": 0}, {**CALL, "id": "d", "function": {"name": "g", "arguments": '{"a": 1}', "strict": True}}],
    },
    {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]},
    {"role": "assistant", "tool_calls": [{**CALL, "type": None}]},
    {"role": "assistant", "tool_calls": [{**CALL, "type": "new"}]},
    {"role": "assistant", "tool_calls": [CALL, {"function": {"name": "no_id", "arguments": {}}}]},
    {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}]},
    {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "custom": {"name": "patch", "input": "x"}}]},
    {
        "role": "assistant",
        "tool_calls": [{**CALL, "function": {"name": "f", "arguments": text}} for text in ("", "{torn", "null", "[]", '{"x":1e999}')],
    },
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}", "type": "odd"}},
    {"role": "assistant", "content": None, "refusal": "I can't."},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "I can't."}, {"type": "text", "text": "Sorry.", "type2": 1}]},
    {"role": "assistant", "content": "x", "reasoning_content": "hm", "reasoning": "also"},
    {"role": "assistant", "content": "x", "reasoning": "hm", "reasoning_content": None},
    {
        "role": "assistant",
        "content": "x",
        "reasoning_content": "",
        "thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "s"}],
    },
    {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "x"}], "name": "f"},
    {"role": "tool", "tool_call_id": "c", "content": None},
    {"role": "tool", "tool_call_id": None, "content": "x"},
    {"role": "tool", "tool_call_id": "", "content": "x"},
    {"role": "tool", "content": "x"},
    {"role": "function", "name": "f", "content": "x"},
    {"role": "function", "content": None},
]


def normal(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("message", [*REAL, *ODD], ids=lambda message: message["role"])
def test_i6_a_message_goes_out_as_it_came(message: dict[str, Any]) -> None:
    assert normal(encode(decode(message))) == normal([message])


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.sampled_from(["", "x", "text", "image_url", "file", "function", "custom", "data:a/b;base64,AA=="]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "image_url", "url", "file", "file_id", "file_data", "refusal", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
arguments = st.sampled_from(['{"a":1}', '{"a": 1}', "{", "null", "1e400", "NaN", ""]) | values
functions = st.fixed_dictionaries({"name": st.sampled_from(["f", "g"]), "arguments": arguments}, optional={"strict": values})
calls = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["a", "b", "", "call-1"]) | values,
        "function": functions | values,
        "type": st.sampled_from(["function", "custom", "function_call"]) | values,
        "custom": st.fixed_dictionaries({"name": values, "input": values}),
        "index": values,
    },
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(list(ROLES))},
    optional={
        "content": values,
        "tool_calls": st.lists(calls, max_size=3) | values,
        "function_call": functions | values,
        "refusal": values,
        "reasoning_content": values,
        "reasoning": values,
        "tool_call_id": st.sampled_from(["a", "b"]) | values,
        "name": values,
        "x": values,
    },
)


@given(messages)
def test_i6_any_message_goes_out_as_it_came(message: dict[str, Any]) -> None:
    assert normal(encode(decode(message))) == normal([message])


@given(st.lists(messages, max_size=5))
def test_i6_a_conversation_goes_out_as_it_came_with_the_ids_that_it_was_given(talk: list[dict[str, Any]]) -> None:
    paired = PairCalls()
    assert normal([encode(paired(decode(message))) for message in talk]) == normal([[message] for message in talk])


def _without_ids(*names: str) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": name, "arguments": {"n": name}}} for name in names]}


def test_i1_calls_without_ids_are_paired_by_the_tools_name_or_by_place(tmp_path: Path) -> None:
    talk = [
        {"role": "user", "content": "x"},
        _without_ids("f", "g"),
        {"role": "tool", "tool_name": "g", "content": "of g"},
        {"role": "tool", "content": "of f"},
        _without_ids("f"),
        {"role": "tool", "name": "f", "content": "of f again"},
    ]
    source = written(tmp_path, talk)
    assert openai_chat.recognises(source)
    entries = list(openai_chat.read(source).main.log.entries())
    uses = {block.id: block for entry in entries for block in entry.blocks if isinstance(block, ToolUse)}
    results = [block for entry in entries for block in entry.blocks if isinstance(block, ToolResult)]
    assert len(uses) == 3
    assert [(uses[block.tool_use_id].name, block.content) for block in results] == [("g", "of g"), ("f", "of f"), ("f", "of f again")]
    assert uses[results[0].tool_use_id].input == {"n": "g"}
    assert (len(pair(entries).pairs), pair(entries).orphans, pair(entries).unanswered) == (3, (), ())
    assert [encode(Message(_role(e.kind), e.blocks, e.bare, e.extra)) for e in entries] == [[message] for message in talk]


def test_z3_a_role_that_is_none_of_the_apis_is_named() -> None:
    with pytest.raises(ValueError, match="role is 'ipython', not one of user, assistant, system"):
        decode({"role": "ipython", "content": "x"})


def test_i1_results_go_out_as_tool_messages_before_the_rest() -> None:
    assert encode(Message("user", (ToolResult("a", "1"), ToolResult("b", (Text("2"),)), Text("and")))) == [
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "2"}]},
        {"role": "user", "content": [{"type": "text", "text": "and"}]},
    ]


def test_m2_a_cleared_result_goes_out_with_the_new_text() -> None:
    (block,) = decode({"role": "tool", "tool_call_id": "c", "content": None, "name": "f"}).blocks
    assert isinstance(block, ToolResult)
    cleared = ToolResult(block.tool_use_id, "cleared", False, block.extra)
    assert encode(Message("user", (cleared,))) == [{"role": "tool", "tool_call_id": "c", "content": "cleared", "name": "f"}]


def test_z3_a_message_becomes_blocks() -> None:
    message = decode({"role": "assistant", "content": "so", "reasoning_content": "why", "tool_calls": [CALL]})
    assert message.blocks == (Thinking("why"), Text("so"), ToolUse("c", "f", {"a": 1}))
    picture = decode({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]})
    assert picture.blocks == (Image({"type": "base64", "media_type": "image/png", "data": "AAAA"}),)


def test_i1_the_older_function_call_pairs_by_its_name() -> None:
    call = decode({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}).blocks[0]
    answer = decode({"role": "function", "name": "f", "content": "x"}).blocks[0]
    assert isinstance(call, ToolUse) and isinstance(answer, ToolResult)
    assert call.id == answer.tool_use_id == "f"


# --- files


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_z3_a_file_is_recognised_by_its_content_and_by_no_other_reader(path: Path) -> None:
    assert openai_chat.recognises(Source(path))
    assert not any(module.recognises(Source(path)) for module in (codex, responses, langchain))


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
        [{"role": "system", "content": "x"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}],
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}], "system": "x"},
        {"trajectory_format": "mini-swe-agent-1.1", "messages": [{"role": "system", "content": "x"}]},
        {"info": {"exit_status": "Submitted"}, "messages": [{"role": "system", "content": "x"}]},
        {"sessionId": "a", "messages": [{"role": "system", "content": "x"}]},
        {"messages": [{"role": ["user"], "content": "x"}]},
        {"messages": []},
        [{"type": "message", "role": "system", "content": "x"}],
    ],
)
def test_z3_what_belongs_to_another_reader_is_not_recognised(value: Any, tmp_path: Path) -> None:
    assert not openai_chat.recognises(written(tmp_path, value))


def test_z3_a_list_is_read_one_entry_a_message() -> None:
    transcript = openai_chat.read(Source(LIST))
    entries = list(transcript.main.log.entries())
    assert [e.kind for e in entries] == ["system", "user", "assistant", "user", "assistant", "user", "assistant", "user"]
    assert [e.line for e in entries] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [normal(encode(Message(_role(e.kind), e.blocks, e.bare, e.extra))) for e in entries] == [normal([m]) for m in _load(LIST)]
    found = pair(entries)
    assert (len(found.pairs), found.orphans, found.unanswered, found.open) == (3, (), (), ())


def _role(kind: str) -> Any:
    return kind


def test_t2_the_reply_of_a_logged_call_is_the_last_entry_and_has_the_usage() -> None:
    transcript = openai_chat.read(Source(LOG))
    main, raw = transcript.conversations
    last = list(main.log.entries())[-1]
    assert (last.kind, last.usage) == ("assistant", Usage(input=180, cache_read=9024, output=79))
    assert (last.api_id, last.model, last.time) == ("819ebc5d-01ff-4a72-8b8d-96ff18473de5", "litellm_proxy/deepseek-chat", 1757015069.0)
    assert [e.usage for e in main.log.entries()][:-1] == [None] * 4
    assert [tool["type"] for tool in main.log.head.tools] == ["function"]
    assert main.log.head.extra["cost"] == 0.00076718
    assert (main.kind, raw.kind, raw.name, len(raw.log)) == ("main", "sample", "raw_messages", 5)


def test_t2_a_reply_that_is_in_the_list_already_is_not_there_twice(tmp_path: Path) -> None:
    reply = {"role": "assistant", "content": "y"}
    log = {
        "messages": [{"role": "user", "content": "x"}, reply],
        "response": {"choices": [{"message": reply}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
    }
    entries = list(openai_chat.read(written(tmp_path, log)).main.log.entries())
    assert [(e.kind, e.usage) for e in entries] == [("user", None), ("assistant", Usage(input=5, output=2))]


def test_z3_a_results_file_gives_all_its_conversations_with_names(tmp_path: Path) -> None:
    (one,) = openai_chat.read(Source(TAU_ONE)).conversations
    assert (one.kind, one.name, len(one.log)) == ("sample", "task 0, trial 0", 12)
    assert one.log.head.extra["reward"] == 0.0
    several = [*_load(TAU_LIST), _load(TAU_ONE)]
    found = openai_chat.read(written(tmp_path, several)).conversations
    assert [(c.kind, c.name, len(c.log)) for c in found] == [("sample", "task 2, trial 2", 8), ("sample", "task 0, trial 0", 12)]
    nested = openai_chat.read(written(tmp_path, {"results": several})).conversations
    assert [c.log for c in nested] == [c.log for c in found]


def test_i10_repeated_tool_ids_stay_as_they_came_and_pair_by_place() -> None:
    (conversation,) = openai_chat.read(Source(TAU_LIST)).conversations
    entries = list(conversation.log.entries())
    ids = [block.id for entry in entries for block in entry.blocks if isinstance(block, ToolUse)]
    assert len(ids) == 3 and len(set(ids)) < 3
    found = pair(entries)
    assert (len(found.pairs), found.orphans, found.unanswered) == (3, (), ())


def test_z3_json_lines_of_messages_are_one_conversation_and_of_requests_are_samples(tmp_path: Path) -> None:
    lines = tmp_path / "chat.jsonl"
    lines.write_text("".join(json.dumps(message) + "\n" for message in _load(LIST)), encoding="utf-8")
    assert openai_chat.recognises(Source(lines))
    assert openai_chat.read(Source(lines)).main.log == openai_chat.read(Source(LIST)).main.log
    lines.write_text("".join(json.dumps({"messages": _load(LIST)[:n]}) + "\n" for n in (2, 3)), encoding="utf-8")
    assert openai_chat.recognises(Source(lines))
    assert [(c.kind, c.name, len(c.log)) for c in openai_chat.read(Source(lines)).conversations] == [("sample", "1", 2), ("sample", "2", 3)]


def test_z3_a_document_on_one_line_is_read_as_one(tmp_path: Path) -> None:
    for path in FILES:
        one = tmp_path / path.name
        one.write_text(json.dumps(_load(path)), encoding="utf-8")
        assert openai_chat.recognises(Source(one))
        assert [c.log for c in openai_chat.read(Source(one)).conversations] == [c.log for c in openai_chat.read(Source(path)).conversations]


def test_z3_a_message_that_cannot_be_read_is_listed_or_in_strict_mode_refused(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(
        json.dumps([{"role": "system", "content": "x"}, {"role": "ghost"}, 7, {"role": "user", "content": "y"}], indent=1), encoding="utf-8"
    )
    transcript = openai_chat.read(Source(path))
    assert [bad.line for bad in transcript.bad_lines] == [2, 3]
    assert [e.line for e in transcript.main.log.entries()] == [1, 4]
    with pytest.raises(BadLineError, match=r"chat\.json:2: a message whose role is 'ghost'"):
        openai_chat.read(Source(path, strict=True))


def test_z3_a_file_without_a_message_is_refused_by_name(tmp_path: Path) -> None:
    assert "no message in it" in refused(openai_chat.read, written(tmp_path, {"messages": [{"role": "ghost"}]}))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_z3_damaged_files_are_read_or_refused_never_a_crash(path: Path, tmp_path: Path) -> None:
    assert only_input_errors(openai_chat.read, path, tmp_path, 80, recognises=openai_chat.recognises) > 15
