"""Claude Code session files (Z3): which line is in which conversation, and what compactions hid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fivefold.core.entries import Boundary, Entry, Fold, HideSpan, ReplaceBlocks, Target, Usage
from fivefold.core.messages import Image, Text, ToolResult, ToolUse
from fivefold.core.transcript import Conversation, Transcript
from fivefold.core.view import view_of
from fivefold.errors import BadLineError, InputError
from fivefold.formats import claude_code
from fivefold.formats.claude_entries import usage_of
from fivefold.formats.common import anthropic_usage
from fivefold.formats.source import Source

from .mutate import only_input_errors

DATA = Path(__file__).parent.parent / "data" / "claude_code"
REAL = sorted(DATA.glob("*.jsonl"))

Row = dict[str, Any]


def row(kind: str, uuid: str, parent: str | None, content: Any = None, **more: Any) -> Row:
    """One line of a session file. An assistant line has the message id ``api`` (its own uuid's where none is given)."""
    out: Row = {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s1",
        "isSidechain": False,
        "timestamp": "2026-03-01T10:00:00.000Z",
    }
    if kind == "assistant":
        content = [{"type": "text", "text": uuid}] if content is None else content
        out["message"] = {
            "role": kind,
            "id": more.pop("api", f"msg_{uuid}"),
            "model": "claude-x",
            "content": content,
            **more.pop("message", {}),
        }
    elif kind == "user":
        out["message"] = {"role": kind, "content": uuid if content is None else content}
    elif content is not None:
        out["content"] = content
    return {**out, **more}


def call(id: str) -> list[Row]:
    return [{"type": "tool_use", "id": id, "name": "Read", "input": {}}]


def result(id: str, text: str = "done") -> list[Row]:
    return [{"type": "tool_result", "tool_use_id": id, "content": text}]


def boundary(uuid: str, logical: str | None, **metadata: Any) -> Row:
    return row(
        "system", uuid, None, "Conversation compacted", subtype="compact_boundary", logicalParentUuid=logical, compactMetadata=metadata
    )


def source_of(folder: Path, rows: list[Row], tail: bytes = b"", *, strict: bool = False) -> Source:
    path = folder / "session.jsonl"
    path.write_bytes(b"".join(json.dumps(r).encode() + b"\n" for r in rows) + tail)
    return Source(path, strict=strict)


def read(folder: Path, rows: list[Row], tail: bytes = b"") -> Transcript:
    source = source_of(folder, rows, tail)
    assert claude_code.recognises(source)
    return claude_code.read(source)


def said(conversation: Conversation) -> list[str]:
    return [entry.id for entry in conversation.log.entries()]


def shown(conversation: Conversation) -> list[str]:
    return [entry.id for entry in view_of(conversation.log).entries()]


def folds(conversation: Conversation) -> list[Fold]:
    return [placed.fold for placed in conversation.log.folds]


def all_entries(found: Transcript) -> Iterator[Entry]:
    for conversation in found.conversations:
        for record in conversation.log.records():
            if isinstance(record, Entry):
                yield record
            elif isinstance(record, Fold):
                for change in record.changes:
                    yield from change.stand_ins if isinstance(change, HideSpan) else ()


def repairs(found: Transcript) -> list[tuple[int, str]]:
    return [(repair["line"], repair["why"]) for repair in found.meta.get("repairs", [])]


# --- the chain


def test_z3_the_conversation_ends_in_the_last_message_and_a_rewound_branch_is_apart(tmp_path: Path) -> None:
    rows = [row("user", "u1", None), row("assistant", "a1", "u1"), row("user", "old", "a1"), row("assistant", "oldA", "old")]
    rows += [row("user", "new", "a1"), row("assistant", "newA", "new")]
    found = read(tmp_path, rows)
    assert [(c.kind, said(c)) for c in found.conversations] == [("main", ["u1", "a1", "new", "newA"]), ("branch", ["old", "oldA"])]
    assert found.conversations[1].name == "left at line 2 (a1), from line 3"


def test_z3_forks_of_forks_are_branches_each_with_its_own_lines(tmp_path: Path) -> None:
    rows = [
        row("user", "u1", None),
        row("assistant", "a1", "u1"),
        row("user", "b1", "a1"),
        row("user", "b2", "b1"),
        row("user", "b3", "b1"),
        row("user", "u2", "a1"),
    ]
    found = read(tmp_path, rows)
    assert [(c.kind, said(c)) for c in found.conversations] == [("main", ["u1", "a1", "u2"]), ("branch", ["b2"]), ("branch", ["b1", "b3"])]


def test_i2_the_lines_of_one_response_and_their_results_are_put_back_together(tmp_path: Path) -> None:
    rows = [row("user", "u1", None), row("assistant", "t", "u1", api="m"), row("assistant", "c1", "t", call("x"), api="m")]
    rows += [row("user", "r1", "c1", result("x")), row("assistant", "c2", "c1", call("y"), api="m"), row("user", "r2", "c2", result("y"))]
    rows += [row("assistant", "c3", "r2", call("z"), api="m"), row("user", "r3", "c3", result("z")), row("assistant", "end", "r1")]
    found = read(tmp_path, rows)
    assert len(found.conversations) == 1
    assert said(found.main) == ["u1", "t", "c1", "c2", "c3", "r1", "r2", "r3", "end"]
    assert {e.api_id for e in found.main.log.entries() if e.id in ("t", "c1", "c2", "c3")} == {"m"}


def test_i2_lines_of_one_response_that_are_siblings_are_one(tmp_path: Path) -> None:
    rows = [row("user", "u1", None), row("assistant", "c1", "u1", call("x"), api="m"), row("assistant", "c2", "u1", call("y"), api="m")]
    rows += [row("user", "r1", "c1", result("x")), row("user", "r2", "c2", result("y"))]
    assert said(read(tmp_path, rows).main) == ["u1", "c1", "c2", "r1", "r2"]


def test_i9_a_result_that_comes_late_does_not_end_the_conversation(tmp_path: Path) -> None:
    rows = [row("user", "u1", None), row("assistant", "c1", "u1", call("x"), api="m"), row("assistant", "c2", "c1", call("y"), api="m")]
    rows += [row("user", "r2", "c2", result("y")), row("assistant", "a2", "r2"), row("user", "r1", "c1", result("x"))]
    found = read(tmp_path, rows)
    assert [said(c) for c in found.conversations] == [["u1", "c1", "c2", "r2", "r1", "a2"]]


def test_i1_what_the_harness_attaches_between_results_stands_behind_them(tmp_path: Path) -> None:
    rows = [row("user", "u1", None), row("assistant", "c1", "u1", call("x"), api="m"), row("assistant", "c2", "c1", call("y"), api="m")]
    rows += [
        row("user", "r1", "c1", result("x")),
        row("attachment", "hook", "r1", attachment={"type": "hook_additional_context", "content": ["be brief"]}),
    ]
    rows += [row("user", "skill", "r1", [{"type": "text", "text": "manual"}], isMeta=True, sourceToolUseID="x")]
    rows += [row("user", "r2", "hook", result("y")), row("assistant", "a2", "r2")]
    found = read(tmp_path, rows)
    assert [said(c) for c in found.conversations] == [["u1", "c1", "c2", "r1", "r2", "hook", "skill", "a2"]]


def test_z3_chains_run_through_lines_that_are_no_entries(tmp_path: Path) -> None:
    rows = [
        row("user", "u1", None),
        row("progress", "p1", "u1", data={"type": "hook_progress"}),
        row("system", "s", "p1", subtype="turn_duration"),
    ]
    rows += [
        row("attachment", "silent", "s", attachment={"type": "command_permissions", "allowedTools": []}),
        row("assistant", "a1", "silent"),
    ]
    found = read(tmp_path, rows)
    assert said(found.main) == ["u1", "a1"]
    assert [other.line for other in found.other] == [2, 3, 4]
    assert json.loads(found.other[0].raw) == rows[1]


def test_z3_sub_agents_are_sidechains_one_for_each_agent(tmp_path: Path) -> None:
    side: Row = {"isSidechain": True}
    rows = [row("user", "u1", None), row("assistant", "a1", "u1", call("t"))]
    rows += [row("user", "x1", None, agentId="x", **side), row("user", "y1", None, agentId="y", **side)]
    rows += [row("assistant", "x2", "x1", agentId="x", **side), row("assistant", "y2", "y1", agentId="y", **side)]
    rows += [row("user", "x3", None, agentId="x", **side), row("user", "z1", "a1", **side), row("assistant", "z2", "z1", **side)]
    rows += [row("user", "r1", "a1", result("t"))]
    found = read(tmp_path, rows)
    assert [(c.kind, c.name, said(c)) for c in found.conversations] == [
        ("main", "s1", ["u1", "a1", "r1"]),
        ("sidechain", "agent x", ["x1", "x2", "x3"]),
        ("sidechain", "agent y", ["y1", "y2"]),
        ("sidechain", "agent from line 8", ["z1", "z2"]),
    ]
    assert {e.source for e in found.conversations[1].log.entries()} == {"agent:x"}


def test_z3_the_file_of_a_sub_agent_has_it_as_its_main_conversation(tmp_path: Path) -> None:
    rows = [row("user", "x1", None, agentId="x", isSidechain=True), row("assistant", "x2", "x1", agentId="x", isSidechain=True)]
    assert [(c.kind, said(c)) for c in read(tmp_path, rows).conversations] == [("main", ["x1", "x2"])]


def test_z3_a_team_mate_and_the_harness_do_not_end_the_conversation(tmp_path: Path) -> None:
    rows = [
        row("user", "u1", None),
        row("assistant", "a1", "u1"),
        row("user", "meta", "a1", isMeta=True),
        row("user", "mate", "u1", teamName="t"),
    ]
    found = read(tmp_path, rows)
    assert [said(c) for c in found.conversations] == [["u1", "a1", "meta"], ["mate"]]


def test_z3_two_sessions_in_one_file_are_two_whole_conversations(tmp_path: Path) -> None:
    rows = [
        row("user", "o1", None, sessionId="s0"),
        row("assistant", "o2", "o1", sessionId="s0"),
        row("user", "u1", None),
        row("assistant", "a1", "u1"),
    ]
    found = read(tmp_path, rows)
    assert [(c.kind, c.log.head.id, said(c)) for c in found.conversations] == [("main", "s1", ["u1", "a1"]), ("sample", "s0", ["o1", "o2"])]


# --- compactions


def compacted(**metadata: Any) -> list[Row]:
    rows = [row("user", "u1", None), row("assistant", "a1", "u1"), row("user", "u2", "a1"), row("assistant", "a2", "u2")]
    return [
        *rows,
        boundary("b", "a2", trigger="auto", preTokens=167000, **metadata),
        row("user", "sum", "b", "So far …", isCompactSummary=True),
    ]


def test_a_compaction_hides_what_came_before_and_shows_boundary_and_summary(tmp_path: Path) -> None:
    found = read(tmp_path, [*compacted(postTokens=9000), row("user", "u3", "sum")])
    assert said(found.main) == ["u1", "a1", "u2", "a2", "u3"]
    assert shown(found.main) == ["b", "sum", "u3"]
    (fold,) = folds(found.main)
    assert (fold.level, fold.why, fold.tokens_before, fold.tokens_after, fold.line) == ("imported", "auto compaction", 167000, 9000, 5)
    assert json.loads(bytes(fold.raw))["uuid"] == "b"
    (change,) = fold.changes
    assert isinstance(change, HideSpan)
    assert change.stand_ins[0].boundary == Boundary("auto", 167000, 9000, "a2")
    assert change.stand_ins[1].summary and change.stand_ins[1].kind == "user"


def test_several_compactions_each_hide_all_before(tmp_path: Path) -> None:
    rows = [
        *compacted(),
        row("assistant", "a3", "sum"),
        boundary("b2", "a3"),
        row("user", "sum2", "b2", "More", isCompactSummary=True),
        row("user", "u4", "sum2"),
    ]
    found = read(tmp_path, rows)
    assert said(found.main) == ["u1", "a1", "u2", "a2", "a3", "u4"]
    assert shown(found.main) == ["b2", "sum2", "u4"]
    assert len(folds(found.main)) == 2


def test_a_boundary_without_metadata_summary_or_known_parent_still_hides(tmp_path: Path) -> None:
    bare = row("system", "b", None, subtype="compact_boundary", logicalParentUuid="gone")
    found = read(tmp_path, [row("user", "u1", None), row("assistant", "a1", "u1"), bare, row("user", "u2", "b")])
    assert said(found.main) == ["u1", "a1", "u2"]
    assert shown(found.main) == ["b", "u2"]
    assert repairs(found) == [(3, "its parent gone is not in the file: taken to follow line 2")]
    assert folds(found.main)[0].why == "recorded compaction"


def test_a_summary_without_a_boundary_is_a_compaction(tmp_path: Path) -> None:
    found = read(tmp_path, [row("user", "u1", None), row("user", "sum", None, isCompactSummary=True), row("assistant", "a2", "sum")])
    assert (said(found.main), shown(found.main)) == (["u1", "a2"], ["sum", "a2"])


def test_a_file_that_begins_with_a_compaction_hides_nothing(tmp_path: Path) -> None:
    found = read(tmp_path, [boundary("b", "elsewhere"), row("user", "sum", "b", isCompactSummary=True), row("assistant", "a", "sum")])
    assert said(found.main) == shown(found.main) == ["b", "sum", "a"]
    assert not folds(found.main)


@pytest.mark.parametrize(
    "kept",
    [
        {"preservedSegment": {"headUuid": "u2", "anchorUuid": "sum", "tailUuid": "a2"}},
        {"preserved_segment": {"head_uuid": "u2", "anchor_uuid": "sum", "tail_uuid": "a2"}},
        {"preservedMessages": {"anchorUuid": "sum", "uuids": ["u2", "a2"]}},
        {"preserved_messages": {"anchor_uuid": "sum", "uuids": ["u2"], "all_uuids": ["u2", "lost", "a2"]}},
    ],
)
def test_a_preserved_segment_stays_in_view_behind_the_summary(tmp_path: Path, kept: Row) -> None:
    found = read(tmp_path, [*compacted(**kept), row("user", "u3", "a2"), row("assistant", "a3", "u3")])
    assert said(found.main) == ["u1", "a1", "u2", "a2", "u3", "a3"]
    assert shown(found.main) == ["b", "sum", "u2", "a2", "u3", "a3"]
    change = folds(found.main)[0].changes[0]
    assert isinstance(change, HideSpan) and change.stand_ins[0].boundary == Boundary("auto", 167000, None, "a1", ("u2", "a2"))


def test_preserved_messages_in_the_middle_leave_two_spans_hidden(tmp_path: Path) -> None:
    found = read(tmp_path, [*compacted(preservedMessages={"uuids": ["a1"]}), row("user", "u3", "sum")])
    assert [(c.first, c.last, len(c.stand_ins)) for c in folds(found.main)[0].changes if isinstance(c, HideSpan)] == [
        (None, "u1", 2),
        ("u2", "a2", 0),
    ]
    assert shown(found.main) == ["b", "sum", "a1", "u3"]


def test_where_all_is_preserved_nothing_is_hidden(tmp_path: Path) -> None:
    found = read(tmp_path, [*compacted(preservedSegment={"headUuid": "u1", "tailUuid": "a2"}), row("user", "u3", "a2")])
    assert shown(found.main) == ["u1", "a1", "u2", "a2", "b", "sum", "u3"]


def test_preserved_lines_written_again_are_not_said_twice(tmp_path: Path) -> None:
    rows = [
        *compacted(preservedSegment={"headUuid": "u2", "tailUuid": "a2"}),
        row("user", "u2", "sum"),
        row("assistant", "a2", "u2"),
        row("user", "u3", "a2"),
    ]
    found = read(tmp_path, rows)
    assert said(found.main) == ["u1", "a1", "u2", "a2", "u3"]
    assert shown(found.main) == ["b", "sum", "u2", "a2", "u3"]
    assert [line for line, why in repairs(found) if "left out" in why] == [7, 8]


def test_m8_a_microcompact_boundary_clears_the_results_it_names(tmp_path: Path) -> None:
    rows = [row("user", "u1", None), row("assistant", "c1", "u1", call("x")), row("user", "r1", "c1", result("x", "long"))]
    rows += [
        row("system", "mc", "r1", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["x", "unknown"]}),
        row("user", "u2", "mc"),
    ]
    found = read(tmp_path, rows)
    assert folds(found.main)[0].changes == (ReplaceBlocks((Target("r1", 0),)),)
    assert said(found.main) == ["u1", "c1", "r1", "mc", "u2"]


