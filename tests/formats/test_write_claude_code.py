"""A view as a Claude Code session file that can be resumed there (Z4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fivefold.core.entries import Boundary, Entry, Fold, Head, HideEntries, HideSpan, HideThinking, ReplaceBlocks, Target, Unfold, Usage
from fivefold.core.log import Log
from fivefold.core.messages import Block, Image, Text, Thinking, ToolResult, ToolUse
from fivefold.core.view import view_of
from fivefold.store.jsonl import read_session, write_session
from tests.build import assistant, call, entry, invariants, refused, result, user

from .test_claude_code import boundary, row
from .writing import DATA, EXAMPLE, SUMMARY, folded, messages_of, read, reread, said, views, written

Row = dict[str, Any]
SIDE = DATA / "claude_code" / "sidechain.jsonl"
PRESERVED = DATA / "claude_code" / "preserved.jsonl"


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def rows_of(data: bytes, start: int = 0) -> list[Row]:
    return [json.loads(line) for line in data.splitlines()[start:]]


def session(folder: Path, *rows: Row) -> tuple[Log, list[bytes]]:
    """The main log of a session file of these rows, and its lines."""
    path = folder / "session.jsonl"
    path.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in rows))
    return reread(path.read_bytes(), folder).main.log, lines_of(path)


def talk() -> list[Row]:
    """A request, a response on two lines with one id, its answer, and a second exchange."""
    usage = {"input_tokens": 9, "cache_read_input_tokens": 150_000, "output_tokens": 1}
    tool = [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]
    answer = [{"type": "tool_result", "tool_use_id": "t1", "content": "a long text"}]
    thought = [{"type": "thinking", "thinking": "hm", "signature": "sig"}]
    return [
        row("user", "u1", None, "first", cwd="/x", version="2.1.7", gitBranch="main", userType="external"),
        row("assistant", "a1", "u1", thought, api="m1", message={"usage": usage}, requestId="req"),
        row("assistant", "a2", "a1", tool, api="m1", message={"usage": usage}, requestId="req"),
        row("user", "r1", "a2", answer, toolUseResult={"file": "a long text"}, sourceToolAssistantUUID="a2"),
        row("assistant", "a3", "r1", api="m2", message={"usage": usage}),
        row("user", "u2", "a3", "second"),
        row("assistant", "a4", "u2", api="m3", message={"usage": usage}),
    ]


def followed(data: bytes) -> list[Row]:
    """What a reader finds that follows parents from the last line up, and nothing else."""
    rows = [found for found in rows_of(data) if "uuid" in found]
    by_uuid = {found["uuid"]: found for found in rows}
    chain = [rows[-1]]
    while chain[-1]["parentUuid"]:
        chain.append(by_uuid[chain[-1]["parentUuid"]])
    return [found for found in reversed(chain) if found["type"] in ("user", "assistant", "attachment")]


def cleared(log: Log) -> Log:
    """The log with every tool result cleared."""
    targets = [Target(e.id, i) for e in view_of(log).entries() for i, b in enumerate(e.blocks) if isinstance(b, ToolResult)]
    return log.append(Fold(id="clear", level="micro", changes=(ReplaceBlocks(tuple(targets)),)))


def summed_up(log: Log, last: str, *, level: str = "manual", more: tuple[Entry, ...] = ()) -> Log:
    """The log with everything up to ``last`` behind a summary."""
    stand_ins = (Entry(id="b", kind="boundary", boundary=Boundary("", 150_000)), user("s", SUMMARY, bare=True, summary=True), *more)
    return log.append(Fold(id="f", level=level, changes=(HideSpan(last, None, stand_ins),), tokens_before=1, tokens_after=2_000))


# --- recorded sessions


def test_z4_every_recorded_view_reads_back_as_it_was(tmp_path: Path) -> None:
    count = 0
    for name, path, head, log, view in views():
        lines = lines_of(path)
        data = written(log, "claude-code", head=head, lines=lines)
        again = reread(data, tmp_path)
        own = read(path).format == "claude-code"
        assert again.format == "claude-code" and again.meta.get("repairs") == (read(path).meta.get("repairs") if own else None), name
        if own:
            assert data.startswith(b"".join(lines)), name
            found = next(c for c in again.conversations if said(view_of(c.log)) == said(view))
            assert found.kind == ("sidechain" if path == SIDE and " 1 " in name else "main"), name
        else:
            assert _plain(messages_of(again.main.log.head, view_of(again.main.log))) == _plain(messages_of(head, view)), name
            assert refused(messages_of(again.main.log.head, view_of(again.main.log))) == [], name
        count += 1
    assert count > 50


def _plain(messages: Any) -> list[tuple[str, list[Block]]]:
    """Messages without the ids of their calls, which may be others where one came twice."""
    return [(m.role, [_without_id(block) for block in m.blocks]) for m in messages]


def _without_id(block: Block) -> Block:
    match block:
        case ToolUse(_, name, input):
            return ToolUse("", name, input)
        case ToolResult(_, content, error):
            return ToolResult("", content, error)
        case _:
            return block


def test_z4_a_reader_that_follows_parents_finds_the_view_too() -> None:
    """Of the recorded session with two compactions: behind the new boundary, and nothing from before it."""
    log = folded(read(EXAMPLE).main.log, 30)
    data = written(log, "claude-code", lines=lines_of(EXAMPLE))
    chain = followed(data)
    assert [found["message"]["content"] for found in chain[:1]] == [SUMMARY]
    assert len(chain) == len(said(view_of(log))) > 10
    ids = {found["message"]["id"] for found in chain if found["type"] == "assistant"}
    assert ids.isdisjoint(found["message"]["id"] for found in rows_of(b"".join(lines_of(EXAMPLE))) if found["type"] == "assistant")


def test_z4_a_view_that_was_not_folded_gives_the_file_as_it_was() -> None:
    for path in (EXAMPLE, PRESERVED, SIDE):
        assert written(read(path).main.log, "claude-code", lines=lines_of(path)).rstrip(b"\n") == path.read_bytes().rstrip(b"\n")


def test_z4_a_written_file_can_be_compacted_and_written_again(tmp_path: Path) -> None:
    once = written(folded(read(EXAMPLE).main.log, 30), "claude-code", lines=lines_of(EXAMPLE))
    log = folded(reread(once, tmp_path).main.log, 10)
    twice = written(log, "claude-code", lines=once.splitlines(keepends=True))
    assert twice.startswith(once)
    assert said(view_of(reread(twice, tmp_path).main.log)) == said(view_of(log))
    uuids = [found["uuid"] for found in rows_of(twice) if "uuid" in found]
    assert len(set(uuids)) == len(uuids)


def test_z4_two_runs_give_the_same_bytes() -> None:
    log = folded(read(EXAMPLE).main.log)
    assert written(log, "claude-code", lines=lines_of(EXAMPLE)) == written(log, "claude-code", lines=lines_of(EXAMPLE))


def test_k4_a_session_that_fivefold_kept_brings_its_own_lines(tmp_path: Path) -> None:
    log = folded(read(EXAMPLE).main.log, 30)
    write_session(tmp_path / "kept.jsonl", log)
    kept = read_session(tmp_path / "kept.jsonl").log
    for lines in (None, lines_of(tmp_path / "kept.jsonl")):
        data = written(kept, "claude-code", lines=lines)
        assert said(view_of(reread(data, tmp_path).main.log)) == said(view_of(log))
        own = set(lines_of(EXAMPLE))
        assert sum(line in own for line in data.splitlines(keepends=True)) > 800


# --- the lines


def test_z4_the_boundary_says_what_was_done_and_what_it_follows(tmp_path: Path) -> None:
    log, lines = session(tmp_path, *talk())
    data = written(summed_up(log, "a3"), "claude-code", lines=lines)
    made, summary, first, last = rows_of(data, len(lines))
    assert made["parentUuid"] is None and made["logicalParentUuid"] == "a4"
    assert (made["type"], made["subtype"], made["compactMetadata"]) == (
        "system",
        "compact_boundary",
        {"trigger": "manual", "preTokens": 150_000, "postTokens": 2_000},
    )
    assert (
        summary["isCompactSummary"] and summary["isVisibleInTranscriptOnly"] and summary["message"] == {"role": "user", "content": SUMMARY}
    )
    assert [found["parentUuid"] for found in (summary, first, last)] == [found["uuid"] for found in (made, summary, first)]
    assert {found["sessionId"] for found in (made, summary, first, last)} == {"s1"}
    assert made["isSidechain"] is False and first["message"]["content"] == "second"


@pytest.mark.parametrize(("level", "trigger"), [("auto", "auto"), ("reactive", "auto"), ("partial", "manual")])
def test_z4_the_trigger_is_the_levels_where_the_boundary_names_none(level: str, trigger: str, tmp_path: Path) -> None:
    log, lines = session(tmp_path, *talk())
    made = rows_of(written(summed_up(log, "a3", level=level), "claude-code", lines=lines), len(lines))[0]
    assert made["compactMetadata"]["trigger"] == trigger


def test_z4_lines_written_here_say_where_the_session_runs(tmp_path: Path) -> None:
    rows = talk()
    rows[-1] |= {"cwd": "/y", "version": "2.1.8", "gitBranch": "dev", "userType": "external", "slug": "s"}
    log, lines = session(tmp_path, *rows)
    made, summary, *_ = rows_of(written(summed_up(log, "a3"), "claude-code", lines=lines), len(lines))
    for found in (made, summary):
        assert (found["cwd"], found["version"], found["gitBranch"], found["userType"], found["slug"]) == (
            "/y",
            "2.1.8",
            "dev",
            "external",
            "s",
        )


def test_t3_tokens_from_before_the_fold_are_not_listed_again(tmp_path: Path) -> None:
    """Or the program that goes on from it takes the view for as large as it was and compacts it at once."""
    log, lines = session(tmp_path, *talk())
    later = assistant("n2", "done", api_id="m9", usage=Usage(5, 6, 7, 8))
    data = written(summed_up(log, "a3").append(user("n1", "more"), later), "claude-code", lines=lines)
    first, last = [found["message"]["usage"] for found in rows_of(data, len(lines)) if found["type"] == "assistant"]
    assert set(first.values()) == {0}
    assert last == {"input_tokens": 5, "cache_creation_input_tokens": 6, "cache_read_input_tokens": 7, "output_tokens": 8}


def test_i2_a_response_listed_again_stays_one_under_a_new_id(tmp_path: Path) -> None:
    log, lines = session(tmp_path, *talk())
    data = written(cleared(log), "claude-code", lines=lines)
    ids = [found["message"]["id"] for found in rows_of(data, len(lines)) if found["type"] == "assistant"]
    assert ids[0] == ids[1] != ids[2] != ids[3]
    assert not {"m1", "m2", "m3"} & set(ids)
    assert "requestId" not in str(rows_of(data, len(lines)))


def test_m2_a_cleared_result_is_nowhere_behind_the_boundary(tmp_path: Path) -> None:
    log, lines = session(tmp_path, *talk())
    data = written(cleared(log), "claude-code", lines=lines)
    answer = next(found for found in rows_of(data, len(lines)) if "tool_result" in str(found))
    assert answer["message"]["content"][0]["content"] == "[Old tool result content cleared]"
    assert "toolUseResult" not in answer and "a long text" not in str(rows_of(data, len(lines)))
    caller = next(found["uuid"] for found in rows_of(data, len(lines)) if "'tool_use'" in str(found))
    assert answer["sourceToolAssistantUUID"] == caller
    assert rows_of(data, len(lines))[1]["message"]["content"] == "first", "a boundary without a summary"


def test_z4_a_result_that_is_shown_whole_keeps_what_the_screen_shows_of_it(tmp_path: Path) -> None:
    log, lines = session(tmp_path, *talk())
    hidden = log.append(Fold(id="h", level="manual", changes=(HideThinking("a4"),)))
    found = rows_of(written(hidden, "claude-code", lines=lines), len(lines))
    assert next(line for line in found if "tool_result" in str(line))["toolUseResult"] == {"file": "a long text"}
    assert "'thinking'" not in str(found) and len(found) == len(lines)


def test_z4_times_go_on_so_that_the_newest_leaf_is_the_last(tmp_path: Path) -> None:
    log, lines = session(tmp_path, *talk())
    for now in (None, 1.0, 1_900_000_000.5, 1e300):
        times = [found["timestamp"] for found in rows_of(written(cleared(log), "claude-code", lines=lines, now=now))]
        assert times == sorted(times) and len(set(times[len(lines) :])) == len(times) - len(lines)
        assert times[len(lines)] > times[len(lines) - 1]
    assert times[len(lines)].startswith("9999-")


def test_z4_what_was_said_since_is_appended_without_a_boundary(tmp_path: Path) -> None:
    log, lines = session(tmp_path, *talk())
    usage = Usage(1, 2, 3, 4)
    grown = log.append(
        user("n1", "go on", bare=True),
        assistant("n2", call("t9", "Bash", command="ls"), api_id="m9", usage=usage, model="claude-x"),
        user("n3", result("t9", "a.py")),
        entry("n4", "attachment", "a file was changed", meta=True),
    )
    data = written(grown, "claude-code", lines=lines)
    found = rows_of(data, len(lines))
    assert [line["parentUuid"] for line in found] == ["a4", *(line["uuid"] for line in found[:-1])]
    assert found[1]["message"] == {
        "id": "m9",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "stop_reason": None,
        "stop_sequence": None,
        "content": [{"type": "tool_use", "id": "t9", "name": "Bash", "input": {"command": "ls"}}],
        "usage": {"input_tokens": 1, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 4},
    }
    assert found[3]["type"] == "user" and found[3]["isMeta"] is True
    assert said(view_of(reread(data, tmp_path).main.log)) == said(view_of(grown))


def test_x5_a_recorded_compaction_that_was_taken_back_is_shown_whole(tmp_path: Path) -> None:
    rows = [row("user", "u", None), row("assistant", "a", "u"), boundary("b", "a", trigger="auto", preTokens=9)]
    log, lines = session(tmp_path, *rows, row("user", "s", "b", "told", isCompactSummary=True), row("user", "n", "s"))
    undone = log.append(Unfold(fold="fold:b"))
    data = written(undone, "claude-code", lines=lines)
    assert [e.id for e in view_of(undone).sent()] == ["u", "a", "n"]
    assert said(view_of(reread(data, tmp_path).main.log)) == said(view_of(undone))
    assert followed(data)[0]["message"]["content"] == "u"


def test_m2_a_clear_on_top_of_a_recorded_compaction_keeps_its_summary_as_one(tmp_path: Path) -> None:
    rows = [row("user", "u", None), boundary("b", "u", trigger="auto", preTokens=9), row("user", "s", "b", "told", isCompactSummary=True)]
    log, lines = session(tmp_path, *rows, row("assistant", "a", "s"), row("user", "n", "a"))
    data = written(log.append(Fold(id="h", level="snip", changes=(HideEntries(("a",)),), tokens_before=7)), "claude-code", lines=lines)
    made, summary, last = rows_of(data, len(lines))
    assert made["compactMetadata"] == {"trigger": "auto", "preTokens": 7}
    assert summary["isCompactSummary"] is True and last["message"]["content"] == "n" and "isCompactSummary" not in last


def test_x2_a_summary_behind_kept_entries_hides_nothing_of_them(tmp_path: Path) -> None:
    """A summary line in the middle would be read as the end of everything before it."""
    log, lines = session(tmp_path, *talk())
    stand_ins = (user("s", SUMMARY, summary=True),)
    partial = log.append(Fold(id="f", level="partial", changes=(HideSpan("a3", "a1", stand_ins),)))
    data = written(partial, "claude-code", lines=lines)
    assert [e.id for e in view_of(partial).sent()] == ["u1", "s", "u2", "a4"]
    assert said(view_of(reread(data, tmp_path).main.log)) == said(view_of(partial))
    assert "isCompactSummary" not in str(rows_of(data, len(lines)))


def test_l12_a_second_summary_does_not_hide_the_first(tmp_path: Path) -> None:
    log, lines = session(tmp_path, *talk())
    two = summed_up(log, "a3", more=(user("s2", "and the files", bare=True, summary=True),))
    data = written(two, "claude-code", lines=lines)
    assert [e.id for e in view_of(two).sent()] == ["s", "s2", "u2", "a4"]
    assert said(view_of(reread(data, tmp_path).main.log)) == said(view_of(two))


def test_c1_attachments_are_listed_as_they_are_and_changed_ones_as_their_text(tmp_path: Path) -> None:
    attachment = {"type": "queued_command", "prompt": "and this"}
    rows = [*talk(), row("attachment", "t", "a4", attachment=attachment, rendered=[1])]
    log, lines = session(tmp_path, *rows)
    listed = rows_of(written(cleared(log), "claude-code", lines=lines), len(lines))[-1]
    assert listed["type"] == "attachment" and listed["attachment"] == attachment and listed["rendered"] == [1]
    changed = log.append(Fold(id="f", level="micro", changes=(ReplaceBlocks((Target("t", 0),), ("gone",)),)))
    data = written(changed, "claude-code", lines=lines)
    listed = rows_of(data, len(lines))[-1]
    assert listed["type"] == "user" and listed["isMeta"] is True and "attachment" not in listed
    assert said(view_of(reread(data, tmp_path).main.log)) == said(view_of(changed))


def test_z4_images_stay(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    rows = [*talk(), row("user", "p", "a4", [{"type": "text", "text": "see"}, image])]
    log, lines = session(tmp_path, *rows)
    assert rows_of(written(cleared(log), "claude-code", lines=lines), len(lines))[-1]["message"]["content"][1] == image


def test_z4_a_sub_agents_compaction_stays_the_sub_agents(tmp_path: Path) -> None:
    main, agent = (conversation.log for conversation in read(SIDE).conversations)
    log = cleared(agent)
    again = reread(written(log, "claude-code", lines=lines_of(SIDE)), tmp_path)
    assert view_of(again.main.log) == view_of(main)
    assert [(c.kind, said(view_of(c.log))) for c in again.conversations[1:]] == [("sidechain", said(view_of(log)))]


def test_z4_a_torn_last_line_is_ended_before_anything_is_written_behind_it(tmp_path: Path) -> None:
    log, lines = session(tmp_path, *talk())
    torn = [*lines[:-1], lines[-1].rstrip(b"\n")]
    assert written(cleared(log), "claude-code", lines=torn) == written(cleared(log), "claude-code", lines=lines)
    ended = [line.rstrip(b"\n") + b"\r\n" for line in lines]
    assert written(cleared(log), "claude-code", lines=ended).startswith(b"".join(ended))


# --- from other sources


def fresh(*entries: Entry, **head: Any) -> bytes:
    return written(Log(Head(**head), entries), "claude-code", lines=[b'{"role":"user"}\n', b"# text\n", b""])


def test_z4_another_source_gives_a_session_of_its_own(tmp_path: Path) -> None:
    data = fresh(
        entry("y", "system", "Rules."),
        user("u", "hello", bare=True),
        assistant("a", "look:", call("c", "read", path="a"), model="gpt-x"),
        user("r", result("c", "A"), "and then?", Image({"type": "url", "url": "https://example.org/a.png"})),
        id="one",
        cwd="/x",
        system=(Text("Be brief."),),
        wire="openai-chat",
    )
    found = rows_of(data)
    assert [line["type"] for line in found] == ["user", "assistant", "assistant", "user", "user"]
    assert [line["parentUuid"] for line in found] == [None, *(line["uuid"] for line in found[:-1])]
    assert len({line["sessionId"] for line in found}) == 1 and all(line["cwd"] == "/x" for line in found)
    assert found[1]["message"]["id"] == found[2]["message"]["id"] and found[1]["message"]["model"] == "gpt-x"
    assert found[3]["message"]["content"] == [{"type": "tool_result", "tool_use_id": "c", "content": "A"}]
    assert b"Rules" not in data and b"Be brief" not in data
    assert reread(data, tmp_path).format == "claude-code"


def test_z4_a_session_id_that_is_a_uuid_is_kept() -> None:
    id = "c35cf82b-0486-4d17-94d7-7fa36376faff"
    assert rows_of(fresh(user("u", "hi"), id=id))[0]["sessionId"] == id
    assert len(rows_of(fresh(user("u", "hi"), id="run 7"))[0]["sessionId"]) == len(id)


def test_z4_a_compacted_one_begins_with_its_boundary_and_summary(tmp_path: Path) -> None:
    log = Log(Head(wire="pi"), (user("u1", "first"), assistant("a1", "ok"), user("u2", "second", bare=True)))
    data = written(summed_up(log, "a1"), "claude-code")
    made, summary, last = rows_of(data)
    assert made["subtype"] == "compact_boundary" and made["parentUuid"] is made["logicalParentUuid"] is None
    assert summary["isCompactSummary"] is True and summary["message"]["content"] == SUMMARY
    assert last["message"]["content"] == "second"
    assert b"first" not in data


def test_i10_repeated_ids_do_not_look_like_those_that_claude_code_makes_up() -> None:
    """It numbers repeats while it reads, and takes the answer of ``0_2`` for lost where there is a ``0``."""
    data = fresh(user("u", "go"), *_exchange("1"), *_exchange("2"), *_exchange("3"), wire="openai-chat")
    blocks = [part for line in rows_of(data)[1:] for part in line["message"]["content"]]
    assert [part.get("id") or part["tool_use_id"] for part in blocks] == ["0", "0", "0-2", "0-2", "0-3", "0-3"]


def _exchange(n: str) -> tuple[Entry, Entry]:
    return assistant(f"a{n}", call("0"), api_id=f"m{n}"), user(f"r{n}", result("0", n))


def test_i6_what_only_another_provider_knows_becomes_text() -> None:
    data = fresh(user("u", "go"), assistant("a", Thinking("hm"), "done", extra={"refusal": None}), wire="openai-chat")
    assert rows_of(data)[1]["message"]["content"] == [{"type": "text", "text": "done"}]
    assert "refusal" not in rows_of(data)[1]["message"]
    assert invariants.check([line["message"] for line in rows_of(data)]) == []
