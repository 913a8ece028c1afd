"""Section 4: old results cleared, results too large to enter, and what micro leaves alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fivefold.core import engine, ops
from fivefold.core.actions import Send
from fivefold.core.entries import CLEARED, Entry
from fivefold.core.estimate import measure_entry
from fivefold.core.events import Pinned, Replied, RequestDue, RequestRejected, Said
from fivefold.core.levels.cached import CachedEdits, EditsBlock
from fivefold.core.log import Log
from fivefold.core.messages import Image, Text, ToolResult, result_text
from fivefold.core.policy import MicroPolicy
from fivefold.core.rejection import Rejection
from fivefold.core.state import State
from fivefold.core.view import view_of
from tests.build import assistant, call, refused, result, user
from tests.rules.talk import MODEL, Talk, loop_of, of, rounds_of, setup_of, shown, stepped, talk, words

NOW = 1_000_000.0
HOUR_AGO = NOW - 3_600
UNCACHED = msgspec.structs.replace(MODEL, cache=None)
"""Without a cache, so that nothing but micro acts on an idle conversation."""
TIMED = {"micro": {"time_clear": True}}


def idle(entries: list[Entry], *, policy: dict[str, Any] | None = None, **more: Any) -> Talk:
    """A conversation whose last response is an hour old, before its next request."""
    return talk(entries, policy=TIMED if policy is None else policy, model=UNCACHED, **more)


def results(state: State) -> dict[str, str]:
    """The text of each result in view, by the id of its entry."""
    return {entry.id: result_text(block) for entry in state.view.entries() for block in entry.blocks if isinstance(block, ToolResult)}


def cleared(state: State) -> list[str]:
    return [id for id, text in results(state).items() if text == CLEARED]


# --- M1: whose results


def test_m1_only_results_of_tools_that_can_be_asked_again_are_cleared() -> None:
    tools = ["Read", "Bash", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write", "TodoWrite", "Task", "ExitPlanMode", "lookup_order"]
    entries = [entry for n, tool in enumerate(tools, 1) for entry in rounds_of(1, 500, start=n, tool=tool, time=HOUR_AGO)]
    entries += rounds_of(5, 500, start=20, time=HOUR_AGO)
    found = idle(entries)
    found.driver.before_request()
    assert cleared(found.driver.state) == ["r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"]


def test_m1_the_set_is_policy_and_names_have_aliases() -> None:
    entries = [*rounds_of(1, 500, tool="bash", time=HOUR_AGO), *rounds_of(1, 500, start=2, tool="read_file", time=HOUR_AGO)]
    entries += rounds_of(5, 500, start=20, tool="run_shell_command", time=HOUR_AGO)
    found = idle(entries, policy={"micro": {"time_clear": True, "compactable": ["shell"]}})
    found.driver.before_request()
    assert cleared(found.driver.state) == ["r1"]


def test_m1_the_first_path_that_acts_ends_micro_for_this_turn() -> None:
    state = engine.begin(
        Log(records=rounds_of(30, 400, time=HOUR_AGO)), msgspec.structs.replace(setup_of(200_000, TIMED, model=UNCACHED), cached_edits=True)
    )
    state, actions = stepped(state, RequestDue(now=NOW))
    assert len(cleared(state)) == 25
    (sent,) = of(actions, Send)
    assert sent.cache_edits == ()
    assert edits(after(state))[1] == ()  # and what is cleared does not count towards the other path (M5)


# --- M2: by time


def test_m2_after_an_hour_all_but_the_five_most_recent_are_cleared_and_pairing_stays() -> None:
    found = idle(rounds_of(9, 3_000, time=HOUR_AGO))
    found.driver.before_request()
    assert cleared(found.driver.state) == ["r1", "r2", "r3", "r4"]
    assert results(found.driver.state)["r1"] == "[Old tool result content cleared]"
    assert refused(found.driver.outgoing().messages) == []
    assert found.driver.log.folds[-1].fold.why.startswith("idle for 60 minutes")


def test_m2_not_a_second_earlier_and_off_by_default() -> None:
    assert MicroPolicy().time_clear is False and MicroPolicy().idle_minutes == 60 and MicroPolicy().keep_results == 5
    early = idle(rounds_of(9, 3_000, time=HOUR_AGO + 1))
    early.driver.before_request()
    off = idle(rounds_of(9, 3_000, time=HOUR_AGO), policy={})
    off.driver.before_request()
    assert cleared(early.driver.state) == cleared(off.driver.state) == []


def test_m2_what_is_little_goes_too_since_the_prefix_is_written_anew_anyway() -> None:
    found = idle(rounds_of(7, 100, time=HOUR_AGO))
    found.driver.before_request()
    assert cleared(found.driver.state) == ["r1", "r2"]


def test_m2_one_result_is_kept_whatever_the_policy_says() -> None:
    found = idle(rounds_of(3, 500, time=HOUR_AGO), policy={"micro": {"time_clear": True, "keep_results": 1}})
    found.driver.before_request()
    assert cleared(found.driver.state) == ["r1", "r2"]


@pytest.mark.parametrize(("source", "count"), [("main", 4), ("sdk", 4), ("agent:x", 0)])
def test_m2_on_the_main_thread_only(source: str, count: int) -> None:
    found = idle(rounds_of(9, 3_000, time=HOUR_AGO))
    found.driver.before_request(source=source)
    assert len(cleared(found.driver.state)) == count


# --- M3: in the provider's cache


def cached_state(rounds: int, policy: dict[str, Any] | None = None) -> State:
    setup = msgspec.structs.replace(setup_of(200_000, policy), cached_edits=True)
    return engine.begin(Log(records=rounds_of(rounds, 200, time=NOW)), setup)


def after(state: State, *entries: Entry, now: float = NOW) -> State:
    """The request was answered."""
    turn = len(state.log)
    answer = assistant(f"x{turn}", "Done.", api_id=f"y{turn}", time=now)
    return stepped(state, Replied(entries=(answer,), now=now), Said(entries=entries or (user(f"v{turn}", "Go on."),)))[0]


def edits(state: State, now: float = NOW, source: str = "main") -> tuple[State, tuple[EditsBlock, ...]]:
    """What the next request carries."""
    state, actions = stepped(state, RequestDue(now=now, source=source))
    (sent,) = of(actions, Send)
    return state, sent.cache_edits


def test_m3_over_twenty_results_the_oldest_down_to_five_are_offered_and_the_messages_stay() -> None:
    state = cached_state(20)
    assert edits(state)[1] == ()
    state = cached_state(21)
    view = state.view
    state, carried = edits(state)
    (block,) = carried
    assert block.deletes == tuple(f"t{n}" for n in range(1, 17)) and block.at == "r21"
    assert state.view is view


def test_m3_edits_that_were_sent_stand_at_the_same_place_in_every_later_request() -> None:
    state, first = edits(cached_state(21))
    state, second = edits(after(state))
    state, third = edits(after(state, *rounds_of(16, 200, start=40, time=NOW)))
    assert first == second and third[:1] == first and len(third) == 2
    assert third[1].deletes[:5] == ("t17", "t18", "t19", "t20", "t21") and third[1].at != first[0].at


def test_m3_a_request_that_failed_before_it_was_sent_loses_no_edit() -> None:
    state, first = edits(cached_state(21))
    broken = RequestRejected(rejection=Rejection(why="transient", message="connection reset"), now=NOW)
    state, _ = stepped(state, broken)
    assert edits(state)[1] == first


def test_m3_a_sub_agents_request_carries_none() -> None:
    assert edits(cached_state(21), source="agent:x")[1] == ()


def test_m3_only_on_providers_that_declare_it() -> None:
    state = engine.begin(Log(records=rounds_of(30, 200, time=NOW)), setup_of(200_000))
    assert edits(state)[1] == ()


def test_m3_when_the_cache_has_expired_all_pins_go_together() -> None:
    state, _ = edits(cached_state(21))
    state = after(state)
    assert state.tracking.cached.pinned
    state, carried = edits(state, now=NOW + 400)
    assert [block.deletes for block in carried] == [tuple(f"t{n}" for n in range(1, 17))]
    assert state.tracking.cached.pinned == () and state.tracking.cached.offered is not None


def test_m3_after_a_restart_no_pin_is_left() -> None:
    state, _ = edits(cached_state(21))
    state = after(state)
    log = state.log
    state, _ = stepped(state, Pinned(name="p", text="Mind the gap."))  # what is kept beside the log is written anew
    again = engine.begin(state.log, state.setup)
    assert state.log is not log and state.tracking.cached.pinned
    assert again.tracking.pins and again.tracking.cached == CachedEdits()


# --- M4, M7: nothing to do


def test_m4_with_nothing_to_do_the_view_is_the_same_object() -> None:
    state = engine.begin(Log(records=rounds_of(5, 300)), setup_of(200_000))
    view = state.view
    state, _ = stepped(state, RequestDue(now=NOW))
    assert state.view is view


def test_m7_t4_a_turn_looks_at_what_is_new_only() -> None:
    looked: list[str] = []
    setup = setup_of(1_000_000, model=msgspec.structs.replace(MODEL, window=1_000_000))
    state = engine.begin(Log(records=rounds_of(300, 20)), setup)
    state = state._replace(measure=lambda entry: looked.append(entry.id) or measure_entry(entry))
    state, _ = stepped(state, RequestDue(now=NOW))
    state = after(state, *rounds_of(1, 20, start=1_000))
    assert set(looked) == {"x1200", "u1000", "a1000", "r1000", "b1000"}
    assert len(looked) == 5


# --- M5, M6, M8


def test_m5_what_is_cleared_is_not_cleared_again_and_short_results_are_left() -> None:
    entries = [
        *rounds_of(3, 600, time=HOUR_AGO),
        user("s", "And this?"),
        assistant("sa", call("st", "Bash", command="true"), api_id="sm", time=HOUR_AGO),
        user("sr", result("st", "ok")),
        *rounds_of(5, 600, start=10, time=HOUR_AGO),
    ]
    found = idle(entries)
    found.driver.before_request()
    assert cleared(found.driver.state) == ["r1", "r2", "r3"] and results(found.driver.state)["sr"] == "ok"
    folds = found.driver.log.folds
    found.driver.replied(assistant("z", "Done.", api_id="z", time=HOUR_AGO))
    found.driver.before_request()
    assert found.driver.log.folds == folds


def test_m5_images_inside_cleared_results_go_too() -> None:
    image = Image({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="})
    entries = [
        user("u0", "Show me."),
        assistant("a0", call("t0", "Read", file_path="a.png"), api_id="m0", time=HOUR_AGO),
        user("r0", result("t0", (Text("A picture of a.png"), image))),
        *rounds_of(5, 300, time=HOUR_AGO),
    ]
    found = idle(entries)
    found.driver.before_request()
    assert cleared(found.driver.state) == ["r0"]
    assert not any(isinstance(block, Image) for message in found.driver.outgoing().messages for block in message.blocks)


def test_m6_a_full_compaction_resets_the_micro_state() -> None:
    state, _ = edits(cached_state(21))
    assert after(state).tracking.cached.pinned
    found = talk(rounds_of(60, 300, time=NOW), setup=msgspec.structs.replace(setup_of(20_000), cached_edits=True))
    sent = found.driver.before_request()
    assert found.named("compaction_finished") and sent.send.cache_edits == ()
    assert found.driver.state.tracking.cached == CachedEdits()


def test_m8_a_clear_is_made_once_and_its_bytes_stay() -> None:
    found = idle(rounds_of(9, 3_000, time=HOUR_AGO))
    found.driver.before_request()
    first = found.driver.outgoing().messages
    found.driver.replied(assistant("z", "Done.", api_id="z", time=NOW))
    found.driver.say(user("v", "Go on."))
    found.driver.before_request()
    assert found.driver.outgoing().messages[: len(first) - 1] == first[:-1]
    assert view_of(found.driver.log) == found.driver.state.view


def test_m8_asked_for_a_clear_is_made_only_where_it_frees_20_000_tokens() -> None:
    little, much = talk(rounds_of(11, 3_000)), talk(rounds_of(12, 3_000))
    assert not little.driver.preview(level="micro").changes_anything
    plan = much.driver.preview(level="micro")
    assert plan.success and plan.before - plan.after >= 20_000
    much.driver.apply(plan)
    assert len(cleared(much.driver.state)) == 7


def test_m8_in_a_small_window_the_least_gain_is_smaller() -> None:
    assert talk(rounds_of(9, 1_200), window=16_000).driver.preview(level="micro").success


# --- M9: by its money


def test_m9_it_is_off_by_default_and_clears_where_it_pays() -> None:
    assert MicroPolicy().pays is False
    entries = [*rounds_of(10, 10_000, time=NOW), *rounds_of(6, 200, start=20, time=NOW)]
    found = talk(entries, policy={"micro": {"pays": True}})
    for turn in range(40):  # a pace at which many turns are still to come
        found.driver.before_request()
        found.driver.replied(assistant(f"x{turn}", "Done.", api_id=f"y{turn}", time=NOW))
    assert [event["path"] for event in found.named("folded")] == ["pays"]
    assert "r1" in cleared(found.driver.state)


# --- M10: too large to enter


def test_m10_a_result_over_a_quarter_of_the_window_is_shown_head_and_tail_from_the_start() -> None:
    text = words(60_000)
    found = talk([user("u1", "Read it."), assistant("a1", call("t1", "Read", file_path="big.txt"), api_id="m1")])
    found.driver.say(user("r1", result("t1", text)))
    sent = found.driver.before_request()
    shown_text = results(found.driver.state)["r1"]
    most = 180_000 // 4
    assert found.driver.state.ledger.calibration.apply(ops.tokens_of(found.driver.state, shown_text)) <= most
    assert shown_text.startswith(text[:200]) and shown_text.endswith(text[-200:])
    assert f"{len(text):,} characters in all" in shown_text and "`recall` shows the whole: entry r1" in shown_text
    assert found.named("folded")[0]["path"] == "cap"
    assert refused(sent.request.messages) == []
    assert text in found.driver.call_tool("recall", {"id": "r1"}) or "r1" in found.driver.call_tool("recall", {"id": "r1"})


def test_m10_just_under_a_quarter_it_is_left() -> None:
    found = talk([user("u1", "Read it."), assistant("a1", call("t1", "Read", file_path="big.txt"), api_id="m1")])
    found.driver.say(user("r1", result("t1", words(33_000))))
    found.driver.before_request()
    assert found.named("folded") == []


def test_m10_all_results_of_a_round_together_hold_at_most_half_and_the_largest_are_cut_first() -> None:
    calls = [call(f"t{n}", "Read", file_path=f"{n}.txt") for n in range(1, 6)]
    found = talk([user("u1", "Read them."), assistant("a1", *calls, api_id="m1")])
    sizes = {1: 33_000, 2: 30_000, 3: 28_000, 4: 2_000, 5: 500}
    found.driver.say(*(user(f"r{n}", result(f"t{n}", words(size, f"file{n}"))) for n, size in sizes.items()))
    found.driver.before_request()
    held = {id: ops.tokens_of(found.driver.state, text) * 4 / 3 for id, text in results(found.driver.state).items()}
    assert sum(held.values()) <= 90_000
    assert held["r4"] > 2_500 and held["r5"] > 600  # those that are small stay whole
    assert max(held["r1"], held["r2"], held["r3"]) - min(held["r1"], held["r2"], held["r3"]) < 500


def test_m10_a_result_that_a_request_has_held_already_is_not_touched() -> None:
    found = talk([*rounds_of(1, 60_000), user("v", "And?")])
    found.driver.before_request()
    assert found.named("folded") == []


def test_m10_each_round_has_its_own_half() -> None:
    found = talk([user("u1", "Read."), assistant("a1", call("t1", "Read", file_path="1"), api_id="m1")])
    found.driver.say(user("r1", result("t1", words(33_000))))
    found.driver.before_request()
    found.driver.replied(assistant("a2", call("t2", "Read", file_path="2"), call("t3", "Read", file_path="3"), api_id="m2"))
    found.driver.say(user("r2", result("t2", words(33_000))), user("r3", result("t3", words(20_000))))
    found.driver.before_request()
    assert found.named("folded") == [] and shown(found.driver.state)[-1] == "r3"


def test_m10_loop_of_large_results_never_overflows_the_window() -> None:
    found = talk(loop_of(1, 100), window=20_000)
    for n in range(2, 6):
        found.driver.before_request()
        found.driver.replied(assistant(f"a{n}", call(f"t{n}", "Bash", command=f"cat {n}"), api_id=f"m{n}"))
        found.driver.say(user(f"r{n}", result(f"t{n}", words(40_000, f"line{n}"))))
    found.driver.before_request()
    assert found.driver.tokens < 16_000