# --- entries


def test_t2_each_line_keeps_its_own_usage(tmp_path: Path) -> None:
    usages = [{"input_tokens": 3, "cache_read_input_tokens": 90, "output_tokens": n} for n in (1, 50)]
    rows = [row("user", "u", None)] + [
        row("assistant", f"a{n}", "u" if n == 0 else "a0", api="m", message={"usage": usage}) for n, usage in enumerate(usages)
    ]
    assert [e.usage for e in read(tmp_path, rows).main.log.entries()][1:] == [
        Usage(input=3, cache_read=90, output=1),
        Usage(input=3, cache_read=90, output=50),
    ]


@pytest.mark.parametrize(
    "usage",
    [
        {
            "input_tokens": 1,
            "output_tokens": 2,
            "cache_creation": {"ephemeral_1h_input_tokens": 7},
            "service_tier": "standard",
            "iterations": [],
        },
        {
            "input_tokens": 1,
            "iterations": [{"type": "compaction", "input_tokens": 4}, {"type": "message", "input_tokens": 9, "output_tokens": 1}],
        },
        {"input_tokens": -5, "output_tokens": "x"},
        {"input_tokens": 5, "output_tokens_details": {"thinking_tokens": 3}},
        {"input_tokens": None, "cache_creation": None},
        None,
        7,
    ],
)
def test_t8_the_fast_reading_of_usage_agrees_with_the_full_one(usage: Any) -> None:
    assert usage_of(json.dumps(usage).encode()) == anthropic_usage(usage)


