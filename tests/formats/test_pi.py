"""pi sessions: flat ones, trees, compactions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fivefold.core.entries import Fold, HideSpan, Unfold, Usage
from fivefold.core.messages import Image, RedactedThinking, Text, Thinking, ToolResult, ToolUse
from fivefold.core.transcript import Conversation
from fivefold.core.view import view_of
from fivefold.errors import InputError
from fivefold.formats import pi
from fivefold.formats.source import Source

from .mutate import only_input_errors

DATA = Path(__file__).parent.parent / "data" / "pi"
HEADER = {"type": "session", "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/p", "version": 3}


def session(path: Path, *records: object) -> Source:
    file = path / "session.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in (HEADER, *records)), encoding="utf-8")
    return Source(file)


def node(id: str, parent: str | None, role: str, text: str, **more: object) -> dict[str, object]:
    message = {"role": role, "content": [{"type": "text", "text": text}], **more}
    return {"type": "message", "id": id, "parentId": parent, "timestamp": "2026-01-01T00:00:01Z", "message": message}


def flat(role: str, text: str) -> dict[str, object]:
    record = node("", None, role, text)
    return {key: value for key, value in record.items() if key not in ("id", "parentId")}


def texts(conversation: Conversation) -> list[str]:
    return ["".join(b.text for b in e.blocks if isinstance(b, Text)) for e in conversation.log.entries()]


def test_z3_a_recorded_flat_session_is_read() -> None:
    source = Source(DATA / "session.jsonl")
    assert pi.recognises(source)
    read = pi.read(source)
    entries = list(read.main.log.entries())
    assert not read.bad_lines
    assert entries[0].kind == "user" and entries[0].line == 2
    assert entries[1].kind == "note" and entries[1].blocks == (Text("Request was aborted"),)
    uses = [b.id for e in entries for b in e.blocks if isinstance(b, ToolUse)]
    results = [b.tool_use_id for e in entries for b in e.blocks if isinstance(b, ToolResult)]
    assert uses == results
    assert read.main.log.head.model == "claude-sonnet-4-5"
    assert (read.main.log.head.cwd or "").endswith("/user23/workspaces/pi-mono")
    assert [record.line for record in read.other] == [1, 4]


def test_z3_commands_of_the_user_and_failed_calls_are_told_apart_from_what_was_said() -> None:
    read = pi.read(Source(DATA / "rest.jsonl"))
    entries = list(read.main.log.entries())
    assert [(e.kind, e.meta) for e in entries][-3:] == [("note", False), ("user", True), ("note", False)]
    run = entries[-2].blocks[0]
    assert isinstance(run, Text) and run.text.startswith("$ ls\nAGENTS.md")
    failed = entries[-1].blocks[0]
    assert isinstance(failed, Text) and failed.text.startswith("400 ")


def test_t2_the_four_counts_are_disjoint_and_none_is_no_usage() -> None:
    entries = list(pi.read(Source(DATA / "rest.jsonl")).main.log.entries())
    assert entries[1].usage == Usage(input=2775, output=141)
    assert all(entry.usage is None for entry in entries if entry.kind == "note")


def test_i6_blocks_of_all_kinds(tmp_path: Path) -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
        {"type": "thinking", "thinking": "", "thinkingSignature": "data", "redacted": True},
        {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a"}},
    ]
    answer = {"role": "toolResult", "toolCallId": "c", "toolName": "read", "isError": True}
    picture = {**answer, "content": [{"type": "image", "data": "AA", "mimeType": "image/png"}]}
    read = pi.read(
        session(
            tmp_path,
            {"type": "message", "id": "a", "parentId": None, "message": {"role": "assistant", "content": content, "stopReason": "toolUse"}},
            {"type": "message", "id": "b", "parentId": "a", "message": picture},
        )
    )
    model, result = read.main.log.entries()
    assert model.blocks == (Thinking("hm", "sig"), RedactedThinking("data"), ToolUse("c", "read", {"path": "a"}))
    image = Image({"type": "base64", "media_type": "image/png", "data": "AA"})
    assert result.blocks == (ToolResult("c", (image,), is_error=True),)


def test_k4_an_old_compaction_counts_the_records_of_the_file(tmp_path: Path) -> None:
    compaction = {"type": "compaction", "summary": "so far", "firstKeptEntryIndex": 4, "tokensBefore": 900}
    records = [flat("user", "a"), flat("assistant", "b"), {"type": "model_change", "modelId": "m"}, flat("user", "kept"), compaction]
    read = pi.read(session(tmp_path, *records, flat("assistant", "on")))
    (placed,) = read.main.log.folds
    (change,) = placed.fold.changes
    assert texts(read.main) == ["a", "b", "kept", "on"]
    assert placed.fold.level == "imported" and placed.fold.tokens_before == 900
    assert isinstance(change, HideSpan)
    assert (change.first, change.last) == (None, "line3")
    boundary, summary = change.stand_ins
    assert boundary.boundary is not None and boundary.boundary.kept == ("line5", "line5") and boundary.boundary.covered == "line3"
    assert summary.summary and summary.blocks == (Text("so far"),)


@pytest.mark.parametrize(("kept", "covered"), [("c", "b"), ("gone", "d")])
def test_k4_a_compaction_names_the_first_record_kept_or_keeps_none(tmp_path: Path, kept: str, covered: str) -> None:
    records = [node(id, parent, "user", id) for id, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", "c"))]
    compaction = {"type": "compaction", "id": "x", "parentId": "d", "summary": "s", "firstKeptEntryId": kept, "tokensBefore": 5}
    read = pi.read(session(tmp_path, *records, compaction, node("e", "x", "user", "5")))
    change = read.main.log.folds[0].fold.changes[0]
    assert isinstance(change, HideSpan)
    assert change.last == covered


def test_k4_a_summary_stands_before_what_is_kept_though_that_is_all(tmp_path: Path) -> None:
    def compaction(id: str, parent: str, summary: str, kept: str) -> dict[str, object]:
        return {"type": "compaction", "id": id, "parentId": parent, "summary": summary, "firstKeptEntryId": kept}

    records = [node("a", None, "user", "1"), node("b", "a", "user", "2"), compaction("x", "b", "s", "a"), node("c", "x", "user", "3")]
    read = pi.read(session(tmp_path, *records))
    assert texts(read.main) == ["1", "2", "3"]
    view = list(view_of(read.main.log).entries())
    assert [(entry.kind, entry.blocks) for entry in view] == [
        ("boundary", ()),
        *(("user", (Text(text),)) for text in ("s", "1", "2", "3")),
    ]
    again = pi.read(session(tmp_path, *records, compaction("y", "c", "t", "a")))
    assert [entry.blocks[0] for entry in view_of(again.main.log).sent()] == [Text(text) for text in ("t", "1", "2", "3")]
    later = pi.read(session(tmp_path, *records, compaction("y", "c", "t", "b")))
    assert [entry.blocks[0] for entry in view_of(later.main.log).sent()] == [Text(text) for text in ("t", "2", "3")]


def test_k4_a_compaction_before_any_message_shows_its_summary(tmp_path: Path) -> None:
    compaction = {"type": "compaction", "id": "x", "parentId": None, "summary": "s"}
    read = pi.read(session(tmp_path, compaction, node("a", "x", "user", "1")))
    assert [(entry.kind, entry.summary) for entry in read.main.log.entries()] == [("boundary", False), ("user", True), ("user", False)]


def test_x5_a_compaction_that_keeps_more_than_the_last_one_undoes_it(tmp_path: Path) -> None:
    first = {"type": "compaction", "id": "x", "parentId": "c", "summary": "1", "firstKeptEntryId": "c"}
    second = {"type": "compaction", "id": "y", "parentId": "x", "summary": "2", "firstKeptEntryId": "b"}
    read = pi.read(
        session(tmp_path, node("a", None, "user", "1"), node("b", "a", "assistant", "2"), node("c", "b", "user", "3"), first, second)
    )
    records = list(read.main.log.records())
    assert [type(record) for record in records[3:]] == [Fold, Unfold, Fold]
    assert [placed.fold.id for placed in read.main.log.folds] == ["y"]


def test_x5_the_path_of_the_last_record_is_the_conversation_and_the_others_are_branches(tmp_path: Path) -> None:
    left = {"type": "branch_summary", "id": "bs", "parentId": "a", "fromId": "c", "summary": "tried it"}
    read = pi.read(
        session(
            tmp_path,
            node("a", None, "user", "ask"),
            node("b", "a", "assistant", "first try"),
            node("c", "b", "user", "no"),
            left,
            node("d", "bs", "user", "again"),
            {"type": "session_info", "id": "i", "parentId": "d", "name": "my work"},
        )
    )
    main, branch = read.conversations
    assert texts(main) == ["ask", "tried it", "again"]
    assert main.name == "my work"
    assert texts(branch) == ["first try", "no"]
    assert (branch.kind, branch.log.head.extra) == ("branch", {"after": "a"})


def test_z3_messages_of_extensions_are_not_a_person_s_and_their_state_is_kept_beside(tmp_path: Path) -> None:
    custom = {"type": "custom_message", "id": "b", "parentId": "a", "customType": "x", "content": "injected", "display": False}
    state = {"type": "custom", "id": "c", "parentId": "b", "customType": "x", "data": {"n": 1}}
    read = pi.read(session(tmp_path, node("a", None, "user", "hi"), custom, state))
    assert [entry.meta for entry in read.main.log.entries()] == [False, True]
    assert [record.line for record in read.other] == [1, 4]


def test_h4_records_that_are_each_other_s_parents_end(tmp_path: Path) -> None:
    read = pi.read(session(tmp_path, node("a", "b", "user", "1"), node("b", "a", "assistant", "2")))
    assert sorted(texts(read.main)) == ["1", "2"]


def test_z3_an_unknown_role_is_reported_with_its_line(tmp_path: Path) -> None:
    read = pi.read(session(tmp_path, node("a", None, "user", "1"), node("b", "a", "robot", "2")))
    assert [bad.line for bad in read.bad_lines] == [3]


def test_z3_a_session_without_a_message_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no message"):
        pi.read(session(tmp_path))


@pytest.mark.parametrize("name", ["session.jsonl", "rest.jsonl"])
def test_z3_whatever_is_damaged_nothing_but_an_input_error_escapes(tmp_path: Path, name: str) -> None:
    assert only_input_errors(pi.read, DATA / name, tmp_path, 120, recognises=pi.recognises) > 20
