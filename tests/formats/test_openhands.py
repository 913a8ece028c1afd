"""The reader of OpenHands events, of both generations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fivefold.core.entries import HideEntries, HideSpan, Usage
from fivefold.core.messages import Image, RedactedThinking, Text, Thinking, ToolResult, ToolUse
from fivefold.core.transcript import Transcript
from fivefold.core.view import view_of
from fivefold.formats import atif, inspect_log, mini_swe, opencode, openhands, swe_agent
from fivefold.formats.source import Source

from .mutate import loose, only_input_errors, refused, written

DATA = Path(__file__).parents[1] / "data" / "openhands"
RESULTS, SDK = DATA / "results.jsonl", DATA / "sdk_events.json"


def _shown(transcript: Transcript) -> list[str]:
    """The texts that the model is shown, in order."""
    found = []
    for entry in view_of(transcript.main.log).sent():
        for block in entry.blocks:
            found.append(
                block.text if isinstance(block, Text) else str(block.content) if isinstance(block, ToolResult) else type(block).__name__
            )
    return found


def test_z3_it_is_recognised_by_its_content_and_by_no_other_reader() -> None:
    for path in (RESULTS, SDK):
        assert openhands.recognises(Source(path))
        assert not any(m.recognises(Source(path)) for m in (swe_agent, mini_swe, atif, inspect_log, opencode))


# --- the old generation, in results files


def test_z3_every_result_is_a_sample() -> None:
    transcript = openhands.read(Source(RESULTS))
    assert [(c.kind, c.name) for c in transcript.conversations] == [("sample", "ponylang__ponyc-4595"), ("sample", "ponylang__ponyc-4593")]
    assert loose(transcript.main.log.head.extra)["test_result"]["git_patch"].startswith("diff --git")
    assert [tool["function"]["name"] for tool in loose(transcript.main.log.head.tools)] == ["execute_bash"]


def test_z3_a_call_holds_what_the_model_wrote_and_its_result_what_it_was_shown() -> None:
    entries = list(openhands.read(Source(RESULTS)).main.log.entries())
    assert [e.kind for e in entries] == ["system", "user", "user", "assistant", "user", "assistant", "user", "assistant"]
    text, call = entries[3].blocks
    assert isinstance(text, Text) and text.text.startswith("The task involves fixing an issue")
    assert call == ToolUse("toolu_01", "execute_bash", {"command": "ls -l /workspace/ponylang__ponyc__0.1"})
    answer = entries[4].blocks[0]
    assert isinstance(answer, ToolResult) and isinstance(answer.content, str)
    assert answer.tool_use_id == "toolu_01" and not answer.is_error
    assert answer.content.endswith("[The command completed with exit code 0.]")
    failed = entries[6].blocks[0]
    assert isinstance(failed, ToolResult) and failed.is_error, "the command failed"


def test_t2_usage_comes_from_the_metrics_by_response_id() -> None:
    call = next(e for e in openhands.read(Source(RESULTS)).main.log.entries() if e.kind == "assistant")
    assert call.api_id == "gen-1746001974-alxKxkQSJ8j9QsfNTvnX"
    assert call.usage == Usage(input=5920, output=128)
    assert call.model == "meta-llama/llama-4-maverick"


def test_z3_knowledge_that_was_recalled_is_the_harness_speaking_and_the_query_is_no_message() -> None:
    transcript = openhands.read(Source(RESULTS))
    recalled = list(transcript.main.log.entries())[2]
    assert recalled.meta and len(recalled.blocks) == 2
    queries = [json.loads(other.raw) for other in transcript.other]
    assert [query["action"] for query in queries] == ["recall", "recall"]
    nothing_found = list(transcript.conversations[1].log.entries())[2]
    assert nothing_found.kind == "note"


def test_z3_an_error_without_a_call_is_shown_as_the_harness_speaking() -> None:
    entries = list(openhands.read(Source(RESULTS)).conversations[1].log.entries())
    (error,) = [e for e in entries if e.meta and e.kind == "user"]
    assert isinstance(error.blocks[0], Text) and len(error.blocks[0].text) == 102


def _old(id: int, **keys: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": f"2026-01-01T00:00:{id:02}", "source": "agent", **keys}


def _call(id: int, call: str, response: dict[str, Any]) -> dict[str, Any]:
    meta = {"function_name": "bash", "tool_call_id": call, "model_response": response, "total_calls_in_response": 2}
    return _old(id, action="run", args={"command": "x", "thought": "t"}, tool_call_metadata=meta)


def test_i2_calls_of_one_response_share_its_id_and_its_text_is_there_once(tmp_path: Path) -> None:
    calls = [{"id": c, "function": {"name": "bash", "arguments": f'{{"command": "{c}"}}'}} for c in ("a", "b")]
    response = {
        "id": "r1",
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
        "choices": [{"message": {"content": "both", "tool_calls": calls}}],
    }
    log = openhands.read(written(tmp_path, [_call(1, "a", response), _call(2, "b", response)])).main.log
    entries = list(log.entries())
    assert [e.blocks for e in entries] == [
        (Text("both"), ToolUse("a", "bash", {"command": "a"})),
        (ToolUse("b", "bash", {"command": "b"}),),
    ]
    assert {e.api_id for e in entries} == {"r1"}


def test_z3_actions_without_call_data_are_paired_by_their_cause(tmp_path: Path) -> None:
    events = [_old(1, action="run", args={"command": "ls", "thought": "look"}), _old(2, observation="run", content="a.py", cause=1)]
    entries = list(openhands.read(written(tmp_path, events)).main.log.entries())
    assert entries[0].blocks == (Text("look"), ToolUse("call_1", "run", {"command": "ls"}))
    assert entries[1].blocks == (ToolResult("call_1", "a.py"),)


def test_z3_an_old_condensation_by_range_is_a_fold(tmp_path: Path) -> None:
    said = [_old(i, action="message", source="user", args={"content": f"m{i}"}) for i in range(5)]
    args = {"forgotten_event_ids": None, "forgotten_events_start_id": 1, "forgotten_events_end_id": 3, "summary": "S", "summary_offset": 1}
    transcript = openhands.read(written(tmp_path, [*said, _old(6, action="condensation", args=args)]))
    assert _shown(transcript) == ["m0", "S", "m4"]


def test_z3_the_oldest_history_holds_pairs(tmp_path: Path) -> None:
    pair = [_old(1, action="run", args={"command": "ls"}), _old(2, observation="run", content="a", cause=1)]
    transcript = openhands.read(written(tmp_path, {"instance_id": "x", "history": [pair]}))
    assert [e.kind for e in transcript.main.log.entries()] == ["assistant", "user"]


# --- the SDK


def test_z3_sdk_events_become_messages() -> None:
    transcript = openhands.read(Source(SDK))
    entries = {e.id: e for e in transcript.main.log.entries()}
    assert entries["e1"].kind == "system" and [b.text for b in entries["e1"].blocks if isinstance(b, Text)] == [
        "You help.",
        "Today is Monday.",
    ]
    assert entries["e2"].blocks == (
        Text("What is in the picture?"),
        Image({"type": "base64", "media_type": "image/png", "data": "AAAA"}),
        Text("A rule."),
    )
    assert not entries["e2"].meta
    assert entries["e3"].blocks == (
        Thinking("hm", "sig"),
        RedactedThinking("zz"),
        Text("I look."),
        ToolUse("c1", "terminal", {"command": "ls"}),
    )
    assert entries["e4"].blocks == (ToolUse("c2", "terminal", {"command": "pwd"}),)
    assert entries["e3"].api_id == entries["e4"].api_id == "resp-1"
    assert entries["e5"].blocks == (ToolResult("c1", "a.py"),)
    assert entries["e6"].blocks == (ToolResult("c2", "no such tool", True),)
    assert entries["e10"].blocks == (Thinking("because"), Text("Done."))
    assert entries["e11"].kind == "note"


def test_t2_sdk_usage_comes_from_the_state_updates() -> None:
    entries = {e.id: e for e in openhands.read(Source(SDK)).main.log.entries()}
    assert entries["e3"].usage == Usage(input=100, cache_write=200, cache_read=700, output=50, thinking=20)


def test_z3_a_condensation_hides_what_it_forgets_and_shows_its_summary_in_its_place() -> None:
    transcript = openhands.read(Source(SDK))
    (placed,) = transcript.main.log.folds
    assert placed.fold.level == "imported"
    assert _shown(transcript) == [
        "You help.",
        "Today is Monday.",
        "What is in the picture?",
        "Image",
        "A rule.",
        "They looked around.",
        "And now?",
        "Thinking",
        "Done.",
    ]
    summary = next(e for e in view_of(transcript.main.log).sent() if e.summary)
    assert (summary.id, summary.kind, summary.meta) == ("e8-summary", "user", True)
    assert len(list(transcript.main.log.entries())) == 9, "nothing is gone from the log"


def _said(id: str) -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": id}]}
    return {"id": id, "timestamp": "2026-01-01T00:00:00", "source": "user", "kind": "MessageEvent", "llm_message": message}


def _condensed(id: str, forgotten: list[str], summary: str | None, offset: int | None) -> dict[str, Any]:
    keys = {"forgotten_event_ids": forgotten, "summary": summary, "summary_offset": offset, "llm_response_id": "r"}
    return {"id": id, "timestamp": "2026-01-01T00:00:00", "source": "environment", "kind": "Condensation", **keys}


def test_z3_a_second_condensation_takes_in_the_summary_of_the_first(tmp_path: Path) -> None:
    events = [
        _said("a"),
        _said("b"),
        _said("c"),
        _condensed("k1", ["b", "c"], "S1", 1),
        _said("d"),
        _said("e"),
        _condensed("k2", ["k1-summary", "d"], "S2", 1),
    ]
    assert _shown(openhands.read(written(tmp_path, events))) == ["a", "S2", "e"]
    only_summary = [*events[:5], _condensed("k2", ["k1-summary"], "S2", 1)]
    assert _shown(openhands.read(written(tmp_path, only_summary))) == ["a", "S2", "d"]


def test_z3_a_condensation_without_a_summary_only_hides(tmp_path: Path) -> None:
    transcript = openhands.read(written(tmp_path, [_said("a"), _said("b"), _said("c"), _condensed("k", ["a", "c"], None, None)]))
    assert _shown(transcript) == ["b"]
    assert [type(change) for change in transcript.main.log.folds[0].fold.changes] == [HideEntries]


def test_z3_of_several_gaps_the_summary_stands_in_the_one_at_its_offset(tmp_path: Path) -> None:
    events = [_said(name) for name in "abcde"]
    transcript = openhands.read(written(tmp_path, [*events, _condensed("k", ["a", "d"], "S", 2)]))
    assert _shown(transcript) == ["b", "c", "S", "e"]
    assert [type(change) for change in transcript.main.log.folds[0].fold.changes] == [HideSpan, HideEntries]


def test_z3_events_on_lines_keep_their_record(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(json.dumps(event) for event in (_said("a"), {"no": "event"}, _said("b"))))
    transcript = openhands.read(Source(path))
    assert [(e.line, json.loads(bytes(e.raw))["id"]) for e in transcript.main.log.entries()] == [(1, "a"), (3, "b")]
    assert [bad.line for bad in transcript.bad_lines] == [2]


def test_z2_a_file_without_messages_is_refused_by_name(tmp_path: Path) -> None:
    assert "openhands" in refused(openhands.read, written(tmp_path, [_old(1, action="recall", args={})]))


def test_z3_damaged_copies_give_input_errors_and_nothing_else(tmp_path: Path) -> None:
    assert only_input_errors(openhands.read, SDK, tmp_path, 250, recognises=openhands.recognises) > 20
    assert only_input_errors(openhands.read, RESULTS, tmp_path, 100, recognises=openhands.recognises) > 20
