"""Message lists of Anthropic's API (Z3, Z4): what is read can be written back as it was (I6)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.entries import Usage
from fivefold.core.messages import Opaque, Text, ToolUse
from fivefold.core.repair import outgoing
from fivefold.core.transcript import Transcript
from fivefold.core.view import view_of
from fivefold.errors import InputError
from fivefold.formats import anthropic, claude_code
from fivefold.formats.anthropic_messages import decode, encode
from fivefold.formats.common import Ids
from fivefold.formats.source import Source

from .mutate import only_input_errors, refused, written

PLAYGROUND = Path(__file__).parent.parent / "data" / "anthropic" / "playground.jsonl"

TALK: list[Any] = [
    {"role": "user", "content": "Read a.py"},
    {
        "role": "assistant",
        "id": "msg_1",
        "model": "claude-x",
        "usage": {"input_tokens": 9, "output_tokens": 4},
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "text", "text": "Reading.", "cache_control": {"type": "ephemeral"}},
            {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a.py"}, "caller": {"type": "direct"}},
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "x = 1"}], "is_error": False}],
    },
    {"role": "assistant", "content": "Done.", "stop_reason": None},
]
PLAIN: list[Any] = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
ODD: list[Any] = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": None},
    {"role": "user", "content": []},
    {"role": "assistant", "content": ["loose", {"type": "from_next_year", "x": [1]}, 7, None]},
    {"role": "user", "content": {"type": "text", "text": "not in a list"}},
    {"role": "assistant"},
    {"role": "user", "content": ""},
    {"role": "assistant", "content": [{"type": "text", "text": ""}]},
    {"role": "user", "content": 3, "name": "n", "meta": {"a": None}},
]
REQUEST: Any = {
    "model": "claude-x",
    "max_tokens": 100,
    "system": "Be brief.",
    "tools": [{"name": "Read", "input_schema": {}}],
    "messages": TALK,
    "metadata": None,
}

DOCUMENTS: dict[str, Any] = {
    "a list": TALK,
    "text only": PLAIN,
    "odd content": ODD,
    "a request": REQUEST,
    "system as blocks, no tools": {
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "tools": [],
        "messages": PLAIN,
    },
    "system of another type": {"system": None, "model": 5, "tools": "none", "messages": PLAIN},
    "empty system": {"system": [], "messages": PLAIN},
    "results": [{"task_id": 1, "reward": 0.5, "traj": TALK}, {"task_id": 2, "traj": PLAIN}, {"task_id": 3, "error": "crashed"}],
    "grouped results": {"run": "x", "results": [{"id": "a", "messages": TALK}, "note"], "total": 1},
    "conversations": {"conversations": [TALK, PLAIN]},
    "lists in a list": [TALK, PLAIN],
    "system role with tool blocks": [{"role": "system", "content": "s"}, *TALK],
}


def lines(folder: Path, values: list[Any]) -> Source:
    path = folder / "file.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return Source(path)


def read(source: Source) -> Transcript:
    assert anthropic.recognises(source)
    return anthropic.read(source)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_i6_a_document_is_written_back_as_it_was(name: str, tmp_path: Path) -> None:
    assert anthropic.encode(read(written(tmp_path, DOCUMENTS[name]))) == DOCUMENTS[name]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_i6_a_document_on_one_line_is_written_back_as_it_was(name: str, tmp_path: Path) -> None:
    assert anthropic.encode(read(lines(tmp_path, [DOCUMENTS[name]]))) == [DOCUMENTS[name]]


@pytest.mark.parametrize(
    "values",
    [
        [REQUEST, {"messages": PLAIN, "id": "b"}],
        TALK,
        [{"type": m["role"], "timestamp": f"2026-01-01T00:00:0{n}Z", "message": m} for n, m in enumerate(TALK)],
        [TALK, PLAIN],
    ],
    ids=["requests", "messages", "envelopes", "lists"],
)
def test_i6_json_lines_are_written_back_as_they_were(values: list[Any], tmp_path: Path) -> None:
    assert anthropic.encode(read(lines(tmp_path, values))) == values


def test_z3_a_list_is_one_conversation(tmp_path: Path) -> None:
    found = read(written(tmp_path, TALK))
    entries = list(found.main.log.entries())
    assert [(e.kind, e.line, e.bare) for e in entries] == [
        ("user", 1, True),
        ("assistant", 2, False),
        ("user", 3, False),
        ("assistant", 4, True),
    ]
    assert (entries[1].api_id, entries[1].model, entries[1].usage) == ("msg_1", "claude-x", Usage(input=9, output=4))
    assert isinstance(entries[1].blocks[2], ToolUse)
    assert found.main.kind == "main"


def test_i6_what_only_a_response_has_is_kept_apart_from_what_goes_into_a_request(tmp_path: Path) -> None:
    response = {"id": "msg_1", "type": "message", "model": "m", "usage": {"input_tokens": 1}, "stop_reason": "end_turn"}
    answer = {
        **response,
        "role": "assistant",
        "content": "hello",
        "stop_sequence": None,
        "container": None,
        "context_management": {},
        "own": 1,
    }
    talk = [{"role": "user", "content": "hi", "id": "u"}, {**answer, "stop_details": None}]
    for source in (written(tmp_path, talk), lines(tmp_path, [{"type": m["role"], "message": m} for m in talk])):
        found = read(source)
        assert [entry.extra for entry in found.main.log.entries()] == [{"id": "u"}, {"own": 1}]
        (request,) = outgoing(list(found.main.log.entries())).messages[1:]
        assert request.extra == {"own": 1}
    assert anthropic.encode(read(written(tmp_path, talk))) == talk


def test_z4_a_transcript_of_another_format_gives_messages_without_its_own_records_keys(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    message = {"role": "assistant", "id": "msg_1", "usage": {"input_tokens": 1}, "content": [{"type": "text", "text": "hello"}]}
    line = {"type": "assistant", "uuid": "a", "parentUuid": None, "message": message}
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert anthropic.encode(claude_code.read(Source(path))) == [{"role": "assistant", "content": message["content"]}]


def test_z3_a_request_keeps_system_tools_and_model_in_its_head(tmp_path: Path) -> None:
    head = read(written(tmp_path, REQUEST)).main.log.head
    assert (head.model, head.system, head.tools) == ("claude-x", (Text("Be brief."),), ({"name": "Read", "input_schema": {}},))
    assert head.extra == {"max_tokens": 100, "metadata": None}


def test_z3_a_results_file_holds_several_conversations(tmp_path: Path) -> None:
    found = read(written(tmp_path, DOCUMENTS["results"]))
    assert [(c.kind, c.name, len(c.log)) for c in found.conversations] == [("sample", "task_id 1", 4), ("sample", "task_id 2", 2)]


def test_z3_lines_in_envelopes_are_one_conversation(tmp_path: Path) -> None:
    found = read(Source(PLAYGROUND))
    entries = list(found.main.log.entries())
    assert [e.line for e in entries] == list(range(1, 25))
    assert entries[0].time is not None
    assert entries[2].usage == Usage(input=4, output=180, cache_write=900, cache_read=41000)
    assert anthropic.encode(found) == [json.loads(line) for line in PLAYGROUND.read_bytes().splitlines()]


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "system", "content": "s"}, *PLAIN],
        [*PLAIN, {"role": "tool", "content": "x", "tool_call_id": "c"}],
        [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}],
        [{"role": "developer", "content": "x"}],
        [{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": []}],
        [{"role": "user", "content": "x", "ts": 1_783_000_000_000}],
        {"messages": PLAIN, "trajectory_format": "mini-swe-agent-1.1"},
        {"eval": {}, "samples": [{"messages": PLAIN}]},
        {"role": "user"},
        [1, 2],
        [],
        {},
    ],
)
def test_z3_other_shapes_are_not_taken(value: Any, tmp_path: Path) -> None:
    assert not anthropic.recognises(written(tmp_path, value))
    assert not anthropic.recognises(lines(tmp_path, [value]))


def test_z3_claude_code_lines_are_not_taken(tmp_path: Path) -> None:
    assert not anthropic.recognises(lines(tmp_path, [{"type": "user", "uuid": "u", "parentUuid": None, "message": PLAIN[0]}]))


def test_z4_the_view_can_be_written_in_place_of_what_was_said(tmp_path: Path) -> None:
    found = read(written(tmp_path, {"messages": PLAIN, "id": "x"}))
    kept = list(view_of(found.main.log).entries())[-1:]
    assert anthropic.encode(found, lambda _: kept) == {"messages": PLAIN[1:], "id": "x"}
    enveloped = read(Source(PLAYGROUND))
    document = anthropic.encode(enveloped, lambda c: list(c.log.entries())[:2])
    assert document == [json.loads(line) for line in PLAYGROUND.read_bytes().splitlines()][:2]


def test_items_that_are_no_messages_are_listed(tmp_path: Path) -> None:
    found = read(written(tmp_path, [*TALK, None, {"role": 5, "content": "x"}]))
    assert [bad.line for bad in found.bad_lines] == [5, 6]
    assert anthropic.encode(found) == TALK


def test_lines_that_are_no_messages_are_kept_aside(tmp_path: Path) -> None:
    source = lines(tmp_path, [*PLAIN, {"type": "summary", "text": "x"}])
    source.bad_lines.clear()
    with Path(source.path).open("a", encoding="utf-8") as file:
        file.write('"a string"\n{"role": "user", "cont')
    found = read(source)
    assert [other.line for other in found.other] == [3]
    assert [bad.line for bad in found.bad_lines] == [4, 5]
    assert anthropic.encode(found) == [*PLAIN, {"type": "summary", "text": "x"}]


def test_a_file_without_messages_is_refused_by_name(tmp_path: Path) -> None:
    assert "no message in it that can be read (as anthropic)" in refused(anthropic.read, written(tmp_path, {"messages": []}))


def test_reminders_are_told_apart_from_what_a_person_said(tmp_path: Path) -> None:
    found = read(written(tmp_path, [{"role": "user", "content": "<system-reminder>x</system-reminder>"}, *PLAIN]))
    assert [e.meta for e in found.main.log.entries()] == [True, False, False]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "id", "name", "input", "content", "tool_use_id", "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)
BLOCKS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document", "compaction", "new"]
        )
    },
    optional=dict.fromkeys(
        ("text", "thinking", "signature", "data", "id", "name", "input", "tool_use_id", "content", "is_error", "source", "cache_control"),
        JSON_VALUES,
    ),
)


@given(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system"])},
        optional={
            "content": st.text(max_size=5) | st.lists(BLOCKS | JSON_VALUES, max_size=4) | JSON_VALUES,
            "id": JSON_VALUES,
            "usage": JSON_VALUES,
            "stop_reason": JSON_VALUES | st.sampled_from([2**70, float("inf")]),
            "message": JSON_VALUES,
            "x": JSON_VALUES,
        },
    )
)
def test_i6_every_message_comes_back_as_it_was(message: dict[str, Any]) -> None:
    entry = decode(message, Ids("m"), 1)
    assert entry is not None
    assert encode(entry) == message


def test_i6_content_that_is_one_string_is_apart_from_one_text_block() -> None:
    for content in ("x", [{"type": "text", "text": "x"}], ["x"], {"type": "text"}):
        entry = decode({"role": "user", "content": content}, Ids(), 1)
        assert entry is not None and encode(entry)["content"] == content
    assert isinstance(entry.blocks[0], Opaque)


def test_h4_damaged_copies_raise_nothing_but_input_errors(tmp_path: Path) -> None:
    assert only_input_errors(anthropic.read, PLAYGROUND, tmp_path, 300, recognises=anthropic.recognises) > 100
    document = written(tmp_path, DOCUMENTS["grouped results"], "whole.json")
    folder = tmp_path / "copies"
    folder.mkdir()
    assert only_input_errors(anthropic.read, Path(document.path), folder, 300, recognises=anthropic.recognises) > 20


def test_a_file_that_is_not_json_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{\n "messages": [\n {"role": "user" "content"}]}', encoding="utf-8")
    with pytest.raises(InputError, match=r"broken\.json:3"):
        anthropic.read(Source(path))
