"""Gemini CLI sessions: the document and the journal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fivefold.core.entries import Entry, Fold, HideSpan, Usage
from fivefold.core.messages import Image, Opaque, Text, Thinking, ToolResult, ToolUse
from fivefold.core.transcript import Conversation
from fivefold.core.view import view_of
from fivefold.errors import BadLineError, InputError
from fivefold.formats import gemini_cli
from fivefold.formats.source import Source

from .mutate import only_input_errors

DATA = Path(__file__).parent.parent / "data" / "gemini_cli"
HEADER = {"sessionId": "s1", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z", "kind": "main", "directories": ["/p"]}


def journal(path: Path, *records: object) -> Source:
    file = path / "session.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in (HEADER, *records)), encoding="utf-8")
    return Source(file)


def said(id: str, type: str, content: object, **more: object) -> dict[str, object]:
    return {"id": id, "timestamp": "2026-01-01T00:00:01Z", "type": type, "content": content, **more}


def texts(conversation: Conversation) -> list[tuple[str, str]]:
    return [(e.kind, "".join(b.text for b in e.blocks if isinstance(b, Text))) for e in conversation.log.entries()]


def folds(conversation: Conversation) -> list[Fold]:
    return [placed.fold for placed in conversation.log.folds]


def test_z3_a_recorded_document_is_read_with_calls_results_thoughts_and_notes() -> None:
    source = Source(DATA / "session.json")
    assert gemini_cli.recognises(source)
    read = gemini_cli.read(source)
    entries = list(read.main.log.entries())
    assert read.format == "gemini-cli"
    assert not read.bad_lines
    assert [entry.kind for entry in entries].count("note") == 1
    calls = [block for entry in entries for block in entry.blocks if isinstance(block, ToolUse)]
    results = [block for entry in entries for block in entry.blocks if isinstance(block, ToolResult)]
    assert [call.id for call in calls] == [result.tool_use_id for result in results]
    assert calls[0].name == "write_file"
    assert entries[0].line == 1
    assert entries[1].model == "gemini-2.5-flash"
    assert any(isinstance(block, Thinking) for block in entries[1].blocks)
    assert read.main.log.head.id == "f7633853-6663-4dbb-bbf4-6159afa29df8"


def test_t2_input_holds_the_cached_part_and_is_split_and_thoughts_are_output(tmp_path: Path) -> None:
    tokens = {"input": 100, "output": 10, "cached": 60, "thoughts": 5, "tool": 0, "total": 115}
    read = gemini_cli.read(journal(tmp_path, said("g", "gemini", "x", tokens=tokens)))
    usage = next(read.main.log.entries()).usage
    assert usage == Usage(input=40, cache_read=60, output=15, thinking=5)
    assert usage is not None and usage.size == tokens["total"]


def test_z3_a_message_id_that_comes_again_replaces_it_where_it_first_stood(tmp_path: Path) -> None:
    call = {"id": "c", "name": "ls", "args": {"path": "."}, "status": "executing"}
    done = {**call, "status": "success", "result": [{"functionResponse": {"id": "c", "name": "ls", "response": {"output": "a.txt"}}}]}
    read = gemini_cli.read(
        journal(tmp_path, said("u", "user", "q"), said("g", "gemini", "", toolCalls=[call]), said("g", "gemini", "", toolCalls=[done]))
    )
    user, model, result = read.main.log.entries()
    assert (user.kind, model.kind, result.kind) == ("user", "assistant", "user")
    assert model.blocks == (ToolUse("c", "ls", {"path": "."}),)
    assert result.blocks == (ToolResult("c", "a.txt"),)
    assert model.line == 4
    assert {record.line for record in read.other} == {1, 3}


def test_i1_an_answer_that_has_a_record_of_its_own_is_not_told_twice(tmp_path: Path) -> None:
    answer = {"functionResponse": {"id": "c", "name": "ls", "response": {"output": "a.txt"}}}
    call = {"id": "c", "name": "ls", "args": {}, "status": "success", "result": [answer]}
    read = gemini_cli.read(journal(tmp_path, said("g", "gemini", "", toolCalls=[call]), said("r", "user", [answer])))
    results = [b for e in read.main.log.entries() for b in e.blocks if isinstance(b, ToolResult)]
    assert results == [ToolResult("c", "a.txt")]


@pytest.mark.parametrize(
    ("response", "status", "content", "failed"),
    [
        ({"output": "x"}, "success", "x", False),
        ({"error": "no such file"}, "error", "no such file", True),
        ({"output": "part"}, "cancelled", "part", True),
        ({"rows": [1, 2]}, "success", '{"rows":[1,2]}', False),
    ],
)
def test_z3_what_a_function_answered_is_text_and_failures_are_marked(
    tmp_path: Path, response: object, status: str, content: str, failed: bool
) -> None:
    call = {"id": "c", "name": "t", "args": {}, "status": status, "result": [{"functionResponse": {"response": response}}]}
    read = gemini_cli.read(journal(tmp_path, said("g", "gemini", "", toolCalls=[call])))
    assert list(read.main.log.entries())[1].blocks == (ToolResult("c", content, failed),)


def test_x5_a_rewind_takes_its_message_and_all_behind_it_to_a_branch(tmp_path: Path) -> None:
    read = gemini_cli.read(
        journal(
            tmp_path,
            said("u1", "user", "keep"),
            said("g1", "gemini", "kept"),
            said("u2", "user", "left"),
            said("g2", "gemini", "left too"),
            {"$rewindTo": "u2"},
            said("u3", "user", "after"),
        )
    )
    main, branch = read.conversations
    assert texts(main) == [("user", "keep"), ("assistant", "kept"), ("user", "after")]
    assert texts(branch) == [("user", "left"), ("assistant", "left too")]
    assert branch.kind == "branch"
    assert branch.log.head.extra == {"after": "g1"}


def test_z3_a_rewind_to_what_is_not_there_is_reported_and_takes_nothing_away(tmp_path: Path) -> None:
    source = journal(tmp_path, said("u1", "user", "still here"), {"$rewindTo": "nowhere"})
    read = gemini_cli.read(source)
    assert texts(read.main) == [("user", "still here")]
    assert [bad.line for bad in read.bad_lines] == [3]


def test_k4_a_compression_is_a_fold_and_the_messages_stay_in_the_log(tmp_path: Path) -> None:
    snapshot = said("x1", "user", [{"text": "<state_snapshot>what was done</state_snapshot>"}])
    read = gemini_cli.read(
        journal(
            tmp_path,
            said("u1", "user", "first"),
            said("g1", "gemini", "answer"),
            said("u2", "user", "second"),
            {"$set": {"messages": [snapshot, said("x2", "gemini", "Understood."), said("u2", "user", "second")]}},
            said("g2", "gemini", "more"),
        )
    )
    assert [text for _, text in texts(read.main)] == ["first", "answer", "second", "more"]
    (fold,) = folds(read.main)
    (change,) = fold.changes
    assert isinstance(change, HideSpan)
    assert (change.first, change.last) == ("u1", "g1")
    assert [entry.kind for entry in change.stand_ins] == ["boundary", "user", "assistant"]
    assert change.stand_ins[1].summary and change.stand_ins[1].meta


def test_k4_a_second_compression_hides_the_first_one_whole(tmp_path: Path) -> None:
    first = said("x1", "user", "<state_snapshot>one</state_snapshot>")
    again = said("y1", "user", "<state_snapshot>two</state_snapshot>")
    read = gemini_cli.read(
        journal(
            tmp_path,
            said("u1", "user", "a"),
            said("g1", "gemini", "b"),
            {"$set": {"messages": [first]}},
            said("u2", "user", "c"),
            {"$set": {"messages": [again]}},
            said("u3", "user", "d"),
        )
    )
    second = folds(read.main)[1].changes[0]
    assert isinstance(second, HideSpan)
    assert (second.first, second.last) == ("u1", "u2")


def shown(conversation: Conversation) -> list[str]:
    return ["".join(b.text for b in e.blocks if isinstance(b, Text)) for e in view_of(conversation.log).sent()]


SUMMARY = said("x1", "user", "<state_snapshot>s</state_snapshot>")
TALK = [said(f"m{n}", "gemini" if n % 2 == 0 else "user", f"text {n}") for n in range(1, 5)]


@pytest.mark.parametrize(("target", "left"), [("m3", ["S"]), ("m4", ["S", "text 3"]), ("m5", ["S", "text 3", "text 4"]), ("x1", [])])
def test_x5_a_rewind_to_a_kept_message_leaves_the_compression_before_it(tmp_path: Path, target: str, left: list[str]) -> None:
    compression = {"$set": {"messages": [SUMMARY, *TALK[2:]]}}
    source = journal(tmp_path, *TALK, compression, said("m5", "user", "five"), {"$rewindTo": target}, said("m6", "user", "six"))
    read = gemini_cli.read(source)
    summary = "<state_snapshot>s</state_snapshot>"
    assert shown(read.main) == [*(summary if text == "S" else text for text in left), "six"]
    assert [text for _, text in texts(read.main)] == ["text 1", "text 2", "text 3", "text 4", "six"]
    assert texts(read.conversations[1]) == [("user", "five")]


def test_x5_a_rewind_into_a_list_that_was_given_keeps_what_stands_before_it(tmp_path: Path) -> None:
    given = {"$set": {"messages": [SUMMARY, said("x2", "gemini", "noted"), said("x3", "user", "go on")]}}
    read = gemini_cli.read(journal(tmp_path, *TALK, given, {"$rewindTo": "x3"}, said("m6", "user", "six")))
    assert shown(read.main) == ["<state_snapshot>s</state_snapshot>", "noted", "six"]
    boundaries = [entry for entry in view_of(read.main.log).entries() if entry.kind == "boundary"]
    assert boundaries == []
    assert [fold.why for fold in folds(read.main)] == ["the client compressed the conversation", "the client went back to before a message"]


def test_x5_a_rewind_to_before_a_compression_of_what_is_behind_takes_it_along(tmp_path: Path) -> None:
    given = {"$set": {"messages": [*TALK[:2], SUMMARY]}}
    read = gemini_cli.read(journal(tmp_path, *TALK, given, {"$rewindTo": "m2"}, said("m6", "user", "six")))
    assert shown(read.main) == ["text 1", "six"]
    assert folds(read.main) == []
    assert shown(read.conversations[1]) == ["text 2", "<state_snapshot>s</state_snapshot>"]


def test_z3_an_update_of_a_message_in_a_list_that_was_given_is_shown(tmp_path: Path) -> None:
    given = {"$set": {"messages": [SUMMARY, TALK[1], TALK[0]]}}
    read = gemini_cli.read(journal(tmp_path, *TALK, given, said("m2", "gemini", "new two"), said("x1", "user", "new summary")))
    assert shown(read.main) == ["new summary", "new two", "text 1"]


def test_x5_a_rewind_to_a_note_takes_what_is_shown_behind_it(tmp_path: Path) -> None:
    note = said("i", "info", "switched")
    read = gemini_cli.read(journal(tmp_path, *TALK[:2], note, *TALK[2:], {"$rewindTo": "i"}, said("m6", "user", "six")))
    assert shown(read.main) == ["text 1", "text 2", "six"]
    assert texts(read.conversations[1]) == [("note", "switched"), ("user", "text 3"), ("assistant", "text 4")]
    behind = gemini_cli.read(
        journal(tmp_path, *TALK[:2], note, *TALK[2:], {"$set": {"messages": [SUMMARY, *TALK[2:]]}}, {"$rewindTo": "i"})
    )
    assert shown(behind.main) == ["<state_snapshot>s</state_snapshot>"]


@pytest.mark.parametrize(("target", "said"), [("nowhere", "not in the session"), ("m1", "not shown any more")])
def test_z3_a_rewind_to_what_is_not_shown_is_named_and_takes_nothing(tmp_path: Path, target: str, said: str) -> None:
    read = gemini_cli.read(journal(tmp_path, *TALK, {"$set": {"messages": [SUMMARY, *TALK[2:]]}}, {"$rewindTo": target}))
    assert shown(read.main) == ["<state_snapshot>s</state_snapshot>", "text 3", "text 4"]
    assert [(bad.line, said in bad.why) for bad in read.bad_lines] == [(7, True)]


def test_z3_the_client_s_preamble_is_added_and_is_not_a_person_s(tmp_path: Path) -> None:
    preamble = said("s0", "user", [{"text": "<session_context>\nToday is Monday."}])
    read = gemini_cli.read(journal(tmp_path, {"$set": {"messages": [preamble]}}, said("u", "user", "hello")))
    assert [entry.meta for entry in read.main.log.entries()] == [True, False]
    assert folds(read.main) == []


def test_i6_parts_of_all_kinds_are_kept(tmp_path: Path) -> None:
    parts = [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"text": "see"},
        {"fileData": {"fileUri": "gs://b/f"}},
    ]
    thought = [{"text": "hm", "thought": True, "thoughtSignature": "sig"}, {"functionCall": {"id": "f", "name": "t", "args": {"a": 1}}}]
    read = gemini_cli.read(journal(tmp_path, said("u", "user", parts), said("g", "gemini", thought)))
    user, model = read.main.log.entries()
    assert user.blocks == (
        Image({"type": "base64", "media_type": "image/png", "data": "AAAA"}),
        Text("see"),
        Opaque({"fileData": {"fileUri": "gs://b/f"}}),
    )
    assert model.blocks == (Thinking("hm", "sig"), ToolUse("f", "t", {"a": 1}))


def test_z3_bad_records_are_reported_with_their_line_or_all_refused(tmp_path: Path) -> None:
    source = journal(tmp_path, {"id": 7, "type": "user", "content": "x"}, said("m", "mystery", "x"), said("u", "user", "fine"))
    read = gemini_cli.read(source)
    assert [bad.line for bad in read.bad_lines] == [2, 3]
    with pytest.raises(BadLineError, match=r":2: "):
        gemini_cli.read(Source(source.path, strict=True))


def test_z3_a_session_without_a_message_is_refused_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"session\.jsonl"):
        gemini_cli.read(journal(tmp_path))


def test_z3_the_raw_record_is_kept(tmp_path: Path) -> None:
    read = gemini_cli.read(journal(tmp_path, said("u", "user", "hi", displayContent="hi there")))
    (entry,) = read.main.log.entries()
    assert isinstance(entry, Entry)
    assert json.loads(bytes(entry.raw))["displayContent"] == "hi there"


def test_z3_whatever_is_damaged_nothing_but_an_input_error_escapes(tmp_path: Path) -> None:
    assert only_input_errors(gemini_cli.read, DATA / "session.json", tmp_path, 120, recognises=gemini_cli.recognises) > 20


def test_z3_a_damaged_journal_lets_nothing_but_an_input_error_escape(tmp_path: Path) -> None:
    snapshot = said("x1", "user", "<state_snapshot>s</state_snapshot>")
    kept = said("u2", "user", "c")
    source = journal(
        tmp_path,
        said("u1", "user", "a"),
        said("g1", "gemini", "b"),
        kept,
        {"$set": {"messages": [snapshot, kept]}},
        said("g2", "gemini", "d"),
        {"$set": {"messages": [snapshot, said("n", "user", "put in"), kept]}},
        {"$rewindTo": "n"},
        said("u3", "user", "e"),
        {"$set": {"messages": []}},
        said("u4", "user", "f"),
    )
    folder = tmp_path / "damaged"
    folder.mkdir()
    assert only_input_errors(gemini_cli.read, Path(source.path), folder, 150, recognises=gemini_cli.recognises) > 20
