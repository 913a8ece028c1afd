"""The reader of Codex rollouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fivefold.core.entries import Entry, Fold, HideSpan, Usage
from fivefold.core.log import Log
from fivefold.core.messages import Compaction, ServerToolUse, Text, Thinking, ToolResult, ToolUse
from fivefold.core.pairing import pair, rounds
from fivefold.core.transcript import Transcript
from fivefold.core.view import view_of
from fivefold.errors import BadLineError
from fivefold.formats import codex, langchain, openai_chat, responses
from fivefold.formats.source import Source

from .mutate import only_input_errors, refused

DATA = Path(__file__).parents[1] / "data" / "codex"
COMPACTED = DATA / "compaction.jsonl"
INTERRUPTED = DATA / "interrupted.jsonl"
FILES = [COMPACTED, INTERRUPTED]


def _read(path: Path) -> Transcript:
    return codex.read(Source(path))


def _entries(path: Path) -> list[Entry]:
    return list(_read(path).main.log.entries())


def _fold(log: Log) -> tuple[Fold, HideSpan]:
    (fold,) = (record for record in log.records() if isinstance(record, Fold))
    (span,) = fold.changes
    assert isinstance(span, HideSpan)
    return fold, span


def _item(**payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-06-30T08:00:00.000Z", "type": "response_item", "payload": payload}


def _said(role: str, text: str) -> dict[str, Any]:
    return _item(type="message", role=role, content=[{"type": "output_text" if role == "assistant" else "input_text", "text": text}])


def _called(id: str) -> dict[str, Any]:
    return _item(type="function_call", call_id=id, name="shell", arguments="{}")


def _answered(id: str) -> dict[str, Any]:
    return _item(type="function_call_output", call_id=id, output="ok")


def _tokens(total: int, fresh: int, cached: int = 0, output: int = 1, **last: int) -> dict[str, Any]:
    counts = {"input_tokens": fresh + cached, "cached_input_tokens": cached, "output_tokens": output, **last}
    info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": counts, "model_context_window": 258400}
    return {"timestamp": "2026-06-30T08:00:01.000Z", "type": "event_msg", "payload": {"type": "token_count", "info": info}}


def _written(folder: Path, *records: Any) -> Path:
    path = folder / "rollout.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


# --- recognising


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_z3_a_rollout_is_recognised_by_its_content_and_by_no_other_reader(path: Path) -> None:
    assert codex.recognises(Source(path))
    assert not any(module.recognises(Source(path)) for module in (responses, openai_chat, langchain))


def test_z3_other_json_lines_are_not_recognised(tmp_path: Path) -> None:
    assert not codex.recognises(Source(_written(tmp_path, {"type": "user", "message": {"role": "user", "content": "x"}})))
    assert not codex.recognises(Source(_written(tmp_path, {"type": ["list"], "payload": {}})))
    assert not codex.recognises(
        Source(_written(tmp_path, {"id": "a", "timestamp": "b", "instructions": None}, {"type": "human", "content": "x"}))
    )


# --- nothing is lost


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_z3_every_line_is_an_entry_a_fold_or_another_record_and_is_kept_as_it_came(path: Path) -> None:
    transcript = _read(path)
    records = list(transcript.main.log.records())
    kept = {record.line: bytes(record.raw) for record in records if isinstance(record, Entry | Fold)}
    kept |= {record.line: record.raw for record in transcript.other}
    assert kept == dict(enumerate(path.read_bytes().splitlines(), 1))
    assert len(records) + len(transcript.other) == len(kept)
    assert transcript.bad_lines == ()


def test_z3_items_become_entries_and_events_that_repeat_them_do_not() -> None:
    entries = _entries(INTERRUPTED)
    assert [entry.kind for entry in entries] == [
        *("system", "user", "user", "system"),
        *("assistant", "assistant", "assistant", "assistant", "user", "user"),
        *("assistant", "user", "note"),
    ]
    assert [type(block) for entry in entries for block in entry.blocks if entry.kind == "assistant"] == [
        Thinking,
        Text,
        ToolUse,
        ToolUse,
        Thinking,
    ]
    assert not pair(entries).orphans and not pair(entries).unanswered


def test_z3_the_head_has_the_instructions_the_model_and_its_window() -> None:
    head = _read(COMPACTED).main.log.head
    assert (head.id, head.model) == ("019f17a5-6d3f-7470-9097-c70f6cefe936", "gpt-5.5")
    assert head.cwd == json.loads(COMPACTED.read_bytes().splitlines()[0])["payload"]["cwd"]
    assert isinstance(head.system[0], Text) and head.system[0].text.startswith("You are Codex")
    assert head.window == 258400
    assert head.extra["cli_version"] == "0.142.4"


def test_z3_what_codex_wrote_is_told_from_what_a_person_said() -> None:
    entries = _entries(COMPACTED)
    said = [entry.blocks[0] for entry in entries if entry.kind == "user" and not entry.meta and not isinstance(entry.blocks[0], ToolResult)]
    typed = [json.loads(line)["payload"] for line in COMPACTED.read_bytes().splitlines() if b'"user_message"' in line]
    assert [block.text for block in said if isinstance(block, Text)] == [event["message"] for event in typed]
    assert all(entry.meta for entry in entries if entry.kind == "system")


@pytest.mark.parametrize(
    ("text", "meta"),
    [
        ("<environment_context>\n  <cwd>/a</cwd>", True),
        ("# AGENTS.md instructions for /a\n", True),
        ("<turn_aborted>\nThe user interrupted", True),
        ("<div>why is this red?</div>", False),
        ("# AGENTS.md is missing, write one", False),
    ],
)
def test_z3_a_user_message_is_the_harness_by_how_it_begins(tmp_path: Path, text: str, meta: bool) -> None:
    (entry,) = _entries(_written(tmp_path, _said("user", text)))
    assert entry.meta is meta


def test_z3_a_message_from_another_agent_is_a_user_message_of_the_harness(tmp_path: Path) -> None:
    word = _item(type="agent_message", author="/lead", recipient="/lead/a", content=[{"type": "input_text", "text": "Task: look"}])
    (entry,) = _entries(_written(tmp_path, word))
    assert (entry.kind, entry.meta, entry.blocks) == ("user", True, (Text("Task: look"),))


def test_z3_interruptions_and_errors_are_notes_with_their_reason(tmp_path: Path) -> None:
    assert [entry.blocks for entry in _entries(COMPACTED) if entry.kind == "note"] == [(Text("The turn was aborted: interrupted"),)]
    error = {"type": "event_msg", "payload": {"type": "error", "message": "usage limit"}}
    assert _entries(_written(tmp_path, _said("user", "x"), error))[1].blocks == (Text("Error: usage limit"),)


def test_z3_a_snapshot_of_the_work_tree_is_no_entry(tmp_path: Path) -> None:
    transcript = _read(_written(tmp_path, _said("user", "x"), _item(type="ghost_snapshot", ghost_commit={"id": "a"})))
    assert len(transcript.main.log) == 1
    assert [record.line for record in transcript.other] == [2]


# --- responses and usage


def test_t2_usage_is_disjoint_and_stands_once_on_the_last_entry_of_its_response() -> None:
    entries = _entries(COMPACTED)
    calls = [entry for entry in entries if entry.api_id == "response-1"]
    assert [type(entry.blocks[0]) for entry in calls] == [Thinking, Text, ToolUse, ToolUse, ToolUse, ToolUse]
    assert [entry.usage for entry in calls[:-1]] == [None] * 5
    assert calls[-1].usage == Usage(input=19704 - 4480, cache_read=4480, output=597, thinking=268)
    assert all(entry.model == "gpt-5.5" for entry in calls)


def test_t2_a_count_before_the_answers_and_one_behind_them_belong_to_the_same_response(tmp_path: Path) -> None:
    before = [_said("user", "x"), _called("a"), _called("b"), _tokens(10, 9), _answered("a"), _answered("b")]
    behind = [_said("user", "x"), _called("a"), _called("b"), _answered("a"), _answered("b"), _tokens(10, 9)]
    for records in (before, behind):
        entries = _entries(_written(tmp_path, *records))
        assert [entry.usage and entry.usage.size for entry in entries] == [None, None, 10, None, None]


def test_t2_a_repeated_count_and_one_without_info_say_nothing(tmp_path: Path) -> None:
    empty = {"type": "event_msg", "payload": {"type": "token_count", "info": None}}
    records = [
        _said("user", "x"),
        _called("a"),
        _tokens(10, 9),
        _answered("a"),
        empty,
        _tokens(10, 9),
        _said("assistant", "y"),
        _tokens(10, 9),
    ]
    entries = _entries(_written(tmp_path, *records))
    assert [entry.usage and entry.usage.size for entry in entries] == [None, 10, None, None]


def test_t2_adjacent_responses_are_parted_by_a_new_count_and_only_by_that(tmp_path: Path) -> None:
    records = [
        _said("user", "x"),
        _said("assistant", "a"),
        _tokens(10, 9),
        _tokens(10, 9),
        _said("assistant", "b"),
        _said("assistant", "c"),
        _tokens(22, 11),
    ]
    entries = _entries(_written(tmp_path, *records))
    assert [entry.api_id for entry in entries] == [None, "response-1", "response-2", "response-2"]
    assert [(each.start, each.stop) for each in rounds(entries)] == [(0, 1), (1, 2), (2, 4)]
    assert [entry.usage and entry.usage.size for entry in entries] == [None, 10, None, 12]


# --- rollback, and what agents tell each other


def _rolled_back(turns: int) -> dict[str, Any]:
    return {"timestamp": "2026-06-30T08:00:03.000Z", "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": turns}}


def _shown(path: Path) -> list[str]:
    log = _read(path).main.log
    return [b.text for entry in view_of(log).entries() if entry.kind != "note" for b in entry.blocks if isinstance(b, Text)]


TURNS = [
    _said("user", "<environment_context>\n</environment_context>"),
    _said("user", "one"),
    _said("assistant", "a"),
    _said("user", "two"),
    _said("user", "<turn_aborted>\n</turn_aborted>"),
    _called("c"),
    _answered("c"),
    _said("user", "three"),
    _said("assistant", "b"),
]


@pytest.mark.parametrize(("turns", "kept"), [(0, 6), (1, 5), (2, 3), (3, 1), (9, 1)])
def test_x5_a_rollback_hides_the_last_turns_and_no_more_than_there_are(tmp_path: Path, turns: int, kept: int) -> None:
    path = _written(tmp_path, *TURNS, _rolled_back(turns), _said("user", "else"))
    said = ["<environment_context>\n</environment_context>", "one", "a", "two", "<turn_aborted>\n</turn_aborted>", "three", "b"]
    assert _shown(path) == [*(said if not turns else said[:kept]), "else"]
    log = _read(path).main.log
    assert [fold.fold.level for fold in log.folds] == (["imported"] if turns else [])
    (note,) = (entry for entry in log.entries() if entry.kind == "note")
    assert note.blocks == (Text(f"Rolled back {turns} turn{'' if turns == 1 else 's'}"),)
    assert len(log) == len(TURNS) + 2


def test_x5_a_second_rollback_counts_the_turns_in_view(tmp_path: Path) -> None:
    assert _shown(_written(tmp_path, *TURNS, _rolled_back(1), _said("user", "else"), _rolled_back(2)))[1:] == ["one", "a"]


def test_x5_a_rollback_behind_a_compaction_hides_of_what_stands_in_too(tmp_path: Path) -> None:
    history = [_said("user", text)["payload"] for text in ("one", "two")]
    records = [*TURNS, _compaction(message="", replacement_history=history), _said("user", "four"), _said("assistant", "c")]
    assert _shown(_written(tmp_path, *records, _rolled_back(1))) == ["one", "two"]
    assert _shown(_written(tmp_path, *records, _rolled_back(2))) == ["one"]
    assert _shown(_written(tmp_path, *records, _rolled_back(7), _said("user", "else"))) == ["else"]
    assert _shown(_written(tmp_path, *TURNS, _compaction(message="", replacement_history=history), _rolled_back(1))) == ["one"]


def test_x5_an_older_compaction_behind_a_rollback_keeps_nothing_of_what_was_left(tmp_path: Path) -> None:
    records = [*TURNS, _rolled_back(2), _compaction(message="s1"), _said("user", "four"), _rolled_back(1), _compaction(message="s2")]
    assert _shown(_written(tmp_path, *records)) == ["<environment_context>\n</environment_context>", "one", "s2"]


def test_z3_what_another_agent_sent_is_shown_and_is_not_a_persons(tmp_path: Path) -> None:
    sent = {"author": "lead", "recipient": "other", "content": "Look at the tests", "trigger_turn": True}
    about = {"type": "inter_agent_communication_metadata", "payload": {"trigger_turn": True}}
    transcript = _read(_written(tmp_path, _said("user", "x"), {"type": "inter_agent_communication", "payload": sent}, about))
    entry = list(transcript.main.log.entries())[1]
    assert (entry.kind, entry.meta, entry.blocks, entry.line) == ("user", True, (Text("Look at the tests"),), 2)
    assert [record.line for record in transcript.other] == [3]


# --- compaction


def test_x5_a_compaction_hides_all_before_it_and_shows_what_codex_put_there() -> None:
    log = _read(COMPACTED).main.log
    fold, span = _fold(log)
    at = log.folds[0].at
    assert (span.first, log.position(span.last), fold.level) == (None, at - 1, "imported")
    recorded = json.loads(bytes(fold.raw))["payload"]["replacement_history"]
    boundary, *rest = span.stand_ins
    assert (boundary.kind, boundary.boundary and boundary.boundary.covered) == ("boundary", span.last)
    texts = [block.text for entry in rest for block in entry.blocks if isinstance(block, Text)]
    assert texts == [part["text"] for item in recorded for part in item["content"]]
    shown = list(view_of(log).entries())
    assert shown[: len(span.stand_ins)] == list(span.stand_ins)
    assert len(shown) == len(log) - at + len(span.stand_ins)


def test_t2_sizes_around_a_compaction_are_the_last_usage_and_codex_estimate() -> None:
    fold, span = _fold(_read(COMPACTED).main.log)
    assert (fold.tokens_before, fold.tokens_after) == (231997, 19845)
    boundary = span.stand_ins[0].boundary
    assert boundary is not None and (boundary.tokens_before, boundary.tokens_after) == (231997, 19845)


def _compaction(**payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-06-30T08:00:02.000Z", "type": "compacted", "payload": payload}


def test_e7_the_summary_is_the_providers_item_or_the_message_that_repeats_the_text(tmp_path: Path) -> None:
    item: dict[str, Any] = {"type": "compaction", "encrypted_content": "gAAA"}
    opening = [_said("user", "x"), _said("assistant", "y")]
    _, span = _fold(
        _read(_written(tmp_path, *opening, _compaction(message="", replacement_history=[_said("user", "x")["payload"], item]))).main.log
    )
    assert [entry.summary for entry in span.stand_ins] == [False, False, True]
    assert span.stand_ins[2].blocks == (Compaction(item),)
    history = [_said("user", "x")["payload"], _said("user", "The summary")["payload"]]
    _, span = _fold(_read(_written(tmp_path, *opening, _compaction(message="The summary", replacement_history=history))).main.log)
    assert [(entry.summary, entry.meta) for entry in span.stand_ins[1:]] == [(False, False), (True, True)]


def test_x5_an_older_compaction_keeps_what_persons_said_and_the_summary(tmp_path: Path) -> None:
    records = [
        _said("developer", "<permissions instructions>"),
        _said("user", "<environment_context>\n</environment_context>"),
        _said("user", "o" * 79_000),
        _called("a"),
        _answered("a"),
        _said("user", "then this"),
        _said("user", "n" * 1_000),
        _compaction(message="The summary"),
        _said("assistant", "on we go"),
    ]
    log = _read(_written(tmp_path, *records)).main.log
    _, span = _fold(log)
    texts = [block.text for entry in span.stand_ins for block in entry.blocks if isinstance(block, Text)]
    assert texts == ["<permissions instructions>", "<environment_context>\n</environment_context>", "then this", "n" * 1_000, "The summary"]
    assert [entry.summary for entry in span.stand_ins] == [False] * 5 + [True]
    assert len({entry.id for entry in view_of(log).entries()}) == len(list(view_of(log).entries()))


def test_t2_the_usage_of_a_call_that_compacts_is_the_folds_and_no_responses(tmp_path: Path) -> None:
    records = [
        _said("user", "x"),
        _said("assistant", "y"),
        _tokens(10, 9),
        _tokens(40, 20, 5, 5),
        _compaction(message="s"),
        _tokens(40, 0, 0, 0, total_tokens=7),
    ]
    log = _read(_written(tmp_path, *records)).main.log
    fold, _ = _fold(log)
    assert (fold.usage, fold.tokens_before, fold.tokens_after) == (Usage(input=20, cache_read=5, output=5), 10, 7)
    assert [entry.usage and entry.usage.size for entry in log.entries()] == [None, 10]


def test_x5_a_second_compaction_hides_the_stand_ins_of_the_first(tmp_path: Path) -> None:
    first, second = ([_said("user", text)["payload"]] for text in ("first", "second"))
    records = [
        _said("user", "x"),
        _compaction(replacement_history=first),
        _said("assistant", "y"),
        _compaction(replacement_history=second),
        _said("user", "z"),
    ]
    shown = view_of(_read(_written(tmp_path, *records)).main.log).sent()
    assert [entry.blocks for entry in shown] == [(Text("second"),), (Text("z"),)]


def test_x5_a_compaction_of_nothing_is_what_the_thread_begins_with(tmp_path: Path) -> None:
    history = [_said("user", "before")["payload"], _said("user", "The summary")["payload"]]
    transcript = _read(_written(tmp_path, _compaction(message="The summary", replacement_history=history), _said("user", "x")))
    assert (transcript.main.log.folds, [record.line for record in transcript.other]) == ((), [1])
    assert [(entry.blocks, entry.summary, entry.line) for entry in transcript.main.log.entries()] == [
        ((Text("before"),), False, 1),
        ((Text("The summary"),), True, 1),
        ((Text("x"),), False, 2),
    ]


# --- server-side calls, old rollouts, damage


def test_i8_a_search_by_the_provider_is_a_server_call_in_its_response(tmp_path: Path) -> None:
    search = _item(type="web_search_call", status="completed", action={"type": "search", "query": "q"})
    entries = _entries(_written(tmp_path, _said("user", "x"), search, _said("assistant", "y")))
    assert isinstance(entries[1].blocks[0], ServerToolUse) and entries[1].blocks[0].input == {"type": "search", "query": "q"}
    assert entries[1].api_id == entries[2].api_id


def test_z3_a_rollout_from_before_the_envelope_is_read(tmp_path: Path) -> None:
    head = {"id": "old", "timestamp": "2025-07-01T00:00:00Z", "instructions": "Be brief."}
    records = [head, {"record_type": "state"}, _said("user", "x")["payload"], _called("a")["payload"], _answered("a")["payload"]]
    path = _written(tmp_path, *records)
    assert codex.recognises(Source(path)) and not responses.recognises(Source(path))
    transcript = _read(path)
    assert (transcript.main.log.head.id, transcript.main.log.head.system) == ("old", (Text("Be brief."),))
    assert [entry.kind for entry in transcript.main.log.entries()] == ["user", "assistant", "user"]
    assert [record.line for record in transcript.other] == [1, 2]


def test_z3_lines_that_are_nothing_known_are_listed_by_number(tmp_path: Path) -> None:
    path = _written(tmp_path, _said("user", "x"), {"what": 1}, _item(type=None), 7)
    assert [(bad.line, bad.why) for bad in _read(path).bad_lines] == [
        (2, "neither a rollout line nor an item (its keys: what)"),
        (3, "an item without a type"),
        (4, "a int where an object was expected"),
    ]
    with pytest.raises(BadLineError, match=r"rollout\.jsonl:2: "):
        codex.read(Source(path, strict=True))


def test_z3_a_rollout_without_a_message_is_refused_by_name(tmp_path: Path) -> None:
    path = _written(tmp_path, {"type": "session_meta", "payload": {"id": "a"}})
    assert "rollout.jsonl: no message in it" in refused(codex.read, Source(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_z3_damaged_rollouts_are_read_or_refused_never_a_crash(path: Path, tmp_path: Path) -> None:
    assert only_input_errors(codex.read, path, tmp_path, 100, recognises=codex.recognises) > 50