def test_api_errors_and_synthetic_lines_are_notes(tmp_path: Path) -> None:
    rows = [
        row("user", "u", None),
        row("assistant", "e", "u", isApiErrorMessage=True),
        row("assistant", "s", "e", message={"model": "<synthetic>", "usage": {}}),
    ]
    rows += [
        row("system", "n", "s", "went away", subtype="informational"),
        row("system", "x", "n", subtype="api_error", error={"status": 529}),
    ]
    entries = list(read(tmp_path, [*rows, row("user", "u2", "x")]).main.log.entries())
    assert [e.kind for e in entries] == ["user", "note", "note", "note", "note", "user"]
    assert all(e.usage is None and e.model is None and e.api_id is None for e in entries[1:5])
    assert entries[4].blocks == (Text('{"status": 529}'),)


@pytest.mark.parametrize(
    ("content", "meta"),
    [
        ("<local-command-stdout>Bye!</local-command-stdout>", True),
        ("<system-reminder>\nuse the todo list\n</system-reminder>\n", True),
        ("<system-reminder>x</system-reminder>\nNow fix the test", False),
        ([{"type": "text", "text": "[Request interrupted by user]"}], True),
        ("<command-name>/compact</command-name><command-args>keep names</command-args>", False),
        ("fix the test", False),
        (result("x"), False),
    ],
)
def test_what_the_harness_wrote_is_told_apart_from_what_a_person_said(tmp_path: Path, content: Any, meta: bool) -> None:
    assert [e.meta for e in read(tmp_path, [row("user", "u", None, content)]).main.log.entries()] == [meta]


