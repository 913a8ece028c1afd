"""Copilot CLI's events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fivefold.core.entries import HideSpan, Usage
from fivefold.core.messages import Text, Thinking, ToolResult, ToolUse
from fivefold.core.transcript import Conversation
from fivefold.errors import BadLineError, InputError
from fivefold.formats import copilot_cli
from fivefold.formats.source import Source

from .mutate import only_input_errors

DATA = Path(__file__).parent.parent / "data" / "copilot_cli" / "events.jsonl"


def events(path: Path, *given: tuple[str, dict[str, object]], agents: dict[int, str] | None = None) -> Source:
    """A file of events, the n-th with the id ``e<n>``; ``agents`` gives the agent of some."""
    lines = []
    for number, (kind, data) in enumerate(given, 1):
        event = {"type": kind, "data": data, "id": f"e{number}", "timestamp": "2026-01-01T00:00:00Z", "parentId": None}
        if agents and number in agents:
            event["agentId"] = agents[number]
        lines.append(json.dumps(event))
    file = path / "events.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Source(file)


def user(text: str, **more: object) -> tuple[str, dict[str, object]]:
    return "user.message", {"content": text, **more}


def said(text: str, *calls: str, **more: object) -> tuple[str, dict[str, object]]:
    requests = [{"toolCallId": call, "name": "view", "arguments": {"path": call}} for call in calls]
    return "assistant.message", {"content": text, "toolRequests": requests, "model": "m", **more}


def done(call: str, text: str = "ok") -> tuple[str, dict[str, object]]:
    return "tool.execution_complete", {"toolCallId": call, "success": True, "result": {"content": text}}


def texts(conversation: Conversation) -> list[str]:
    return ["".join(b.text for b in e.blocks if isinstance(b, Text)) for e in conversation.log.entries()]


def test_z3_a_recorded_session_is_read_with_calls_results_and_the_abort_noted() -> None:
    source = Source(DATA)
    assert copilot_cli.recognises(source)
    read = copilot_cli.read(source)
    entries = list(read.main.log.entries())
    assert not read.bad_lines
    assert [entry.kind for entry in entries] == ["user", "assistant", "user", "user", "user", "assistant", "user", "note", "user"]
    uses = {b.id for e in entries for b in e.blocks if isinstance(b, ToolUse)}
    results = [b for e in entries for b in e.blocks if isinstance(b, ToolResult)]
    assert {b.tool_use_id for b in results} <= uses
    assert [b.is_error for b in results] == [False, False, False, True]
    assert results[3].content == "Path does not exist"
    assert isinstance(entries[1].blocks[0], Thinking)
    assert entries[1].api_id == "msg_01SzmQ6bZLidG3RtPgD75BKQ"
    head = read.main.log.head
    assert (head.id, head.model) == ("c3f091b3-1a1f-435f-8acb-6c7520106212", "claude-opus-4.8")
    assert isinstance(head.system[0], Text) and head.system[0].text.startswith("You are the GitHub Copilot CLI")
    assert len(entries) + len(read.other) == len(DATA.read_text(encoding="utf-8").splitlines())


def test_z3_the_text_that_was_sent_is_the_message(tmp_path: Path) -> None:
    read = copilot_cli.read(events(tmp_path, user("hi", transformedContent="<now/>hi"), user("skill text", source="skill-pdf")))
    first, second = read.main.log.entries()
    assert first.blocks == (Text("<now/>hi"),)
    assert (first.meta, second.meta) == (False, True)


def test_k4_a_compaction_keeps_what_was_said_since_it_began_and_no_result_without_its_call(tmp_path: Path) -> None:
    used = {"inputTokens": 90, "cacheReadTokens": 70, "outputTokens": 9}
    summary = {"success": True, "summaryContent": "so far", "preCompactionTokens": 900, "compactionTokensUsed": used}
    read = copilot_cli.read(
        events(
            tmp_path,
            user("a"),
            said("b", "c1"),
            ("session.compaction_start", {}),
            done("c1"),
            said("kept"),
            ("session.compaction_complete", summary),
            user("on"),
        )
    )
    (placed,) = read.main.log.folds
    (change,) = placed.fold.changes
    assert isinstance(change, HideSpan)
    assert (change.first, change.last) == (None, "e4")
    assert placed.fold.usage == Usage(input=20, cache_read=70, output=9)
    boundary, text = change.stand_ins
    assert boundary.boundary is not None and boundary.boundary.kept == ("e5", "e5") and boundary.boundary.tokens_before == 900
    assert text.summary and text.blocks == (Text("so far"),)
    assert len(read.main.log) == 5


@pytest.mark.parametrize("data", [{"success": False, "error": "x"}, {"success": True}])
def test_k4_a_compaction_that_failed_or_has_no_summary_is_no_fold(tmp_path: Path, data: dict[str, object]) -> None:
    read = copilot_cli.read(events(tmp_path, user("a"), ("session.compaction_complete", data)))
    assert not read.main.log.folds
    assert [record.line for record in read.other] == [2]


def test_q5_a_sub_agent_s_events_are_a_sidechain_under_its_name(tmp_path: Path) -> None:
    read = copilot_cli.read(
        events(
            tmp_path,
            user("a"),
            said("go", "c1"),
            ("subagent.started", {"toolCallId": "c1", "agentName": "explore"}),
            said("inner", parentToolCallId="c1"),
            said("by id"),
            done("c1", "found"),
            agents={5: "agent-7"},
        )
    )
    main, inner, other = read.conversations
    assert texts(main) == ["a", "go", ""]
    assert (inner.kind, inner.name, texts(inner)) == ("sidechain", "explore", ["inner"])
    assert {entry.source for entry in inner.log.entries()} == {"agent:explore"}
    assert (other.name, texts(other)) == ("agent-7", ["by id"])


def test_x5_a_rewound_stretch_is_a_branch(tmp_path: Path) -> None:
    rewind: tuple[str, dict[str, object]] = ("session.snapshot_rewind", {"upToEventId": "e3"})
    read = copilot_cli.read(events(tmp_path, user("a"), said("b"), user("left"), said("left too"), rewind, user("again")))
    main, branch = read.conversations
    assert texts(main) == ["a", "b", "again"]
    assert (branch.kind, texts(branch), branch.log.head.extra) == ("branch", ["left", "left too"], {"after": "e2"})


def test_t2_usage_goes_to_the_response_it_names_and_output_alone_is_no_usage(tmp_path: Path) -> None:
    usage = {"apiCallId": "r1", "inputTokens": 100, "cacheReadTokens": 60, "outputTokens": 5}
    read = copilot_cli.read(
        events(tmp_path, user("a"), said("b", apiCallId="r1"), said("c", apiCallId="r2", outputTokens=9), ("assistant.usage", usage))
    )
    assert [entry.usage for entry in read.main.log.entries()] == [None, Usage(input=40, cache_read=60, output=5), None]


def test_z3_truncations_and_errors_are_notes(tmp_path: Path) -> None:
    tokens = {"preTruncationTokensInMessages": 9000, "postTruncationTokensInMessages": 4000}
    cut: dict[str, object] = {"messagesRemovedDuringTruncation": 12, **tokens}
    read = copilot_cli.read(events(tmp_path, user("a"), ("session.truncation", cut), ("session.error", {"message": "too many requests"})))
    assert [entry.kind for entry in read.main.log.entries()] == ["user", "note", "note"]
    assert "12 messages left out, from 9,000 to 4,000 tokens" in texts(read.main)[1]
    assert texts(read.main)[2] == "session.error: too many requests"


def test_z3_what_is_no_event_is_reported_or_all_refused(tmp_path: Path) -> None:
    source = events(tmp_path, user("a"))
    with Path(source.path).open("a", encoding="utf-8") as file:
        file.write('{"type": "user.message"}\n{"data": {}}\nnot json\n')
    assert [bad.line for bad in copilot_cli.read(Source(source.path)).bad_lines] == [2, 3, 4]
    with pytest.raises(BadLineError):
        copilot_cli.read(Source(source.path, strict=True))


def test_z3_a_session_without_a_message_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no message"):
        copilot_cli.read(events(tmp_path, ("session.start", {"producer": "copilot-agent", "sessionId": "s"})))


def test_z3_whatever_is_damaged_nothing_but_an_input_error_escapes(tmp_path: Path) -> None:
    assert only_input_errors(copilot_cli.read, DATA, tmp_path, 120, recognises=copilot_cli.recognises) > 20
