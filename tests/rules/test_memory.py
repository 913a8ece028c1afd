"""Section 7: when the session memory is brought up to date, what stays verbatim behind it, and when it says no."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from fivefold.core import engine
from fivefold.core.actions import ExtractMemory
from fivefold.core.entries import Entry, HideSpan
from fivefold.core.estimate import estimate_text
from fivefold.core.events import MemoryUpdated, Replied, RequestDue, Said
from fivefold.core.levels.session_memory import Kept, due, kept
from fivefold.core.log import Log
from fivefold.core.policy import MemoryPolicy
from fivefold.core.state import State, Tracking
from fivefold.core.view import view_of
from fivefold.core.window import scaled, window_of
from fivefold.hooks import Hooks
from fivefold.perform import Ports
from tests.build import assistant, call, refused, result, user
from tests.rules.talk import (
    Remembered,
    Talk,
    Writer,
    counting,
    of,
    rounds_of,
    said,
    setup_of,
    shown,
    stepped,
    summaries,
    talk,
    words,
    written,
)

NOW = 1_000_000.0
NOTES = "# Current state\nPart 3 holds value_3.\n\n# Open items\nRead part 13."
FULL = window_of(200_000, 64_000)


def extracting(sizes: dict[str, int], *, covered: str | None = None, entries: Sequence[Entry] | None = None, **more: Any) -> State:
    """A conversation whose memory somebody keeps up to date, with sizes as written out; a size counts 4/3 on the meter."""
    setup = msgspec.structs.replace(setup_of(200_000), extracts=True)
    log = Log(records=entries if entries is not None else rounds_of(1, 1))
    return engine.begin(log, setup, Tracking(covered=covered, **more), measure=counting(sizes, usual=0))


def asked_for(state: State, source: str = "main") -> list[str]:
    """The extractions that the next request starts."""
    return [action.up_to for action in of(stepped(state, RequestDue(now=NOW, source=source))[1], ExtractMemory)]


# --- S1: when


@pytest.mark.parametrize(("size", "begun"), [(7_499, []), (7_500, ["b1"])])
def test_s1_first_when_the_view_reaches_10_000_tokens(size: int, begun: list[str]) -> None:
    state = extracting({"r1": size})
    assert asked_for(state) == begun


def calls_since(calls: int, *, pause: bool) -> list[Entry]:
    """What is covered (``b1``), then so many calls with results, then, at a pause, an answer that calls nothing."""
    found = rounds_of(1, 1)
    for n in range(2, calls + 2):
        found += [assistant(f"a{n}", call(f"t{n}"), api_id=f"m{n}"), user(f"r{n}", result(f"t{n}"))]
    return [*found, assistant("end", "That is it.", api_id="me")] if pause else found


@pytest.mark.parametrize(
    ("tokens", "calls", "pause", "begun"),
    [
        (5_000, 3, False, True),
        (4_999, 3, False, False),
        (5_000, 2, False, False),
        (5_000, 1, True, True),
        (4_999, 1, True, False),
        (9_000, 2, False, False),
    ],
    ids=["5,000 and 3 calls", "a token short", "a call short", "a pause", "a pause, a token short", "much, in the middle of a turn"],
)
def test_s1_then_with_5_000_tokens_more_and_three_calls_or_a_natural_pause(tokens: int, calls: int, pause: bool, begun: bool) -> None:
    entries = calls_since(calls, pause=pause)
    state = extracting({"r1": 20_000, "r2": tokens}, covered="b1", entries=entries)
    assert asked_for(state) == ([entries[-1].id] if begun else [])


def test_s1_never_inside_a_call_and_its_result() -> None:
    entries = [*rounds_of(1, 1), user("u2", "Go on."), assistant("a2", call("t2"), call("t3"), api_id="m2"), user("r2", result("t2"))]
    assert asked_for(extracting({"r1": 20_000}, entries=entries)) == []
    assert asked_for(extracting({"r1": 20_000}, entries=[*entries, user("r3", result("t3"))])) == ["r3"]


def test_s1_what_is_handed_over_ends_where_the_request_was_made() -> None:
    handed: list[list[str]] = []

    def extract(entries: Sequence[Entry], covered: str | None) -> str:
        handed.append([entry.id for entry in entries])
        return entries[-1].id

    found = talk(rounds_of(6, 2_000), ports=Ports(extract=extract))
    found.driver.before_request()
    found.driver.replied(assistant("a9", call("t9"), api_id="m9"))  # a call is open by now
    assert found.driver.run_background() == 1
    assert handed[0][0] == "u1" and handed[0][-1] == "b6"
    assert found.driver.state.tracking.covered == "b6"


# --- S2, S3: who, and one at a time


@pytest.mark.parametrize("source", ["session_memory", "compact", "agent:x"])
def test_s2_only_the_main_conversation_starts_one(source: str) -> None:
    assert asked_for(extracting({"r1": 20_000}), source) == []


def test_s2_the_next_run_is_given_what_the_memory_does_not_cover_and_no_more() -> None:
    handed: list[tuple[list[str], str | None]] = []

    def extract(entries: Sequence[Entry], covered: str | None) -> str:
        handed.append(([entry.id for entry in entries], covered))
        return entries[-1].id

    found = talk(rounds_of(6, 2_000), ports=Ports(extract=extract))
    for turn in range(2):
        found.driver.before_request()
        found.driver.run_background()
        found.driver.replied(assistant(f"x{turn}", "Done.", api_id=f"y{turn}"))
        found.driver.say(*rounds_of(4, 2_000, start=20 + 10 * turn))
    assert handed[1][1] == "b6" and handed[1][0][0] == "x0"


def test_s3_one_at_a_time_and_a_request_during_one_is_coalesced() -> None:
    state = extracting({"r1": 20_000, "r9": 50_000})
    state, actions = stepped(state, RequestDue(now=NOW))
    assert len(of(actions, ExtractMemory)) == 1
    more = tuple(rounds_of(1, 1, start=9))
    state, actions = stepped(
        state, Replied(entries=(assistant("x", "Done.", api_id="y"),), now=NOW), Said(entries=more), RequestDue(now=NOW)
    )
    assert of(actions, ExtractMemory) == []
    state, _ = stepped(state, MemoryUpdated(covered="b1"), Replied(entries=(assistant("z", "Done.", api_id="z"),), now=NOW))
    assert asked_for(state) == ["z"]


def test_s1_s3_behind_a_compaction_it_goes_on() -> None:
    handed: list[list[str]] = []

    def extract(entries: Sequence[Entry], covered: str | None) -> str:
        handed.append([entry.id for entry in entries])
        return entries[-1].id

    found = talk(rounds_of(5, 1_500), window=20_000, ports=Ports(extract=extract))
    for turn in range(3):
        found.driver.before_request()
        found.driver.run_background()
        found.driver.replied(assistant(f"x{turn}", "Done.", api_id=f"y{turn}"))
        if turn == 0:
            found.driver.say(*rounds_of(3, 1_500, start=20))  # and with these a compaction is due
    assert len(found.named("compaction_finished")) == 1 and len(handed) == 2
    assert found.driver.state.tracking.covered in shown(found.driver.state)


def test_s3_a_failed_run_leaves_the_covered_id_and_is_said() -> None:
    def extract(entries: Sequence[Entry], covered: str | None) -> str:
        raise OSError("the disk is full")

    found = talk(rounds_of(6, 2_000), ports=Ports(extract=extract), tracking=Tracking(covered="b1"))
    found.driver.before_request()
    found.driver.run_background()
    assert found.driver.state.tracking.covered == "b1" and not found.driver.state.tracking.extracting
    assert found.named("extraction_failed") == [{"why": "OSError: the disk is full"}]
    found.driver.replied(assistant("x", "Done.", api_id="y"))
    assert found.driver.before_request().request.messages


def test_s3_the_covered_id_survives_a_restart() -> None:
    state = extracting({"r1": 20_000})
    state, _ = stepped(state, MemoryUpdated(covered="b1"))
    assert engine.begin(state.log, state.setup).tracking.covered == "b1"


# --- S4, S5: reading it


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_s4_an_empty_memory_counts_as_none(text: str | None) -> None:
    found = talk(rounds_of(12, 1_500), window=20_000, ports=Ports(memory=Remembered(text)))
    found.driver.before_request()
    assert found.driver.log.folds[-1].fold.extra["method"] == "structural"


def test_s5_a_running_extraction_is_waited_for_15_seconds_and_given_up_on_after_60() -> None:
    memory = Remembered(NOTES, running=True)
    found = talk(rounds_of(12, 1_500), window=20_000, ports=Ports(memory=memory))
    found.driver.before_request()
    assert memory.waits == [(15, 60)] and len(found.named("memory_wait_over")) == 1
    assert found.driver.log.folds[-1].fold.extra["method"] == "memory"


def test_s5_no_model_is_called_and_it_takes_milliseconds() -> None:
    writer = Writer([written()])
    ports = Ports(memory=Remembered(NOTES), ask=writer)
    found = talk(rounds_of(200, 1_000), policy={"summary": {"method": "model"}}, ports=ports)
    began = time.perf_counter()
    found.driver.before_request()
    assert writer.asked == [] and found.driver.log.folds[-1].fold.extra["method"] == "memory"
    assert time.perf_counter() - began < 5


# --- S6, S7: what stays verbatim


def plain(count: int) -> list[Entry]:
    """Texts in turn of the user and the assistant, ``e0`` …"""
    return [user(f"e{n}", "Words.") if n % 2 == 0 else assistant(f"e{n}", "Words.", api_id=f"m{n}") for n in range(count)]


def kept_from(entries: Sequence[Entry], sizes: Sequence[int], covered: str | None, *, minimum: bool = False) -> int:
    found = kept(view_of(Log(records=entries)), sizes, covered, MemoryPolicy(), FULL, minimum=minimum)
    assert isinstance(found, Kept)
    return found.at


def test_s6_what_is_not_covered_is_enough_where_it_has_10_000_tokens_in_5_entries() -> None:
    assert kept_from(plain(20), [2_000] * 20, "e14") == 15
    assert kept_from(plain(20), [1_999] * 20, "e14") == 14


def test_s6_it_goes_back_until_10_000_tokens_are_held() -> None:
    assert kept_from(plain(20), [1_000] * 20, "e17") == 10


def test_s6_it_goes_back_until_5_entries_have_text() -> None:
    assert kept_from(plain(20), [6_000] * 20, "e17") == 15


def silent(count: int) -> list[Entry]:
    """Calls and their results, none of which has text: ``a0``, ``r0``, …"""
    found: list[Entry] = [user("u", "Go.")]
    for n in range(count):
        found += [assistant(f"a{n}", call(f"t{n}"), api_id=f"m{n}"), user(f"r{n}", result(f"t{n}"))]
    return found


def test_s6_the_entry_that_crosses_40_000_is_the_last_one_taken() -> None:
    entries = silent(10)  # u a0 r0 … a9 r9
    sizes = [0] + [1_000, 14_000] * 10
    assert kept_from(entries, sizes, "r9") == 15  # 14 + 1 + 14 + 1 = 30,000, and then 44,000 with r7, whose call comes with it
    assert kept_from(entries, [0] + [1_000, 12_000] * 10, "r9") == 13  # 39,000 has not crossed it yet


def test_s6_the_cap_never_drops_what_the_memory_does_not_cover() -> None:
    assert kept_from(plain(20), [20_000] * 20, "e5") == 6


def test_s6_the_extension_never_crosses_the_last_boundary() -> None:
    entries = plain(12)
    entries[8] = user("e8", "A summary.", summary=True, meta=True)
    assert kept_from(entries, [100] * 12, "e10") == 9


def test_s6_w7_the_numbers_shrink_in_a_small_window() -> None:
    small = window_of(20_000, 64_000)  # its threshold is 13,400, a fifth of 67,000
    found = kept(view_of(Log(records=plain(20))), [400] * 20, "e18", MemoryPolicy(), small, minimum=False)
    assert isinstance(found, Kept) and found.at == 15


def test_s7_the_cut_moves_back_until_no_call_is_parted_from_its_result() -> None:
    entries = [
        *plain(10),
        assistant("a", "x", call("t1"), call("t2"), api_id="ma"),
        user("r1", result("t1")),
        user("r2", result("t2")),
        *rounds_of(3, 1, start=20),
    ]
    sizes = [100] * 10 + [100, 100, 4_000] + [600] * 12
    at = kept_from(entries, sizes, "b22")
    assert entries[at].id == "a"


def test_s7_i9_a_result_that_came_late_moves_it_back_further() -> None:
    entries = [
        *plain(10),
        assistant("a", call("t1"), api_id="ma"),
        user("x", "Meanwhile."),
        assistant("y", "Yes.", api_id="my"),
        user("late", result("t1")),
        assistant("z", "Done.", api_id="mz"),
    ]
    assert entries[kept_from(entries, [100] * 15, "y", minimum=True)].id == "a"


# --- S8: the three cases


def memory_talk(covered: str | None, text: str | None = NOTES, *, path: str = "", tokens: int = 1_500, **more: Any) -> Talk:
    more.setdefault("window", 20_000)
    return talk(rounds_of(12, tokens), ports=Ports(memory=Remembered(text, path=path)), tracking=Tracking(covered=covered), **more)


def test_s8_covered_and_in_view_it_stands_for_what_it_covers() -> None:
    found = memory_talk("b10")
    found.driver.before_request()
    (fold,) = [placed.fold for placed in found.driver.log.folds]
    assert fold.extra["method"] == "memory" and isinstance(fold.changes[0], HideSpan)
    assert {"u11", "b11", "u12", "b12"} <= set(shown(found.driver.state))
    assert found.named("memory_resumed") == []


def test_s8_a_covered_id_that_is_gone_from_the_view_says_no() -> None:
    found = memory_talk("someone-elses")
    found.driver.before_request()
    (fold,) = [placed.fold for placed in found.driver.log.folds]
    assert fold.extra["method"] == "structural"
    assert "gone from the view" in fold.extra["tried"][0]


def test_s8_without_one_everything_may_be_folded_but_the_minimum_tail_and_that_is_an_event() -> None:
    found = memory_talk(None)
    found.driver.before_request()
    (fold,) = [placed.fold for placed in found.driver.log.folds]
    assert fold.extra["method"] == "memory" and len(found.named("memory_resumed")) == 1
    left = [id for id in shown(found.driver.state) if id[0] in "uarb"]
    assert left and left[-1] == "b12" and "b6" not in left


# --- S9, S10: what it makes


def test_s9_the_view_begins_with_a_boundary_and_one_summary_that_holds_the_memory() -> None:
    found = memory_talk("b10")
    found.driver.before_request()
    entries = list(found.driver.state.view.entries())
    assert [entry.kind for entry in entries[:2]] == ["boundary", "user"] and len(summaries(found.driver.state)) == 1
    boundary = entries[0].boundary
    assert boundary is not None and boundary.trigger == "auto" and boundary.kept[1] == "b12"
    assert boundary.covered == found.driver.log.entry_at(found.driver.log.position(boundary.kept[0]) - 1).id
    assert "Part 3 holds value_3." in said(found.driver.state) and refused(found.driver.outgoing().messages) == []


def text_of(found: Talk) -> str:
    (summary,) = summaries(found.driver.state)
    return summary.blocks[0].text


def test_s9_the_summary_says_where_the_whole_is_and_that_messages_follow_and_to_go_on_without_asking() -> None:
    setup = msgspec.structs.replace(setup_of(20_000), transcript="sessions/a.jsonl")
    found = memory_talk("b10", setup=setup)
    found.driver.before_request()
    text = text_of(found)
    assert "sessions/a.jsonl" in text and "`recall`" in text
    assert "follow" in text and "without asking" in text
    asked = memory_talk("b10", setup=setup)
    asked.driver.compact()
    assert "without asking" not in text_of(asked)


def test_s9_kept_entries_then_attachments_then_hook_results() -> None:
    hooks = Hooks()
    hooks.add("session_start", lambda payload: "Project rule: no tabs.")
    ports = Ports(memory=Remembered(NOTES), hooks=hooks, attachments=(lambda: "The plan: read on.",))
    found = talk(rounds_of(12, 1_500), window=20_000, ports=ports, tracking=Tracking(covered="b10"))
    found.driver.before_request()
    entries = [item.entry for item in found.driver.state.view.shown() if item.entry.kind != "note"]
    assert [entry.kind for entry in entries[-2:]] == ["attachment", "attachment"]
    assert [entry.blocks[0].text for entry in entries[-2:]] == ["The plan: read on.", "Project rule: no tabs."]
    assert entries[-3].id == "b12"


def test_s9_a_section_that_is_too_large_is_cut_at_a_line_and_says_where_the_whole_is() -> None:
    """The first lines of what was learned stay, the last ones of the log; in a small window the limit is smaller (W7)."""
    learned, log = ([f"{what} {n}: a line of some words that says so" for n in range(400)] for what in ("learned", "done"))
    memory = "\n".join(["# Task", "Move the parser.", "# Learned", *learned, "```", "# no heading", "```", "# Log", *log])
    found = memory_talk("b10", memory, path="notes/a.md", window=60_000, tokens=4_500)
    found.driver.before_request()
    lines = text_of(found).splitlines()
    task, at, end = lines.index("# Task"), lines.index("# Learned"), lines.index("# Log")
    assert lines[task + 1] == "Move the parser." and lines[at + 1] == learned[0] and lines[end - 2] in learned
    assert lines[end - 1].endswith("more lines: the whole section is in notes/a.md]") and lines[end + 1].startswith("[…")
    assert lines[end + 2] in log and log[-1] in lines and log[0] not in lines and learned[-1] not in lines
    cut = estimate_text("\n".join(lines[at:end]))
    assert 0.9 * scaled(2_000, found.driver.state.setup.window) <= cut <= scaled(2_000, found.driver.state.setup.window) + 40


def test_s10_where_the_whole_rebuilt_view_would_be_no_success_it_says_no() -> None:
    found = memory_talk("b10", "\n".join(f"# Part {n}\n{'word ' * 130}" for n in range(70)))
    found.driver.before_request()
    (fold,) = [placed.fold for placed in found.driver.log.folds]
    assert fold.extra["method"] == "structural"
    assert [line.split(":")[0] for line in fold.extra["tried"]] == ["memory", "memory, minimum tail"]
    assert found.driver.tokens <= 10_720


def test_s10_the_minimum_tail_is_tried_before_anything_else() -> None:
    found = talk(
        rounds_of(12, 1_500),
        window=20_000,
        ports=Ports(memory=Remembered("\n".join(f"# Part {n}\n{words(140, 'note')}" for n in range(50)))),
        tracking=Tracking(covered="b12"),
    )
    found.driver.before_request()
    (fold,) = [placed.fold for placed in found.driver.log.folds]
    assert fold.extra["path"] == "memory, minimum tail" and fold.extra["tried"][0].startswith("memory: ")


def test_s1_after_the_first_time_three_calls_are_enough_in_the_middle_of_work_and_none_at_a_pause() -> None:
    """5,000 tokens since what is covered: with three calls it is due though the last turn called a tool; with fewer only where the last
    turn called none."""

    def up_to(calls: int, pause: bool) -> str | None:
        entries = [user("u", "Go."), assistant("covered", "Yes.", api_id="m")]
        for n in range(calls):
            entries += [assistant(f"a{n}", call(f"t{n}"), api_id=f"m{n}"), user(f"r{n}", result(f"t{n}"))]
        entries += [assistant("end", "A pause.", api_id="me")] if pause else []
        sizes = [0, 0, *[6_000] * (len(entries) - 2)]
        return due(view_of(Log(records=entries)), sizes, sum(sizes), "covered", MemoryPolicy(), FULL)

    words = view_of(Log(records=[user("covered", "Go."), user("v", "A long paste.")]))
    assert due(words, [0, 6_000], 6_000, "covered", MemoryPolicy(), FULL) == "v", "nobody has called anything"
    assert [up_to(3, False), up_to(4, True), up_to(2, True), up_to(2, False)] == ["r2", "end", "end", None]