@pytest.mark.parametrize(
    ("attachment", "blocks", "meta"),
    [
        ({"type": "queued_command", "prompt": "and the docs"}, (Text("and the docs"),), False),
        ({"type": "queued_command", "prompt": [{"type": "text", "text": "see"}]}, (Text("see"),), False),
        (
            {"type": "queued_command", "prompt": "<task-notification>done</task-notification>"},
            (Text("<task-notification>done</task-notification>"),),
            True,
        ),
        ({"type": "nested_memory", "path": "/m", "content": {"path": "/m", "content": "rules"}}, (Text("rules"),), True),
        (
            {"type": "file", "filename": "a", "content": {"type": "text", "file": {"filePath": "a", "content": "x = 1"}}},
            (Text("x = 1"),),
            True,
        ),
        ({"type": "task_reminder", "content": [{"id": "6", "subject": "Write", "status": "pending"}]}, (Text("6 [pending] Write"),), True),
        ({"type": "hook_additional_context", "content": ["a", "b"]}, (Text("a\nb"),), True),
        (
            {"type": "file", "content": {"type": "image", "file": {"base64": "AAAA", "type": "image/png"}}},
            (Image({"type": "base64", "media_type": "image/png", "data": "AAAA"}),),
            True,
        ),
    ],
)
def test_attachments_show_what_the_model_saw(tmp_path: Path, attachment: Row, blocks: Any, meta: bool) -> None:
    entry = list(read(tmp_path, [row("user", "u", None), row("attachment", "x", "u", attachment=attachment)]).main.log.entries())[1]
    assert (entry.kind, entry.blocks, entry.meta) == ("attachment", blocks, meta)


