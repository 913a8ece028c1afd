"""The reader of SWE-agent trajectories."""

from __future__ import annotations

import json
from pathlib import Path

from fivefold.core.messages import Text, ToolResult, ToolUse
from fivefold.formats import atif, inspect_log, mini_swe, opencode, openhands, swe_agent
from fivefold.formats.source import Source

from .mutate import loose, only_input_errors, refused, written

DATA = Path(__file__).parents[1] / "data" / "swe_agent"
CALLS, TEXT = DATA / "function_calling.traj", DATA / "text_with_demonstration.traj"


def test_z3_it_is_recognised_by_its_content_and_by_no_other_reader() -> None:
    for path in (CALLS, TEXT):
        assert swe_agent.recognises(Source(path))
        assert not any(m.recognises(Source(path)) for m in (mini_swe, openhands, atif, inspect_log, opencode))


def test_z3_in_function_calling_mode_calls_and_answers_are_blocks() -> None:
    transcript = swe_agent.read(Source(CALLS))
    entries = list(transcript.main.log.entries())
    assert transcript.format == "swe-agent"
    assert [e.kind for e in entries] == ["system", "user", "assistant", "user", "assistant", "user", "assistant", "user"]
    assert [e.line for e in entries] == list(range(1, 9))
    text, call = entries[2].blocks
    assert isinstance(text, Text)
    assert call == ToolUse("call_9diWc1DYm4RLmPfHgIaP2wd", "bash", {"command": "ls -F"})
    answer = entries[3].blocks[0]
    assert isinstance(answer, ToolResult)
    assert answer.tool_use_id == call.id
    assert isinstance(answer.content, str) and answer.content.startswith("AUTHORS.rst")


def test_z3_in_text_mode_it_is_a_plain_conversation() -> None:
    entries = list(swe_agent.read(Source(TEXT)).main.log.entries())
    assert [e.kind for e in entries] == ["system", "user", "user", "assistant", "user", "assistant", "user"]
    assert all(isinstance(b, Text) for e in entries for b in e.blocks)
    assert any("create reproduce_bug.py" in b.text for b in entries[3].blocks if isinstance(b, Text))


def test_z3_demonstrations_and_observations_are_the_harness_and_the_task_is_not() -> None:
    entries = list(swe_agent.read(Source(TEXT)).main.log.entries())
    assert [e.meta for e in entries if e.kind == "user"] == [True, False, True, True]


def test_z3_how_the_run_ended_and_the_steps_are_kept() -> None:
    transcript = swe_agent.read(Source(TEXT))
    assert transcript.main.log.head.extra["exit_status"] == "submitted"
    assert loose(transcript.meta)["info"]["model_stats"]["api_calls"] == 12
    assert len(loose(transcript.meta)["trajectory"]) == 2


def test_z3_without_a_history_the_steps_are_read(tmp_path: Path) -> None:
    step = {"action": "ls\n", "observation": "a.py", "response": "Look.\n```\nls\n```", "thought": "Look.", "state": "{}"}
    first = {**step, "query": [{"role": "system", "content": "s"}, {"role": "user", "content": "task"}]}
    transcript = swe_agent.read(written(tmp_path, {"environment": "main", "trajectory": [first, step], "info": {}}))
    entries = list(transcript.main.log.entries())
    assert [(e.kind, e.meta) for e in entries] == [
        ("system", False),
        ("user", False),
        ("assistant", False),
        ("user", True),
        ("assistant", False),
        ("user", True),
    ]


def test_z3_a_second_agent_in_the_same_history_is_a_sidechain(tmp_path: Path) -> None:
    history = [
        {"role": "user", "content": "task", "agent": "primary"},
        {"role": "assistant", "content": "go", "agent": "primary"},
        {"role": "user", "content": "inner", "agent": "helper"},
    ]
    transcript = swe_agent.read(written(tmp_path, {"history": history, "trajectory": [], "info": {}}))
    assert [(c.kind, c.name, len(c.log)) for c in transcript.conversations] == [("main", "primary", 2), ("sidechain", "helper", 1)]
    assert [e.source for e in transcript.conversations[1].log.entries()] == ["agent:helper"]


def test_z3_several_trajectories_on_lines_are_samples(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(json.dumps(json.loads(p.read_text())) for p in (CALLS, TEXT)) + '\n{"a": 1}\n')
    transcript = swe_agent.read(Source(path))
    assert [c.kind for c in transcript.conversations] == ["sample", "sample"]
    assert [(b.line, "trajectory" in b.why) for b in transcript.bad_lines] == [(3, True)]


def test_z3_a_bad_message_is_named_and_passed_over(tmp_path: Path) -> None:
    data = json.loads(TEXT.read_text())
    data["history"][4]["role"] = "bystander"
    transcript = swe_agent.read(written(tmp_path, data))
    assert [(b.line, b.why) for b in transcript.bad_lines] == [(5, "message 5 has the role 'bystander'")]
    assert len(transcript.main.log) == 6


def test_z2_a_file_without_messages_is_refused_by_name(tmp_path: Path) -> None:
    assert "swe-agent" in refused(swe_agent.read, written(tmp_path, {"history": [], "trajectory": [{"action": "", "x": 1}]}))


def test_z3_damaged_copies_give_input_errors_and_nothing_else(tmp_path: Path) -> None:
    assert only_input_errors(swe_agent.read, CALLS, tmp_path, 150, recognises=swe_agent.recognises) > 20
    assert only_input_errors(swe_agent.read, TEXT, tmp_path, 100, recognises=swe_agent.recognises) > 20
