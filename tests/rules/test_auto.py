"""Section 3: when a conversation is compacted unasked, what counts as success, and when it is left alone; and the window's rules
where only the engine shows them (T3, T5, W4, W8, W9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fivefold.core import engine, ops
from fivefold.core.actions import CountTokens, Emit, Send, Summarize
from fivefold.core.entries import Entry, Fold
from fivefold.core.estimate import Measure
from fivefold.core.events import CompactAsked, Counted, Event, Replied, RequestDue, RequestRejected, Said, Summarized, SummaryFailed
from fivefold.core.log import Log
from fivefold.core.rejection import Rejection
from fivefold.core.state import Phase, State, Tracking
from fivefold.errors import CannotFitError, PromptTooLongError
from fivefold.perform import Ports
from tests.build import assistant, user
from tests.rules.talk import (
    MODEL,
    Remembered,
    Talk,
    Writer,
    loop_of,
    of,
    played,
    rounds_of,
    said,
    setup_of,
    shown,
    stepped,
    summaries,
    talk,
    too_long,
    usage,
    words,
    written,
)

NOW = 1_000_000.0


def counted_talk(size: int, **more: Any) -> Talk:
    """Two entries of which the provider has said how large they are, at 200K tokens: 167,000 is the threshold."""
    return talk([user("u1", "Hello."), assistant("a1", "Hello.", api_id="m1", usage=usage(size), time=NOW)], overhead=None, **more)


def tries(found: Talk) -> int:
    """How often a compaction was begun."""
    return len(found.named("compaction_started"))


def sized(sizes: dict[str, int], *, usual: int = 0, summary: int = 300) -> Callable[[Entry], Measure]:
    """A measure of written-out tokens; a summary has its own."""
    return lambda entry: Measure(summary if entry.summary else sizes.get(entry.id, usual), 1, False)


def state_of(sizes: dict[str, int], *, summary: int = 300, policy: dict[str, Any] | None = None, **more: Any) -> State:
    """A state at 200K tokens of as many rounds as there are sizes, by the id of their results (``r1`` …); a size counts 4/3."""
    entries = [entry for n in range(1, len(sizes) + 1) for entry in rounds_of(1, 1, start=n)]
    setup = more.pop("setup", None) or setup_of(200_000, policy)
    return engine.begin(Log(records=entries), setup, more.pop("tracking", None), measure=sized(sizes, summary=summary))


def stands_for(state: State, first: str, last: str, text: str = "What was done.") -> Summarized:
    return Summarized(text=text, method="structural", first=first, last=last)


def answer_with(*answers: Event | str) -> Callable[[Any], Event]:
    """Gives these in order to whatever is asked; a text is a failure."""
    left = list(answers)

    def answer(action: Any) -> Event:
        found = left.pop(0) if len(left) > 1 else left[0]
        return SummaryFailed(why=found) if isinstance(found, str) else found

    return answer


# --- A1: when, and on what size


@pytest.mark.parametrize(("size", "begun"), [(166_999, 0), (167_000, 1)])
def test_a1_w2_a_200k_window_is_compacted_at_167_000_and_not_before(size: int, begun: int) -> None:
    found = counted_talk(size)
    found.driver.before_request()
    assert tries(found) == begun


def test_a1_what_snip_freed_is_counted_once_and_keeps_auto_from_folding() -> None:
    found = talk(rounds_of(10, 1_200), window=20_000)
    assert found.driver.tokens > found.driver.state.setup.window.auto
    found.driver.snip("r1", "r2", "r3", "r4", "r5")
    sent = found.driver.before_request()
    assert [event["level"] for event in found.named("folded")] == ["snip"] and tries(found) == 0
    (fold,) = [placed.fold for placed in found.driver.log.folds]
    assert fold.tokens_after == found.driver.tokens < found.driver.state.setup.window.auto
    assert sent.request.messages


def test_a1_what_micro_cleared_keeps_auto_from_folding() -> None:
    uncached = msgspec.structs.replace(MODEL, cache=None)
    found = talk(rounds_of(12, 1_000, time=0.0), window=20_000, policy={"micro": {"time_clear": True}}, model=uncached)
    assert found.driver.tokens > found.driver.state.setup.window.auto
    found.driver.before_request()
    assert [event["path"] for event in found.named("folded")] == ["clear"] and tries(found) == 0


# --- A2, A3: whom it is never for, and how it is switched off


@pytest.mark.parametrize(
    ("source", "begun"), [("main", 1), ("sdk", 1), ("agent:review", 1), ("compact", 0), ("session_memory", 0), ("collapse", 1)]
)
def test_a2_a_compaction_never_begins_inside_a_compaction_or_an_extraction(source: str, begun: int) -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    found.driver.before_request(source=source)
    assert tries(found) == begun


def test_a2_x4_not_for_collapse_while_context_collapse_is_on() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000, policy={"collapse": {"enabled": True}})
    found.driver.before_request(source="collapse")
    assert tries(found) == 0


def test_a3_auto_off_leaves_the_view_alone_and_an_overflow_is_a_typed_error() -> None:
    entries = [*rounds_of(7, 1_000, time=0.0), *loop_of(1, 8_000, start=8)]
    found = talk(entries, window=40_000, policy={"auto": {"enabled": False}, "micro": {"time_clear": True}})
    before = shown(found.driver.state), said(found.driver.state)
    found.driver.before_request()
    with pytest.raises(PromptTooLongError) as refused:
        found.driver.rejected(too_long(26_000, 20_000))
    assert (refused.value.actual, refused.value.limit) == (26_000, 20_000)
    assert (shown(found.driver.state)[: len(before[0])], said(found.driver.state)) == before
    assert found.named("folded") == [] and tries(found) == 0
    assert found.driver.compact().success  # asked for, it still works


def test_a3_reactive_only_leaves_level_4_on() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000, policy={"auto": {"reactive_only": True}})
    found.driver.before_request()
    assert tries(found) == 0
    again = found.driver.rejected(too_long(26_000, 20_000))
    assert again.send.transition == "reactive_compact_retry"
    assert found.driver.tokens < 20_000


# --- A4: who writes the summary


def test_a4_session_memory_comes_first_and_costs_no_model_call() -> None:
    writer, memory = Writer([written()]), Remembered("# Current state\nPart 3 holds value_3.")
    found = talk(rounds_of(12, 1_500), window=20_000, policy={"summary": {"method": "model"}}, ports=Ports(ask=writer, memory=memory))
    found.driver.before_request()
    (done,) = found.named("compaction_finished")
    assert done["path"].startswith("memory") and done["llm_calls"] == 0 and writer.asked == []
    assert "Part 3 holds value_3." in said(found.driver.state)


def test_a4_only_where_memory_says_no_the_configured_summariser_is_asked() -> None:
    writer = Writer([written("The parts were read.")])
    ports = Ports(ask=writer, memory=Remembered(None))
    found = talk(rounds_of(12, 1_500), window=20_000, policy={"summary": {"method": "model"}}, ports=ports)
    found.driver.before_request()
    (done,) = found.named("compaction_finished")
    assert (done["path"], done["llm_calls"], len(writer.asked)) == ("summary", 1, 1)
    assert "The parts were read." in said(found.driver.state)


def test_a4_by_default_code_writes_it() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    found.driver.before_request()
    (done,) = found.named("compaction_finished")
    assert done["llm_calls"] == 0
    assert found.driver.log.folds[-1].fold.extra["method"] == "structural"


def test_a4_a_model_that_fails_is_reported_and_code_writes_it_instead() -> None:
    writer = Writer([Rejection(why="other", message="no such model", status=404)])
    found = talk(rounds_of(12, 1_500), window=20_000, policy={"summary": {"method": "model"}}, ports=Ports(ask=writer))
    found.driver.before_request()
    (failed,) = found.named("summary_failed")
    assert failed["method"] == "model" and "no such model" in failed["why"]
    assert found.driver.log.folds[-1].fold.extra["method"] == "structural"
    assert found.driver.tokens < found.driver.state.setup.window.auto


def test_a4_a6_after_three_models_that_failed_in_a_row_code_writes_without_asking() -> None:
    writer = Writer([Rejection(why="other", message="bad request", status=400)])
    found = talk(rounds_of(12, 1_500), window=20_000, policy={"summary": {"method": "model"}}, ports=Ports(ask=writer))
    asked = []
    for turn in range(5):
        found.driver.before_request()
        found.driver.replied(assistant(f"c{turn}", "Done.", api_id=f"x{turn}"))
        found.driver.say(*rounds_of(8, 1_500, start=100 * (turn + 1)))
        asked.append(len(writer.asked))
    assert len(found.named("compaction_finished")) == 5
    assert asked[0] > 0 and asked[2] > asked[1] and asked[4] == asked[3] == asked[2]


def test_a4_auto_compaction_takes_no_instructions_of_the_user() -> None:
    writer = Writer([written()])
    policy = {"summary": {"method": "model", "instructions": ["Keep the figures."]}}
    found = talk(rounds_of(12, 1_500), window=20_000, policy=policy, ports=Ports(ask=writer))
    found.driver.compact(instructions=["Mind the birds."])
    found.driver.replied(assistant("c1", "Done.", api_id="x1"))
    found.driver.say(*rounds_of(12, 1_500, start=20))
    found.driver.before_request()
    asked = [ask.text for ask in writer.asked]
    assert "Mind the birds." in asked[0] and all("Keep the figures." in text for text in asked)
    assert len(asked) == 2 and "Mind the birds." not in asked[1]


# --- A5: the chain


def test_a5_each_compaction_says_what_it_follows_and_how_many_turns_since() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    found.driver.before_request(source="agent:review")
    for turn in range(3):
        found.driver.replied(assistant(f"c{turn}", "Done.", api_id=f"x{turn}"))
        if turn < 2:
            found.driver.before_request()
    found.driver.say(*rounds_of(12, 1_500, start=20))
    found.driver.before_request()
    first, second = found.named("compaction_finished")
    assert (first["follows_another"], first["previous_turn_id"], first["source"]) == (False, "", "agent:review")
    assert (second["follows_another"], second["turns_since"], second["previous_turn_id"]) == (True, 3, first["fold"])
    assert second["threshold"] == found.driver.state.setup.window.auto == 13_400


def test_a5_a_success_sets_compacted_a_new_turn_id_and_the_counter_to_zero() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    found.driver.before_request()
    tracking = found.driver.state.tracking
    assert (tracking.compacted, tracking.turns, tracking.turn_id) == (True, 0, found.driver.log.folds[-1].fold.id)
    found.driver.replied(assistant("c1", "Done.", api_id="x1"))
    assert found.driver.state.tracking.turns == 1


def test_a5_k2_the_counter_goes_on_after_a_restart() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    for turn in range(3):
        found.driver.before_request()
        found.driver.replied(assistant(f"c{turn}", "Done.", api_id=f"x{turn}"))
    again = talk([], log=found.driver.log, window=20_000)
    assert again.driver.state.tracking.turns == found.driver.state.tracking.turns == 3


# --- A6: the breaker


def fails(state: State, now: float = NOW) -> tuple[State, list[Any]]:
    """A request before which no summary comes, answered by one more round."""
    state, actions = played(state, RequestDue(now=now), answer_with("no summary"))
    turn = len(state.log)
    answer = assistant(f"x{turn}", "Done.", api_id=f"y{turn}", time=now)
    state, _ = stepped(state, Replied(entries=(answer,), now=now), Said(entries=(user(f"v{turn}", "Go on."),)))
    return state, actions


BIG = {f"r{n}": 18_000 for n in range(1, 8)}
"""Seven results, 168,000 tokens as the meter counts them."""


def opened(policy: dict[str, Any] | None = None) -> State:
    """After three runs that failed."""
    state = state_of(BIG, policy=policy)
    for _ in range(3):
        state, _ = fails(state)
    return state


def begun(actions: list[Any]) -> int:
    return sum(emit.name == "compaction_started" for emit in of(actions, Emit))


def test_a6_after_three_failures_in_a_row_no_more_are_tried() -> None:
    state = state_of(BIG)
    counts, opens = [], []
    for _ in range(6):
        state, actions = fails(state)
        counts.append(begun(actions))
        opens += [emit.fields for emit in of(actions, Emit) if emit.name == "breaker_opened"]
    assert counts == [1, 1, 1, 0, 0, 0] and opens == [{"failures": 3}]


def test_a6_one_failure_is_one_run_of_the_whole_ladder() -> None:
    state, actions = fails(state_of(BIG))
    assert len(of(actions, Summarize)) == 3 and state.tracking.failures == 1


def test_a6_a_success_resets_it() -> None:
    state = state_of(BIG)
    state, _ = fails(state)
    state, _ = fails(state)
    state, _ = played(state, RequestDue(now=NOW), answer_with(stands_for(state, "u1", "b6")))
    assert state.tracking.failures == 0 and summaries(state)


def test_a6_a_manual_compaction_that_succeeds_closes_it() -> None:
    state = opened()
    state, actions = played(state, CompactAsked(now=NOW), answer_with("no summary"))
    assert state.tracking.failures == 3  # a manual one that fails neither counts nor closes
    state, _ = played(state, CompactAsked(now=NOW), answer_with(stands_for(state, "u1", "b1")))
    state, _ = played(state, CompactAsked(now=NOW), answer_with(stands_for(state, "u1", "b6")))
    assert state.tracking.failures == 0
    grown = tuple(rounds_of(1, 1, start=9))
    state, _ = stepped(state, Said(entries=grown))
    state = state._replace(measure=sized({**BIG, "r10": 120_000}))
    state, _ = stepped(state, Said(entries=tuple(rounds_of(1, 1, start=10))))
    state, _ = stepped(state, Replied(entries=(assistant("z", "Done.", api_id="z"),), now=NOW))
    _, actions = played(state, RequestDue(now=NOW), answer_with("no summary"))
    assert begun(actions) == 1


@pytest.mark.parametrize(
    "setup",
    [
        setup_of(200_000, model=msgspec.structs.replace(MODEL, id="m-2")),
        setup_of(220_000, {"window": {"threshold_tokens": 167_000}}, model=msgspec.structs.replace(MODEL, window=220_000)),
        setup_of(200_000, {"summary": {"method": "model"}}),
        setup_of(200_000, {"summary": {"model": "small-1"}}),
    ],
    ids=["another model", "a larger window", "another summariser", "another model that summarises"],
)
def test_a6_what_it_opened_under_closes_it_when_it_changes(setup: Any) -> None:
    log = opened().log
    same = engine.begin(log, setup_of(200_000), measure=sized(BIG))
    other = engine.begin(log, setup, measure=sized(BIG))
    assert begun(fails(same)[1]) == 0  # and it survives a restart
    assert begun(fails(other)[1]) == 1


def test_a6_after_a_cool_down_it_is_tried_once_more() -> None:
    state = opened({"auto": {"cooldown_seconds": 600}})
    assert begun(fails(state, NOW + 599)[1]) == 0
    state, actions = fails(state, NOW + 600)
    assert begun(actions) == 1
    assert begun(fails(state, NOW + 700)[1]) == 0


def test_a6_without_a_cool_down_no_time_closes_it() -> None:
    assert begun(fails(opened(), NOW + 10 * 86_400)[1]) == 0


def test_a6_a_cancel_is_no_failure() -> None:
    found = talk(
        rounds_of(12, 1_500), window=20_000, policy={"summary": {"method": "model"}}, ports=Ports(ask=Writer([KeyboardInterrupt()]))
    )
    before = found.driver.state
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            found.driver.before_request()
    assert found.driver.state is before and found.driver.state.tracking.failures == 0
    assert tries(found) == 4


# --- A7, A8, A11: what is a success, and the smaller steps


def fold_of(state: State, size: int, *, policy: dict[str, Any] | None = None) -> tuple[State, list[Any]]:
    """What became of a view of 168,000 tokens for which a summary of so many unpadded tokens came, for all but the last entry."""
    state = state._replace(measure=sized(BIG, summary=size))
    return played(state, RequestDue(now=NOW), answer_with(stands_for(state, "u1", "r7")))


@pytest.mark.parametrize(("summary", "success"), [(100_200, True), (100_201, False)])
def test_a11_success_is_under_the_threshold_with_20_percent_of_it_free(summary: int, success: bool) -> None:
    state, actions = fold_of(state_of(BIG), summary)  # 133,600 tokens are 80% of 167,000
    assert bool(state.log.folds) == success
    assert state.tracking.failures == (0 if success else 1)
    assert bool([emit for emit in of(actions, Emit) if emit.name == "compaction_finished"]) == success


def test_a11_what_does_not_get_smaller_is_no_success() -> None:
    found = talk(rounds_of(2, 1), window=40_000)
    before = found.driver.state
    with pytest.raises(CannotFitError, match=r"tokens are not fewer than"):
        found.driver.compact()
    assert found.driver.log.folds == () and found.driver.tokens == before.used


def test_a11_a_summary_that_came_back_is_not_success() -> None:
    writer = Writer([written("All of it was read. " * 2_000)])
    policy = {"summary": {"method": "model", "max_tokens": 60_000}}
    found = talk(rounds_of(12, 1_500), window=20_000, policy=policy, ports=Ports(ask=writer), overhead=6_000)
    found.driver.before_request()
    (fold,) = [placed.fold for placed in found.driver.log.folds]
    assert writer.asked and "are over 10,720" in " ".join(fold.extra["tried"])
    assert found.driver.tokens <= 10_720 and fold.extra["method"] == "structural"


def test_a7_a_step_that_is_no_success_is_improved_by_the_next_smaller_one() -> None:
    state = state_of(BIG)
    keeps_two, keeps_one, keeps_none = (stands_for(state, "u1", last) for last in ("b5", "b6", "b7"))
    state = state._replace(measure=sized(BIG, summary=90_000))
    state, actions = played(state, RequestDue(now=NOW), answer_with(keeps_two, keeps_one, keeps_none))
    asked = of(actions, Summarize)
    assert [action.pressure for action in asked] == [1.0, 0.5, 0.25] and not asked[-1].keep_tail
    (fold,) = [placed.fold for placed in state.log.folds]
    assert len(fold.extra["tried"]) == 2 and "are over 133,600" in fold.extra["tried"][1]
    assert state.tracking.failures == 0


def test_a7_a_compaction_that_is_no_success_leaves_log_and_view_as_they_were() -> None:
    state = state_of(BIG)
    before = list(state.log.records()), shown(state)
    state, actions = fails(state)
    assert state.log.folds == () and of(actions, Send)
    assert [record for record in state.log.records() if isinstance(record, Fold)] == []
    assert shown(state)[: len(before[1])] == before[1]


def test_a8_the_steps_come_in_their_order_and_the_number_of_calls_is_bounded() -> None:
    writer, memory = Writer([written("too long " * 9_000)]), Remembered("\n".join(f"# Part {n}\n{'word ' * 150}" for n in range(100)))
    policy = {"summary": {"method": "model", "max_tokens": 60_000}}
    found = talk(rounds_of(12, 1_500), window=20_000, policy=policy, ports=Ports(ask=writer, memory=memory), overhead=6_000)
    found.driver.before_request()
    (fold,) = [placed.fold for placed in found.driver.log.folds]
    tried = [step.split(":")[0] for step in fold.extra["tried"]]
    assert tried == ["memory", "memory, minimum tail", "summary", "summary alone", "summary alone, nothing restored"][: len(tried)]
    assert len(tried) >= 3
    assert len(writer.asked) <= 2


def test_a8_at_the_end_is_an_error_that_names_the_largest_entries_and_what_to_do() -> None:
    entries = [*rounds_of(2, 300), user("huge", words(11_000))]
    found = talk(entries, window=20_000)
    with pytest.raises(CannotFitError) as error:
        found.driver.compact()
    assert error.value.largest[0][0].endswith("entry huge") and error.value.largest[0][1] > 10_000
    assert "huge" in str(error.value) and "larger window" in str(error.value)
    assert found.driver.log.folds == ()


def test_a8_fixed_parts_that_fill_the_window_are_said_without_asking_a_model() -> None:
    writer = Writer([written()])
    found = talk(rounds_of(4, 500), window=20_000, overhead=12_000, policy={"summary": {"method": "model"}}, ports=Ports(ask=writer))
    found.driver.before_request()
    (failed,) = found.named("compaction_failed")
    assert "the fixed parts alone hold" in failed["why"] and "system prompt and tools 12,000" in failed["why"]
    assert writer.asked == []


# --- A9: what follows a success


def test_a9_the_next_request_is_marked_as_the_first_after_a_compaction_and_the_one_after_it_not() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    first = found.driver.before_request()
    found.driver.replied(assistant("c1", "Done.", api_id="x1"))
    second = found.driver.before_request()
    assert (first.send.first_after_compaction, second.send.first_after_compaction) == (True, False)


def test_a9_the_last_summarised_id_is_forgotten() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000, ports=Ports(memory=Remembered(None)), tracking=Tracking(covered="b8"))
    found.driver.before_request()
    assert not found.driver.state.tracking.covered


# --- A10: not again until something has changed


def test_a10_an_attempt_on_unchanged_input_is_never_made_twice() -> None:
    state = state_of(BIG)
    state, actions = played(state, RequestDue(now=NOW), answer_with("no summary"))
    assert begun(actions) == 1
    refused = RequestRejected(rejection=Rejection(why="transient", message="overloaded", status=529), now=NOW)
    state, _ = stepped(state, refused)
    state, actions = played(state, RequestDue(now=NOW + 5), answer_with("no summary"))
    assert begun(actions) == 0 and state.tracking.failures == 1


def cold(state: State, tokens: int, *, reply: bool = True) -> int:
    """How many compactions begin on a dead cache after a result of so many unpadded tokens more."""
    state = state._replace(measure=sized({"new": tokens}, summary=75_000))
    if reply:
        state, _ = stepped(state, Replied(entries=(assistant("y", "Done.", api_id="y"),), now=NOW))
    else:
        state = ops.track(state, last_response=NOW)._replace(phase=Phase.READY)
    state, _ = stepped(state, Said(entries=(user("new", "More."),)))
    return begun(played(state, RequestDue(now=NOW + 5_000), answer_with("no summary"))[1])


def test_a10_until_the_view_has_grown_by_a_percent_of_the_window_and_a_round_nothing_begins() -> None:
    state = state_of(BIG)._replace(measure=sized(BIG, summary=75_000))
    state, _ = played(state, RequestDue(now=NOW), answer_with(stands_for(state, "u1", "r7")))
    assert state.tracking.left == 100_000  # over half of the threshold: cold folding would be due
    assert cold(state, 1_499) == 0
    assert cold(state, 1_500) == 1
    assert cold(state, 30_000, reply=False) == 0


# --- A12: on a dead cache


@pytest.mark.parametrize(
    ("size", "pause", "begun"),
    [(83_500, 301, 1), (83_499, 301, 0), (83_500, 300, 0), (166_999, 60, 0)],
    ids=["half and cold", "under half", "the cache may live", "warm"],
)
def test_a12_on_a_dead_cache_a_fold_is_made_from_half_of_the_threshold(size: int, pause: int, begun: int) -> None:
    found = counted_talk(size)
    found.clock.now = NOW + pause
    found.driver.before_request()
    assert tries(found) == begun


def test_a12_a_model_without_a_cache_is_never_cold() -> None:
    found = counted_talk(100_000, model=msgspec.structs.replace(MODEL, cache=None))
    found.clock.now = NOW + 86_400
    found.driver.before_request()
    assert tries(found) == 0


def test_a12_the_reason_is_told() -> None:
    found = talk(rounds_of(6, 1_500, time=NOW), window=20_000)
    found.clock.now = NOW + 4_000
    found.driver.before_request()
    assert "the cache has expired" in found.named("compaction_started")[0]["why"]
    assert found.driver.log.folds[-1].fold.why == found.named("compaction_started")[0]["why"]


# --- the window's rules in a live conversation


def test_w4_the_blocking_limit_stops_a_call_where_nothing_else_helps() -> None:
    found = counted_talk(177_000, policy={"auto": {"enabled": False}})
    with pytest.raises(CannotFitError, match="blocking limit of 177,000"):
        found.driver.before_request()
    assert counted_talk(176_999, policy={"auto": {"enabled": False}}).driver.before_request().request.messages


@pytest.mark.parametrize(("reactive", "blocked"), [(True, False), (False, True)])
def test_w4_with_an_open_breaker_only_where_a_refusal_cannot_come_back(reactive: bool, blocked: bool) -> None:
    tracking = Tracking(failures=3, failed_under="m-1 200000 structural ")
    found = counted_talk(178_000, tracking=tracking)
    if blocked:
        with pytest.raises(CannotFitError, match="blocking limit"):
            found.driver.before_request(reactive=reactive)
    else:
        assert found.driver.before_request(reactive=reactive).request.messages


def test_w4_never_in_a_turn_that_has_just_compacted() -> None:
    tracking = Tracking(failures=3, failed_under="m-1 200000 structural ", fresh=True)
    assert counted_talk(178_000, tracking=tracking).driver.before_request(reactive=False).request.messages


def test_w8_after_a_success_the_warning_is_held_back_until_real_usage_arrives() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    seen: list[str] = []
    found.driver.warnings.subscribe(lambda warned: seen.append(warned.level))
    found.driver.say(user("v", "And?"))
    assert found.driver.warnings.visible != "ok"
    found.driver.before_request()
    assert found.driver.warnings.visible == "ok" and found.driver.warnings.suppressed
    found.driver.replied(assistant("c1", "No usage told.", api_id="x1"))
    assert found.driver.warnings.suppressed
    found.driver.before_request()
    found.driver.replied(assistant("c2", "Done.", api_id="x2", usage=usage(12_500)))
    assert not found.driver.warnings.suppressed
    assert seen[-1] == "ok"


def test_w8_a_new_attempt_clears_the_suppression() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    found.driver.before_request()
    held: list[bool] = []
    found.driver.listen = lambda emit: held.append(found.driver.warnings.suppressed) if emit.name == "compaction_started" else None
    assert found.driver.warnings.suppressed
    found.driver.replied(assistant("c1", "Done.", api_id="x1"))
    found.driver.compact(instructions=["Short."])
    assert held == [False]


def test_w9_a_limit_that_an_error_names_holds_from_then_on_and_is_said_once() -> None:
    found = talk(rounds_of(12, 1_500), window=200_000)
    found.driver.before_request()
    found.driver.rejected(too_long(26_000, 20_000))
    assert found.driver.state.setup.window == setup_of(20_000).window
    assert found.named("window_learned") == [{"window": 20_000, "believed": 200_000}]
    found.driver.replied(assistant("c1", "Done.", api_id="x1"))
    found.driver.say(*rounds_of(12, 1_500, start=30))
    found.driver.before_request()  # compacted by itself now, a refusal costs nothing any more
    assert [event["trigger"] for event in found.named("compaction_finished")] == ["reactive", "auto"]
    again = talk([], log=found.driver.log, window=200_000)
    assert again.driver.state.setup.window.context == 20_000
    assert len(found.named("window_learned")) == 1


def test_w9_without_a_number_what_was_refused_proves_a_smaller_window_and_costs_one_error() -> None:
    found = talk(rounds_of(12, 1_500), window=200_000)
    size = found.driver.tokens
    found.driver.before_request()
    found.driver.rejected(too_long())
    assert found.named("window_learned") == [{"window": size - 1, "believed": 200_000}]
    found.driver.replied(assistant("c1", "Done.", api_id="x1"))
    found.driver.say(*rounds_of(11, 1_500, start=30))
    found.driver.before_request()
    assert [event["trigger"] for event in found.named("compaction_finished")] == ["reactive", "auto"]


@pytest.mark.parametrize("refusal", [too_long(status=200), too_long(status=None)])
def test_w9_an_answer_that_ended_for_lack_of_room_proves_no_smaller_window(refusal: Rejection) -> None:
    found = talk(rounds_of(12, 1_500), window=200_000)
    found.driver.before_request()
    found.driver.rejected(refusal)
    assert found.named("window_learned") == []


def test_w9_a_limit_under_what_was_already_taken_is_not_believed() -> None:
    found = counted_talk(150_000)
    found.driver.before_request()
    with pytest.raises(PromptTooLongError):
        found.driver.rejected(too_long(151_000, 8_000))
    assert found.named("window_learned") == []


def test_t3_after_a_fold_the_meter_is_right_at_once() -> None:
    entries = rounds_of(30, 1_500)
    known = talk(entries, overhead=None).driver.state.ledger.estimated
    log = Log(records=[entry if entry.id != "b30" else msgspec.structs.replace(entry, usage=usage(known + 9_000)) for entry in entries])
    found = talk([], log=log, window=40_000, overhead=None)
    assert found.driver.tokens == known + 9_000
    found.driver.before_request()
    assert found.driver.state.ledger.size().source == "calibrated"
    after = found.driver.tokens
    assert 9_000 < after < 9_000 + 20_000 and after == found.driver.log.folds[-1].fold.tokens_after


def test_t5_an_exact_counter_is_asked_only_where_it_could_change_the_decision() -> None:
    asked: list[int] = []

    def count(entries: Any) -> int:
        asked.append(len(entries))
        return 12_000

    small = talk(rounds_of(4, 500), window=20_000, ports=Ports(count=count), overhead=None)
    small.driver.before_request()
    assert asked == []
    near = talk(rounds_of(9, 1_150), window=20_000, ports=Ports(count=count), overhead=None)
    assert near.driver.tokens > 13_400 > near.driver.state.ledger.estimated
    near.driver.before_request()
    assert len(asked) == 1 and tries(near) == 0 and near.driver.tokens == 12_000
    sure = talk(rounds_of(20, 1_500), window=20_000, ports=Ports(count=count), overhead=None)
    sure.driver.before_request()
    assert len(asked) == 1 and tries(sure) == 1
    told = counted_talk(170_000, ports=Ports(count=count))
    told.driver.before_request()
    assert len(asked) == 1  # the provider has told already


def test_t5_a_counter_that_cannot_tell_leaves_the_estimate_as_it_is() -> None:
    state = engine.begin(Log(records=rounds_of(9, 1_150)), msgspec.structs.replace(setup_of(20_000, overhead=None), counts=True))
    state, actions = stepped(state, RequestDue(now=NOW))
    assert of(actions, CountTokens)
    before = state.used
    state, _ = stepped(state, Counted(tokens=None))
    assert state.ledger.size().used == before or state.log.folds or state.waits_for


def test_a7_x7_the_tail_beside_a_models_summary_leaves_room_for_what_is_pinned() -> None:
    """What is pinned stands in the rebuilt view too: with it the tail is shorter, or a summary is paid for that cannot be used (A11)."""

    def tail(pinned: int) -> int:
        ask = Writer([written()])
        policy = {"summary": {"method": "model", "keep_tokens": 60_000, "keep_max_tokens": 60_000}, "pins": {"budget_percent": 60.0}}
        found = talk(rounds_of(14, 900), window=20_000, policy=policy, ports=Ports(ask=ask))
        for n in range(pinned):
            found.driver.pin(words(600, f"pin{n}"))
        found.driver.before_request()
        assert len(ask.asked) == 1 and found.driver.log.folds[-1].fold.extra["method"] == "model"
        return sum(id[0] in "uarb" for id in shown(found.driver.state))

    assert tail(0) > tail(3) > tail(6)


def test_a4_a6_a_summariser_that_raises_fails_as_one_that_refuses() -> None:
    """Whatever it raises the structural summary stands in, the failure is told and counts; a coroutine for a driver that awaits nothing
    too."""

    async def later(ask: Any) -> None: ...

    for broken in (RuntimeError("it broke"), ConnectionError("gone"), lambda ask: "a text", later):

        def ask(given: Any, broken: Any = broken) -> Any:
            if isinstance(broken, BaseException):
                raise broken
            return broken(given)

        found = talk(
            rounds_of(12, 1_500), window=20_000, policy={"summary": {"method": "model"}}, ports=Ports(ask=ask, sleep=lambda s: None)
        )
        found.driver.before_request()
        (failed,) = found.named("summary_failed")
        assert failed["calls"] <= 8 and summaries(found.driver.state) and found.driver.log.folds[-1].fold.extra["method"] == "structural"
        assert found.driver.state.tracking.summary_failures == 1