def test_the_head_names_session_model_folder_and_title(tmp_path: Path) -> None:
    rows = [{"type": "ai-title", "aiTitle": "guess"}, row("user", "u", None, cwd="/home/user/p"), row("assistant", "a", "u")]
    rows += [row("assistant", "e", "a", message={"model": "<synthetic>"}), {"type": "custom-title", "customTitle": "Docs"}]
    found = read(tmp_path, rows)
    head = found.main.log.head
    assert (head.id, head.model, head.cwd, head.name) == ("s1", "claude-x", "/home/user/p", "Docs")
    assert [other.line for other in found.other] == [1, 5]


def test_raw_holds_the_line_and_line_its_number(tmp_path: Path) -> None:
    rows = [row("user", "u", None), row("assistant", "a", "u", toolUseResult={"kept": True})]
    entry = list(read(tmp_path, rows).main.log.entries())[1]
    assert (entry.line, json.loads(bytes(entry.raw))) == (2, rows[1])


# --- what is not as it should be


def test_a_half_last_line_is_listed_and_the_rest_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, [row("user", "u", None), row("assistant", "a", "u")], b'{"type":"user","uuid":"x","mess')
    assert said(found.main) == ["u", "a"]
    assert [bad.line for bad in found.bad_lines] == [3]
    with pytest.raises(BadLineError, match=r"session\.jsonl:3: "):
        claude_code.read(source_of(tmp_path, [row("user", "u", None)], b'\n{"type":"us', strict=True))


