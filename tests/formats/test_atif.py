"""The reader of ATIF trajectories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fivefold.core.entries import Usage
from fivefold.core.messages import Image, Text, Thinking, ToolResult, ToolUse
from fivefold.formats import atif, inspect_log, mini_swe, opencode, openhands, swe_agent
from fivefold.formats.source import Source

from .mutate import only_input_errors, refused, written

DATA = Path(__file__).parents[1] / "data" / "atif"
TEXT, CALLS = DATA / "text_mode.json", DATA / "calls_and_subagent.json"


def test_z3_it_is_recognised_by_its_content_and_by_no_other_reader() -> None:
    for path in (TEXT, CALLS):
        assert atif.recognises(Source(path))
        assert not any(m.recognises(Source(path)) for m in (swe_agent, mini_swe, openhands, inspect_log, opencode))


def test_z3_in_text_mode_an_observation_is_the_harness_speaking() -> None:
    entries = list(atif.read(Source(TEXT)).main.log.entries())
    assert [(e.kind, e.meta) for e in entries] == [
        ("system", False),
        ("user", False),
        ("assistant", False),
        ("user", True),
        ("assistant", False),
    ]
    assert entries[2].usage == Usage(input=100, output=50)
    assert [e.line for e in entries] == [1, 2, 3, 3, 4]


def test_z3_a_step_becomes_a_response_and_its_results() -> None:
    transcript = atif.read(Source(CALLS))
    entries = list(transcript.main.log.entries())
    assert entries[2].blocks == (
        Thinking("Two looks at once."),
        Text("Looking."),
        ToolUse("c1", "bash", {"command": "ls"}),
        ToolUse("c2", "task", {"prompt": "count"}),
    )
    assert entries[3].blocks == (
        ToolResult("c1", "a.py\nb.py"),
        ToolResult("c2", (Text("2"), Image({"type": "path", "media_type": "image/png", "path": "images/s.png"}))),
    )
    assert not entries[3].meta
    assert entries[2].api_id == "step-3"
    assert entries[2].time == 1786353602.0


def test_t2_cached_and_written_tokens_are_taken_out_of_the_prompt() -> None:
    entries = list(atif.read(Source(CALLS)).main.log.entries())
    assert entries[2].usage == Usage(input=100, cache_write=100, cache_read=800, output=40)


def test_t2_usage_of_steps_copied_from_an_earlier_trajectory_is_not_counted_again() -> None:
    entries = list(atif.read(Source(CALLS)).main.log.entries())
    copied = next(e for e in entries if e.blocks == (Text("Copied."),))
    assert copied.usage is None


def test_q5_sub_agents_are_sidechains_that_name_the_call_that_started_them() -> None:
    transcript = atif.read(Source(CALLS))
    assert [(c.kind, c.name, len(c.log)) for c in transcript.conversations] == [("main", "probe", 5), ("sidechain", "counter", 2)]
    assert transcript.conversations[1].log.head.extra["parent_call"] == "c2"
    assert transcript.main.log.head.tools == ({"type": "function", "function": {"name": "bash"}},)


def test_z3_all_versions_are_read(tmp_path: Path) -> None:
    data: dict[str, Any] = json.loads(TEXT.read_text())
    for minor in range(9):
        source = written(tmp_path, {**data, "schema_version": f"ATIF-v1.{minor}"})
        assert atif.recognises(source)
        assert len(atif.read(source).main.log) == 5


def test_z3_a_step_of_unknown_source_is_named_and_passed_over(tmp_path: Path) -> None:
    data = json.loads(TEXT.read_text())
    data["steps"][1]["source"] = "oracle"
    transcript = atif.read(written(tmp_path, data))
    assert [(b.line, b.why) for b in transcript.bad_lines] == [(2, "step 2 has the source 'oracle'; known are system, user, agent")]


def test_z2_a_file_without_steps_is_refused_by_name(tmp_path: Path) -> None:
    assert "atif" in refused(atif.read, written(tmp_path, {"schema_version": "ATIF-v1.5", "steps": []}))


def test_z3_damaged_copies_give_input_errors_and_nothing_else(tmp_path: Path) -> None:
    assert only_input_errors(atif.read, CALLS, tmp_path, 200, recognises=atif.recognises) > 20
    assert only_input_errors(atif.read, TEXT, tmp_path, 50, recognises=atif.recognises) > 5
