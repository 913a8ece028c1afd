"""The reader of mini-swe-agent trajectories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fivefold.core.entries import Usage
from fivefold.core.messages import Opaque, Text, Thinking, ToolResult, ToolUse
from fivefold.formats import atif, inspect_log, mini_swe, opencode, openhands, swe_agent
from fivefold.formats.source import Source

from .mutate import only_input_errors, refused, written

TEXT = Path(__file__).parents[1] / "data" / "mini_swe" / "text_mode.traj.json"


def _version_2(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"info": {"mini_version": "2.4.0"}, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}


def test_z3_it_is_recognised_by_its_content_and_by_no_other_reader() -> None:
    assert mini_swe.recognises(Source(TEXT))
    assert not any(m.recognises(Source(TEXT)) for m in (swe_agent, openhands, atif, inspect_log, opencode))


def test_z3_text_mode_is_a_plain_conversation_in_which_outputs_are_the_harness() -> None:
    transcript = mini_swe.read(Source(TEXT))
    entries = list(transcript.main.log.entries())
    assert [e.kind for e in entries] == ["system", "user", "assistant", "user", "assistant", "user", "assistant", "user"]
    assert [e.meta for e in entries if e.kind == "user"] == [False, True, True, True]
    assert all(isinstance(b, Text) for e in entries for b in e.blocks)
    assert all(e.bare for e in entries)


def test_t2_usage_is_split_into_disjoint_parts_and_named_by_its_response() -> None:
    entries = [e for e in mini_swe.read(Source(TEXT)).main.log.entries() if e.kind == "assistant"]
    assert entries[0].usage == Usage(input=1428, output=332, thinking=289)
    assert entries[-1].usage == Usage(input=26665 - 26217, cache_read=26217, output=42)
    assert entries[0].api_id == "gen-1763508909-uijcTZHrhy0erd8NUVuk"
    assert entries[0].time == 1763508909.0


def test_t2_cache_writes_that_litellm_puts_beside_the_input_are_taken_out_of_it(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 60}
    message = {"role": "assistant", "content": "ls", "extra": {"response": {"id": "r", "usage": usage}}}
    (entry,) = mini_swe.read(written(tmp_path, _version_2([message]))).main.log.entries()
    assert entry.usage == Usage(input=10, cache_write=30, cache_read=60, output=5)


def test_z3_the_head_says_model_folder_task_and_outcome() -> None:
    head = mini_swe.read(Source(TEXT)).main.log.head
    assert (head.id, head.model, head.cwd) == ("django__django-15037", "google/gemini-3-pro-preview", "/testbed")
    assert head.extra["exit_status"] == "Submitted"


def test_z3_version_2_has_tool_calls(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    answer = {"role": "tool", "tool_call_id": "c1", "content": "a.py", "extra": {"returncode": 1, "timestamp": 1763508910.5}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "task"},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call], "extra": {"response": {"id": "r1"}}},
        answer,
        {"role": "user", "content": "and now?", "extra": {"interrupt_type": "UserNewTask"}},
        {"role": "exit", "content": "done", "extra": {"exit_status": "Submitted"}},
    ]
    entries = list(mini_swe.read(written(tmp_path, _version_2(messages))).main.log.entries())
    assert entries[1].blocks == (Thinking("hm"), ToolUse("c1", "bash", {"command": "ls"}))
    assert entries[2].blocks == (ToolResult("c1", "a.py", True),)
    assert entries[2].time == 1763508910.5
    assert not entries[3].meta, "a person spoke"
    assert entries[4].kind == "note"


def test_z3_version_2_with_the_responses_api(tmp_path: Path) -> None:
    sealed: dict[str, Any] = {"type": "reasoning", "id": "rs", "encrypted_content": "x", "summary": []}
    response = {
        "object": "response",
        "id": "resp_1",
        "model": "m",
        "created_at": 1763508909,
        "usage": {"input_tokens": 50, "input_tokens_details": {"cached_tokens": 20}, "output_tokens": 7},
        "output": [
            sealed,
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "plan"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
            {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{broken"},
        ],
    }
    answer = {"type": "function_call_output", "call_id": "c", "output": "out", "extra": {"returncode": 0}}
    entries = list(mini_swe.read(written(tmp_path, _version_2([response, answer]))).main.log.entries())
    assert entries[0].blocks == (Opaque(sealed), Thinking("plan"), Text("hi"), ToolUse("c", "bash", "{broken"))
    assert entries[0].usage == Usage(input=30, cache_read=20, output=7)
    assert entries[1].blocks == (ToolResult("c", "out"),)


def test_z3_a_bad_message_is_named_and_passed_over(tmp_path: Path) -> None:
    data = json.loads(TEXT.read_text())
    data["messages"][2] = 7
    transcript = mini_swe.read(written(tmp_path, data))
    assert [(b.line, b.why) for b in transcript.bad_lines] == [(3, "message 3 is a int, not an object")]


def test_z2_a_file_without_messages_is_refused_by_name(tmp_path: Path) -> None:
    assert "mini-swe-agent" in refused(mini_swe.read, written(tmp_path, _version_2([])))


def test_z3_damaged_copies_give_input_errors_and_nothing_else(tmp_path: Path) -> None:
    assert only_input_errors(mini_swe.read, TEXT, tmp_path, 200, recognises=mini_swe.recognises) > 20