def test_a_missing_parent_is_the_line_before(tmp_path: Path) -> None:
    found = read(tmp_path, [row("user", "u", "cut off"), row("assistant", "a", "u"), row("user", "u2", "lost")])
    assert said(found.main) == ["u", "a", "u2"]
    assert repairs(found) == [
        (1, "its parent cut off is not in the file: taken as a beginning"),
        (3, "its parent lost is not in the file: taken to follow line 2"),
    ]


def test_parents_that_run_in_a_circle_are_cut(tmp_path: Path) -> None:
    found = read(
        tmp_path, [row("user", "u", None), row("user", "x", "z"), row("user", "y", "x"), row("user", "z", "y"), row("user", "me", "me")]
    )
    assert said(found.main) == ["u", "x", "y", "z", "me"]
    assert [line for line, _ in repairs(found)] == [5, 2]


def test_only_the_links_of_a_circle_are_taken_back_and_the_words_are_true(tmp_path: Path) -> None:
    rows = [row("user", "u", None), row("assistant", "a", "r"), row("user", "r", "u"), row("user", "x", "y"), row("user", "y", "x")]
    found = read(tmp_path, rows)
    assert [said(conversation) for conversation in found.conversations] == [["u", "r", "x", "y"], ["a"]]
    assert repairs(found) == [(4, "its parent, line 5, stands below it and leads back to it: taken to follow line 3")]


