"""The reader of OpenCode exports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fivefold.core.entries import CLEARED, Usage
from fivefold.core.messages import Image, RedactedThinking, Text, Thinking, ToolResult, ToolUse
from fivefold.core.transcript import Transcript
from fivefold.core.view import view_of
from fivefold.formats import atif, inspect_log, mini_swe, opencode, openhands, swe_agent
from fivefold.formats.source import Source

from .mutate import only_input_errors, refused, written

EXPORT = Path(__file__).parents[1] / "data" / "opencode" / "export.json"
START_MS = 1_786_000_000_000


def _user(id: str, *parts: dict[str, Any], at: int = 0) -> dict[str, Any]:
    return {"info": {"id": id, "role": "user", "time": {"created": START_MS + at * 1000}}, "parts": list(parts)}


def _assistant(id: str, *parts: dict[str, Any], at: int = 0, **info: Any) -> dict[str, Any]:
    return {
        "info": {"id": id, "role": "assistant", "modelID": "m", "time": {"created": START_MS + at * 1000}, **info},
        "parts": list(parts),
    }


def _text(text: str, **keys: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **keys}


def _call(id: str, status: str = "completed", compacted: int | None = None, **state: Any) -> dict[str, Any]:
    time = {"start": START_MS, "end": START_MS + 500, **({"compacted": compacted} if compacted else {})}
    output = {"output": f"out {id}"} if status == "completed" else {}
    return {
        "type": "tool",
        "callID": id,
        "tool": "bash",
        "state": {"status": status, "input": {"command": id}, "time": time, **output, **state},
    }


def _read(folder: Path, *messages: dict[str, Any]) -> Transcript:
    return opencode.read(written(folder, {"info": {"id": "ses_1"}, "messages": list(messages)}))


def _shown(transcript: Transcript) -> list[str]:
    found = []
    for entry in view_of(transcript.main.log).sent():
        for block in entry.blocks:
            found.append(
                block.text if isinstance(block, Text) else str(block.content) if isinstance(block, ToolResult) else type(block).__name__
            )
    return found


def test_z3_it_is_recognised_by_its_content_and_by_no_other_reader() -> None:
    assert opencode.recognises(Source(EXPORT))
    assert not any(m.recognises(Source(EXPORT)) for m in (swe_agent, mini_swe, openhands, atif, inspect_log))


def test_z3_a_message_with_calls_becomes_the_answer_and_its_results() -> None:
    transcript = opencode.read(Source(EXPORT))
    entries = list(transcript.main.log.entries())
    assert [(e.kind, e.line) for e in entries] == [("user", 1), ("assistant", 2), ("user", 2), ("assistant", 3)]
    assert entries[1].blocks == (
        Thinking("Look at both."),
        ToolUse("call_a", "read", {"filePath": "/project/a.py"}),
        ToolUse("call_b", "bash", {"command": "false"}),
    )
    assert entries[2].blocks == (ToolResult("call_a", "1: print()"), ToolResult("call_b", "exit code 1", True))
    assert entries[2].time == 1786000003.0
    assert [json.loads(other.raw)["type"] for other in transcript.other] == ["patch"]


def test_z3_the_head_says_session_folder_title_and_model() -> None:
    head = opencode.read(Source(EXPORT)).main.log.head
    assert (head.id, head.cwd, head.name, head.model) == ("ses_1", "/project", "Two files", "m-1")
    assert head.extra["version"] == "1.18.0"


def test_t2_the_total_tells_whether_thinking_stands_beside_the_output() -> None:
    answers = [e for e in opencode.read(Source(EXPORT)).main.log.entries() if e.kind == "assistant"]
    assert answers[0].usage == Usage(input=100, cache_read=40, output=10 + 5, thinking=5), "total 155: thinking beside it"
    assert answers[1].usage == Usage(input=20, cache_write=7, cache_read=150, output=12, thinking=4), "total 189: thinking inside it"


def test_z3_an_interrupted_call_stays_open(tmp_path: Path) -> None:
    transcript = _read(tmp_path, _user("u", _text("go")), _assistant("a", _call("c1"), _call("c2", "running"), _call("c3", "pending")))
    entries = list(transcript.main.log.entries())
    assert [block.id for block in entries[1].blocks if isinstance(block, ToolUse)] == ["c1", "c2", "c3"]
    assert entries[2].blocks == (ToolResult("c1", "out c1"),)


def test_z3_steps_of_one_message_are_responses_of_their_own(tmp_path: Path) -> None:
    start: dict[str, Any] = {"type": "step-start"}

    def finish(tokens: int) -> dict[str, Any]:
        return {"type": "step-finish", "tokens": {"input": tokens, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}}

    transcript = _read(tmp_path, _assistant("a", start, _call("c1"), finish(10), start, _text("done"), finish(20)))
    entries = list(transcript.main.log.entries())
    assert [(e.kind, e.api_id, e.usage and e.usage.input) for e in entries] == [
        ("assistant", "a", 10),
        ("user", None, None),
        ("assistant", "a~2", 20),
    ]


def test_z3_text_that_opencode_wrote_into_a_message_is_told_apart(tmp_path: Path) -> None:
    file = {"type": "file", "mime": "text/plain", "url": "file:///project/a.py"}
    image = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA"}
    transcript = _read(
        tmp_path, _user("u", _text("see this"), image, _text("content of a.py", synthetic=True), file, _text("hidden", ignored=True))
    )
    entries = list(transcript.main.log.entries())
    assert [(e.id, e.meta) for e in entries] == [("u", False), ("u~2", True)]
    assert entries[0].blocks == (Text("see this"), Image({"type": "base64", "media_type": "image/png", "data": "AAAA"}))
    assert len(transcript.other) == 2


def test_z3_media_of_a_result_are_kept_with_it(tmp_path: Path) -> None:
    attachment = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA"}
    answer = list(_read(tmp_path, _assistant("a", _call("c", attachments=[attachment]))).main.log.entries())[1]
    assert answer.blocks == (ToolResult("c", (Text("out c"), Image({"type": "base64", "media_type": "image/png", "data": "AAAA"}))),)


def test_i2_signed_thinking_keeps_its_signature(tmp_path: Path) -> None:
    signed = {"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "sig"}}}
    sealed = {"type": "reasoning", "text": "", "metadata": {"anthropic": {"redactedData": "zz"}}}
    (entry,) = _read(tmp_path, _assistant("a", signed, sealed)).main.log.entries()
    assert entry.blocks == (Thinking("hm", "sig"), RedactedThinking("zz"))


def test_z3_a_failed_message_is_a_note_and_an_aborted_one_with_a_call_is_not(tmp_path: Path) -> None:
    failed = _assistant("f", _text("half"), error={"name": "APIError", "data": {"message": "overloaded"}})
    aborted = _assistant("b", _call("c"), error={"name": "MessageAbortedError", "data": {"message": "stopped"}})
    entries = list(_read(tmp_path, failed, aborted).main.log.entries())
    assert [e.kind for e in entries] == ["note", "note", "assistant", "user", "note"]
    assert entries[1].blocks == (Text("APIError: overloaded"),)


# --- folds


def test_m2_pruned_results_are_cleared_by_one_fold_for_each_prune(tmp_path: Path) -> None:
    first, second = START_MS + 10_000, START_MS + 30_000
    transcript = _read(
        tmp_path,
        _assistant("a", _call("c1", compacted=first), _call("c2"), at=1),
        _assistant("b", _call("c3", compacted=first + 4), at=2),
        _user("u", _text("more"), at=20),
        _assistant("c", _call("c4", compacted=second), at=21),
    )
    folds = transcript.main.log.folds
    assert [(placed.fold.level, placed.at, placed.fold.time) for placed in folds] == [
        ("imported", 4, first / 1000 + 0.004),
        ("imported", 7, second / 1000),
    ]
    assert [text for text in _shown(transcript) if text != "ToolUse"] == [CLEARED, "out c2", CLEARED, "more", CLEARED]
    assert [b.content for e in transcript.main.log.entries() for b in e.blocks if isinstance(b, ToolResult)] == [
        "out c1",
        "out c2",
        "out c3",
        "out c4",
    ]


def _compacted(tail: str | None) -> list[dict[str, Any]]:
    request = {"type": "compaction", "auto": True, **({"tail_start_id": tail} if tail else {})}
    tokens = {"total": 320, "input": 300, "output": 20, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    return [
        _user("u1", _text("one"), at=1),
        _assistant("a1", _text("two"), at=2),
        _user("u2", _text("three"), at=3),
        _assistant("a2", _text("four"), at=4),
        _user("k", request, at=5),
        _assistant("s", _text("SUMMARY"), at=6, summary=True, mode="compaction", finish="stop", parentID="k", tokens=tokens),
        _user("u3", _text("five"), at=7),
    ]


def test_z3_a_compaction_hides_what_came_before_and_shows_its_summary(tmp_path: Path) -> None:
    transcript = _read(tmp_path, *_compacted(None))
    assert _shown(transcript) == ["What did we do so far?", "SUMMARY", "five"]
    (placed,) = transcript.main.log.folds
    assert (placed.fold.tokens_before, placed.fold.usage, placed.at) == (300, Usage(input=300, output=20), 6)
    assert [e.summary for e in view_of(transcript.main.log).sent()] == [False, True, False]
    assert next(e for e in transcript.main.log.entries() if e.id == "s").source == "compact"


def test_z3_a_compaction_shows_the_tail_it_kept_behind_its_summary(tmp_path: Path) -> None:
    assert _shown(_read(tmp_path, *_compacted("u2"))) == ["What did we do so far?", "SUMMARY", "three", "four", "five"]


def test_z3_a_second_compaction_takes_in_the_first(tmp_path: Path) -> None:
    again = _assistant("s2", _text("SECOND"), at=9, summary=True, finish="stop", parentID="k2")
    messages = [*_compacted("u2"), _user("k2", {"type": "compaction", "auto": False}, at=8), again, _user("u4", _text("six"), at=10)]
    assert _shown(_read(tmp_path, *messages)) == ["What did we do so far?", "SECOND", "six"]


def test_z3_a_compaction_that_failed_hides_nothing(tmp_path: Path) -> None:
    messages = _compacted(None)
    messages[5]["info"]["error"] = {"name": "ContextOverflowError", "data": {}}
    transcript = _read(tmp_path, *messages)
    assert transcript.main.log.folds == ()
    assert _shown(transcript)[:2] == ["one", "two"]


def test_z3_an_old_summary_without_a_request_stands_for_all_before_it(tmp_path: Path) -> None:
    summary = _assistant("s", _text("SUMMARY"), at=3, summary=True)
    transcript = _read(tmp_path, _user("u", _text("one")), _assistant("a", _text("two")), summary, _user("v", _text("three")))
    assert _shown(transcript) == ["SUMMARY", "three"]


def test_i10_repeated_message_ids_are_made_unique_and_call_ids_are_left(tmp_path: Path) -> None:
    entries = list(_read(tmp_path, _assistant("x", _call("0")), _assistant("x", _call("0"))).main.log.entries())
    assert [e.id for e in entries] == ["x", "x-results", "x~2", "x~2-results"]
    assert [b.id for e in entries for b in e.blocks if isinstance(b, ToolUse)] == ["0", "0"]


def test_z2_a_file_without_messages_is_refused_by_name(tmp_path: Path) -> None:
    assert "opencode" in refused(opencode.read, written(tmp_path, {"info": {}, "messages": []}))


def test_z3_damaged_copies_give_input_errors_and_nothing_else(tmp_path: Path) -> None:
    assert only_input_errors(opencode.read, EXPORT, tmp_path, 200, recognises=opencode.recognises) > 20
    compacted = tmp_path / "compacted.json"
    compacted.write_text(
        json.dumps({"info": {}, "messages": [*_compacted("u2"), _assistant("p", _call("c", compacted=START_MS + 9))]}, indent=1)
    )
    assert only_input_errors(opencode.read, compacted, tmp_path / "copies", 200, recognises=opencode.recognises) > 20