def test_a_circle_that_the_repair_of_another_closes_is_cut_too(tmp_path: Path) -> None:
    rows = [row("user", "a", "d"), row("user", "b", "c"), row("user", "c", "b"), row("user", "d", "c")]
    found = read(tmp_path, rows)
    assert sorted(id for conversation in found.conversations for id in said(conversation)) == ["a", "b", "c", "d"]
    assert {line for line, _ in repairs(found)} == {1, 2}


def test_many_circles_are_cut_in_little_time(tmp_path: Path) -> None:
    rows = [row("user", f"n{i}", f"n{(i + 1) % 4000}") for i in range(4000)]
    assert len({id for c in read(tmp_path, rows).conversations for id in said(c)}) == 4000


def test_a_boundary_whose_compacted_history_stands_below_follows_it(tmp_path: Path) -> None:
    rows = [boundary("b", "a"), row("user", "s", "b", isCompactSummary=True), row("user", "u", None), row("assistant", "a", "u")]
    found = read(tmp_path, [*rows, row("user", "next", "s")])
    assert [entry for entry in said(found.main) if entry in ("u", "a", "next")] == ["u", "a", "next"]
    assert repairs(found) == []
    assert "u" not in shown(found.main) and shown(found.main)[-1] == "next"


def test_a_parent_among_a_sub_agents_lines_is_named_as_that(tmp_path: Path) -> None:
    rows = [row("user", "u", None), row("user", "side", "u", isSidechain=True, agentId="g"), row("assistant", "a", "side")]
    assert repairs(read(tmp_path, rows)) == [(3, "its parent side is a sub-agent's line: taken to follow line 1")]


def test_a_parent_that_stands_below_is_followed(tmp_path: Path) -> None:
    rows = [row("user", "u", None), row("assistant", "c1", "u", call("x"), api="m"), row("assistant", "c2", "r1", call("y"), api="m")]
    found = read(tmp_path, [*rows, row("user", "r1", "c1", result("x")), row("user", "r2", "c2", result("y"))])
    assert said(found.main) == ["u", "c1", "c2", "r1", "r2"]


def test_i10_a_repeated_uuid_is_a_copy_or_gets_an_id_of_its_own(tmp_path: Path) -> None:
    rows = [
        row("user", "u", None),
        row("assistant", "a", "u"),
        row("assistant", "a", "u"),
        row("user", "u", "a", "something else"),
        row("assistant", "z", "u"),
    ]
    found = read(tmp_path, rows)
    assert said(found.main) == ["u", "a", "u~2", "z"]
    assert [line for line, _ in repairs(found)] == [3, 4]


def test_lines_without_uuid_or_message_and_of_wrong_types(tmp_path: Path) -> None:
    rows = [row("user", "u", None), {**row("assistant", "", "u"), "uuid": None}, {"type": "user", "uuid": "e", "parentUuid": "u"}]
    rows += [{**row("assistant", "b", "line2"), "timestamp": 5, "isSidechain": "no"}]
    found = read(tmp_path, rows)
    assert said(found.main) == ["u", "line2", "b"]
    assert [(bad.line, bad.why) for bad in found.bad_lines] == [(3, "a line of type 'user' without a message")]
    assert (4, "of an unexpected type and passed over: timestamp, isSidechain") in repairs(found)


def test_a_clock_that_goes_back_changes_no_order(tmp_path: Path) -> None:
    rows = [row("user", "u", None, timestamp="2026-03-01T10:00:00Z"), row("assistant", "a", "u", timestamp="2025-01-01T00:00:00Z")]
    entries = list(read(tmp_path, rows).main.log.entries())
    assert [e.id for e in entries] == ["u", "a"]
    assert entries[0].time is not None and entries[1].time is not None and entries[0].time > entries[1].time


def test_a_file_without_messages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no message in it"):
        claude_code.read(source_of(tmp_path, [{"type": "file-history-snapshot", "snapshot": {}}]))


def test_t4_a_chain_of_100000_lines_is_walked_without_recursion(tmp_path: Path) -> None:
    count = 100_000
    rows = [row("user", f"u{n}", f"u{n - 1}" if n else None, "x") for n in range(count)]
    assert len(claude_code.read(source_of(tmp_path, rows)).main.log) == count


# --- real files


def lines_of(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_k4_no_message_of_a_recorded_session_is_lost_or_said_twice(path: Path) -> None:
    found = claude_code.read(Source(path))
    entries = [entry.line for entry in all_entries(found)]
    messages = [n for n, line in enumerate(lines_of(path), 1) if line["type"] in ("user", "assistant")]
    assert len(entries) == len(set(entries))
    assert set(messages) <= set(entries)
    assert sorted([*entries, *(other.line for other in found.other)]) == list(range(1, len(lines_of(path)) + 1))


def test_recorded_parallel_calls_with_a_parent_below(tmp_path: Path) -> None:
    found = claude_code.read(Source(DATA / "parallel.jsonl"))
    blocks = [
        (e.line, b.id if isinstance(b, ToolUse) else b.tool_use_id)
        for e in found.main.log.entries()
        for b in e.blocks
        if isinstance(b, ToolUse | ToolResult)
    ]
    assert [line for line, _ in blocks] == [2, 3, 4, 5, 6, 7, 9, 10]
    assert len(found.conversations) == 1


def test_a_recorded_preserved_segment() -> None:
    found = claude_code.read(Source(DATA / "preserved.jsonl"))
    assert [e.line for e in view_of(found.main.log).entries()] == [6, 7, 4, 8, 9, 10, 11, 12, 13, 14, 15]
    assert folds(found.main)[0].tokens_before == 297190


def test_a_recorded_sub_agent() -> None:
    found = claude_code.read(Source(DATA / "sidechain.jsonl"))
    assert [(c.kind, len(c.log)) for c in found.conversations] == [("main", 6), ("sidechain", 7)]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_h4_damaged_copies_raise_nothing_but_input_errors(path: Path, tmp_path: Path) -> None:
    assert only_input_errors(claude_code.read, path, tmp_path, 250, recognises=claude_code.recognises) > 100


def test_k1_the_entries_can_be_written_as_json() -> None:
    for conversation in claude_code.read(Source(DATA / "preserved.jsonl")).conversations:
        records = list(conversation.log.records())
        assert msgspec.json.decode(msgspec.json.encode(records), type=list[Entry | Fold]) == records
