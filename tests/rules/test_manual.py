"""Section 10: what is asked for by people and by the agent itself: compaction, parts of it, previews, undo, pins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from fivefold.core.actions import Stage
from fivefold.core.entries import CLEARED, Entry, Fold, Unfold
from fivefold.core.events import Staged, Summarized
from fivefold.core.levels.snip import SUPERSEDED
from fivefold.core.log import Log
from fivefold.core.messages import ToolResult, result_text
from fivefold.core.rejection import Rejection
from fivefold.core.state import Tracking
from fivefold.core.view import view_of
from fivefold.drive import AsyncDriver
from fivefold.errors import CannotFitError, CompactionError, FoldError, PinError, PlanError
from fivefold.perform import Ports
from fivefold.store.session import Session
from fivefold.summarize.flow import Answer, Ask
from tests.build import assistant, call, refused, result, user
from tests.rules.talk import (
    Remembered,
    Talk,
    Writer,
    loop_of,
    rounds_of,
    said,
    setup_of,
    shown,
    summaries,
    talk,
    too_long,
    words,
    written,
)

MODEL_WRITES = {"summary": {"method": "model"}}


def extra_of(found: Talk) -> dict[str, Any]:
    return dict(found.driver.log.folds[-1].fold.extra)


def seen(found: Talk) -> list[str]:
    """Ids of the entries of the conversation itself that are in view."""
    return [id for id in shown(found.driver.state) if id[0] in "uarb"]


# --- X1: manual


def test_x1_session_memory_first_where_no_instructions_were_given() -> None:
    writer = Writer([written()])
    ports = Ports(ask=writer, memory=Remembered("Part 3 holds value_3."))
    plain = talk(rounds_of(12, 1_500), window=20_000, policy=MODEL_WRITES, ports=ports)
    plain.driver.compact()
    assert extra_of(plain)["method"] == "memory" and writer.asked == []
    told = talk(rounds_of(12, 1_500), window=20_000, policy=MODEL_WRITES, ports=ports)
    told.driver.compact(instructions=["Mind the birds."])
    assert extra_of(told)["method"] == "model" and "Mind the birds." in writer.asked[0].text


def test_x1_it_works_under_the_threshold_too() -> None:
    found = talk(rounds_of(12, 1_500), window=200_000)
    plan = found.driver.compact()
    assert plan.success and plan.after < plan.before and found.driver.log.folds[-1].fold.level == "manual"


def test_x1_a_manual_compactions_error_is_shown_and_autos_is_silent_and_told_as_an_event() -> None:
    entries = [*rounds_of(2, 100), user("huge", words(12_000))]
    asked = talk(entries, window=20_000)
    with pytest.raises(CannotFitError):
        asked.driver.compact()
    unasked = talk(entries, window=20_000)
    assert unasked.driver.before_request().request.messages
    assert len(unasked.named("compaction_failed")) == 1 and unasked.driver.state.tracking.failures == 1


# --- X2: partial


def test_x2_from_folds_the_pivot_and_what_follows_and_keeps_the_prefix_as_it_was() -> None:
    found = talk(rounds_of(12, 1_500), window=40_000)
    before = found.driver.outgoing().messages
    found.driver.compact(pivot="u6")
    assert seen(found) == [f"{kind}{n}" for n in range(1, 6) for kind in "uarb"]
    kept = found.driver.outgoing().messages
    assert kept[:20] == before[:20] and "Look into part 9 of it." in said(found.driver.state)
    assert refused(kept) == []


def test_x2_up_to_folds_what_comes_before_and_keeps_the_rest() -> None:
    found = talk(rounds_of(12, 1_500), window=40_000)
    found.driver.compact(pivot="u6", direction="up_to")
    assert seen(found) == [f"{kind}{n}" for n in range(6, 13) for kind in "uarb"]
    assert shown(found.driver.state)[1].endswith(".summary")
    assert refused(found.driver.outgoing().messages) == []


@pytest.mark.parametrize(
    ("direction", "kept"), [("from", ["u1", "a1", "r1", "b1", "u2"]), ("up_to", ["a2", "r2", "b2", "u3", "a3", "r3", "b3"])]
)
def test_x2_the_pivot_is_moved_so_that_no_call_is_parted_from_its_result(direction: Any, kept: list[str]) -> None:
    found = talk(rounds_of(3, 3_000), window=40_000)
    found.driver.compact(pivot="r2", direction=direction)
    assert seen(found) == kept and refused(found.driver.outgoing().messages) == []


@pytest.mark.parametrize("pivot", ["nobody", "u1"])
def test_x2_a_pivot_that_leaves_nothing_to_fold_or_is_not_there_is_an_error(pivot: str) -> None:
    found = talk(rounds_of(3, 1_500), window=40_000)
    with pytest.raises(CannotFitError, match=pivot):
        found.driver.compact(pivot=pivot, direction="up_to")
    assert found.driver.log.folds == ()


def test_x2_a_partial_compaction_on_top_of_another_keeps_both_apart() -> None:
    found = talk(rounds_of(16, 1_500), window=60_000)
    found.driver.compact(pivot="u5", direction="up_to")
    found.driver.compact(pivot="u12", direction="from")
    assert seen(found) == [f"{kind}{n}" for n in range(5, 12) for kind in "uarb"]
    assert len(summaries(found.driver.state)) == 2 and refused(found.driver.outgoing().messages) == []


# --- X3: snip


def test_x3_marked_entries_go_with_no_summary_and_whole_units_only() -> None:
    found = talk(rounds_of(6, 500))
    found.driver.snip("r2", "u4")
    assert "r2" in seen(found)  # they go with the next request
    found.driver.before_request()
    assert seen(found) == [id for id in [f"{kind}{n}" for n in range(1, 7) for kind in "uarb"] if id not in ("a2", "r2", "u4")]
    assert summaries(found.driver.state) == [] and refused(found.driver.outgoing().messages) == []
    assert "part2 100" in found.driver.call_tool("recall", {"query": "part2 100"})


def test_x3_what_cannot_go_yet_stays_marked() -> None:
    found = talk([*rounds_of(2, 500), user("u3", "Go."), assistant("a3", call("t3"), api_id="m3")])
    found.driver.snip("a3")
    found.driver.before_request()
    assert "a3" in seen(found) and found.driver.state.tracking.marked == ("a3",)
    found.driver.cancel()
    found.driver.say(user("r3", result("t3")))
    found.driver.before_request()
    assert "a3" not in seen(found) and found.driver.state.tracking.marked == ()


def test_x3_an_entry_that_is_not_there_cannot_be_marked() -> None:
    with pytest.raises(FoldError, match="nobody"):
        talk(rounds_of(2, 100)).driver.snip("nobody")


def read_twice() -> list[Entry]:
    """One file read twice, with other work between."""
    again = [
        user("u90", "Again."),
        assistant("a90", call("t90", "Read", file_path="src/part1.py"), api_id="m90"),
        user("r90", result("t90", words(5_000, "part1"))),
        assistant("b90", "The same.", api_id="n90"),
    ]
    return [*rounds_of(1, 5_000), *rounds_of(3, 1_000, start=2), *again]


def test_x3_a_result_that_a_later_identical_read_supersedes_goes_when_a_fold_is_due() -> None:
    found = talk(read_twice(), window=20_000)
    assert found.driver.tokens > 13_400
    found.driver.before_request()
    (folded,) = found.named("folded")
    assert (folded["level"], folded["path"]) == ("snip", "superseded")
    results = {e.id: result_text(b) for e in found.driver.state.view.entries() for b in e.blocks if isinstance(b, ToolResult)}
    assert results["r1"] == SUPERSEDED and "part1 100" in results["r90"]


def test_x3_it_is_a_policy_and_nothing_goes_while_no_fold_is_due() -> None:
    off = talk(read_twice(), window=20_000, policy={"snip": {"superseded": False}})
    off.driver.before_request()
    assert [event["level"] for event in off.named("folded")] == []
    early = talk(read_twice(), window=200_000)
    early.driver.before_request()
    assert early.named("folded") == []


# --- X4: collapse

COLLAPSE = {"collapse": {"enabled": True, "stretch_tokens": 1_000}}


def test_x4_finished_stretches_are_summarised_beforehand_from_half_of_the_window_on() -> None:
    low, high = talk(rounds_of(3, 1_500), window=20_000, policy=COLLAPSE), talk(rounds_of(5, 1_500), window=20_000, policy=COLLAPSE)
    assert low.driver.tokens < 8_000 < high.driver.tokens
    for found in (low, high):
        found.driver.before_request()
        found.driver.run_background()
    assert low.driver.state.tracking.staged == ()
    (staged,) = high.driver.state.tracking.staged
    assert (staged.first, staged.last) == ("a1", "b1") and "part1" in staged.text
    assert high.driver.log.folds == ()


def collapsed_talk(size: int, *, staged: int = 2) -> Talk:
    """A view of about so many tokens in a window of 20,000 (16,000 effective), with stretches summarised beforehand."""
    rounds = 6
    each = int(size / 4 * 3 / rounds) - 60
    found = talk(rounds_of(rounds, each), window=20_000, policy=COLLAPSE)
    for n in range(1, staged + 1):
        found.driver._now(Staged(first=f"a{n}", last=f"b{n}", text=f"Part {n} was read."))
    return found


def test_x4_they_are_committed_oldest_first_when_the_view_passes_90_percent() -> None:
    under, over = collapsed_talk(14_200), collapsed_talk(14_700)
    assert under.driver.tokens < 14_400 <= over.driver.tokens
    for found in (under, over):
        found.driver.before_request()
    assert under.driver.log.folds == ()
    assert [placed.fold.level for placed in over.driver.log.folds] == ["collapse"]
    assert "a1" not in seen(over) and "a2" in seen(over) and "Part 1 was read." in said(over.driver.state)
    assert refused(over.driver.outgoing().messages) == []
    assert len(over.driver.state.tracking.staged) == 1


def test_x4_at_95_percent_no_more_are_begun() -> None:
    found = collapsed_talk(15_400, staged=0)
    assert found.driver.tokens >= 15_200
    found.driver.before_request()
    assert not found.driver.state.tracking.staging
    other = collapsed_talk(15_000, staged=0)
    other.driver.before_request()
    assert other.driver.state.tracking.staging


def test_x4_auto_leaves_the_work_to_it() -> None:
    found = collapsed_talk(14_200, staged=0)
    assert found.driver.tokens > found.driver.state.setup.window.auto
    found.driver.before_request()
    assert found.named("compaction_started") == []


def test_x4_a_stretch_that_no_longer_stands_as_it_did_is_dropped() -> None:
    found = collapsed_talk(14_700, staged=1)
    found.driver.snip("r1")
    found.driver.before_request()
    found.driver.rejected(Rejection(why="too_long", message="too long"))
    assert all(placed.fold.level != "collapse" for placed in found.driver.log.folds)
    assert "Part 1 was read." not in said(found.driver.state) and refused(found.driver.outgoing().messages) == []


@pytest.mark.parametrize("fault", [Rejection(why="other", message="bad request", status=400), OSError("bad request")])
def test_x4_a_failed_summary_is_said_and_not_asked_for_again_and_the_next_stretch_is(fault: Any) -> None:
    writer = Writer([fault])
    found = talk(rounds_of(5, 1_500), window=20_000, policy={**COLLAPSE, **MODEL_WRITES}, ports=Ports(ask=writer))
    begun = []
    for turn in range(3):
        found.driver.before_request()
        begun += [action.first for action in found.driver._background if isinstance(action, Stage)]
        found.driver.run_background()
        found.driver.replied(assistant(f"x{turn}", "Done.", api_id=f"y{turn}"))
    assert begun == ["a1", "a2", "a3"] and len(found.named("staging_failed")) == 3
    assert "bad request" in found.named("staging_failed")[0]["why"]
    again = found.driver.state
    assert not again.tracking.staging and found.driver.log.folds == ()


def test_x4_a_stretch_whose_summary_failed_is_never_committed() -> None:
    found = collapsed_talk(14_700, staged=0)
    found.driver._now(Staged(first="a1", last="b1", text="", why="no model"))
    found.driver._now(Staged(first="a2", last="b2", text="Part 2 was read."))
    found.driver.before_request()
    assert "a1" in seen(found) and "a2" not in seen(found) and "Part 2 was read." in said(found.driver.state)


def test_x4_state_of_a_fork_is_its_own() -> None:
    parent = collapsed_talk(14_200)
    fork = talk(list(parent.driver.log.entries()), window=20_000, policy=COLLAPSE, tracking=Tracking())
    fork.driver._now(Staged(first="a3", last="b3", text="Part 3 was read."))
    assert [one.first for one in parent.driver.state.tracking.staged] == ["a1", "a2"]
    assert [one.first for one in fork.driver.state.tracking.staged] == ["a3"]


# --- X5: undo and rewind


def test_x5_each_kind_of_fold_can_be_undone() -> None:
    found = talk(read_twice(), window=20_000)
    before = found.driver.state.view
    found.driver.before_request()
    found.driver.replied(assistant("x", "Done.", api_id="y"))
    assert found.driver.log.folds[-1].fold.level == "snip"
    found.driver.undo()
    assert found.driver.state.view.shown()[: len(before)] == before.shown()
    found.driver.compact()
    found.driver.undo()
    assert found.driver.state.view.shown()[: len(before)] == before.shown() and found.driver.log.folds == ()
    assert view_of(found.driver.log) == found.driver.state.view


def test_x5_a_fold_in_the_middle_is_undone_with_all_that_stand_on_it() -> None:
    found = talk(rounds_of(16, 1_500), window=60_000)
    found.driver.compact(pivot="u5", direction="up_to")
    found.driver.compact(pivot="u9", direction="up_to")
    first, second = (placed.fold.id for placed in found.driver.log.folds)
    assert found.driver.undo(first) == (second, first)
    assert "u1" in seen(found) and found.driver.log.folds == ()


def test_x5_what_is_not_in_force_cannot_be_undone() -> None:
    found = talk(rounds_of(2, 100))
    for fold in (None, "nothing"):
        with pytest.raises(FoldError):
            found.driver.undo(fold)


def test_x5_an_undone_compaction_may_be_made_again() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    found.driver.before_request()
    found.driver.cancel()
    found.driver.undo()
    found.driver.before_request()
    assert len(found.named("compaction_finished")) == 2 and len(found.driver.log.folds) == 1


def test_x5_rewind_goes_back_across_folds_and_can_itself_be_undone() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    found.driver.compact()
    found.driver.say(user("v", "And now?"))
    assert "u3" not in seen(found)
    found.driver.rewind("b3")  # folded away by now
    assert seen(found) == [f"{kind}{n}" for n in range(1, 4) for kind in "uarb"]
    assert summaries(found.driver.state) == []
    found.driver.undo()
    assert "v" in shown(found.driver.state) and "b12" in seen(found)


def test_x5_rewind_to_after_a_fold_leaves_the_fold() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    found.driver.compact()
    found.driver.say(user("v", "And now?"), user("w", "Well?"))
    found.driver.rewind("v")
    assert shown(found.driver.state)[-1] == "v" and len(summaries(found.driver.state)) == 1


def test_x5_what_was_rewound_is_in_no_later_summary() -> None:
    found = talk([*rounds_of(8, 1_500), *rounds_of(2, 500, start=50)], window=20_000)
    found.driver.rewind("b8")
    found.driver.say(*rounds_of(4, 1_500, start=20))
    found.driver.compact()
    assert "part 50" not in said(found.driver.state)


def test_x5_rewind_waits_for_a_compaction_to_end() -> None:
    async def slow(ask: Ask) -> Answer:
        await anyio.sleep(0.02)
        return written()

    async def main() -> None:
        driver = AsyncDriver(Log(records=rounds_of(12, 1_500)), setup=setup_of(20_000, MODEL_WRITES), ports=Ports(ask=slow))
        async with anyio.create_task_group() as group:
            group.start_soon(driver.before_request)
            await anyio.sleep(0.005)
            with pytest.raises(CompactionError, match="being compacted"):
                driver.rewind("b3")
            driver.say(user("v", "Meanwhile."))
        assert "v" in shown(driver.state) and summaries(driver.state) and view_of(driver.log) == driver.state.view

    with ThreadPoolExecutor(1) as pool:  # a thread of its own: a browser test may have left a loop in this one
        pool.submit(anyio.run, main).result()


# --- X6: preview


def test_x6_a_plan_says_what_goes_what_stays_what_it_costs_and_the_text() -> None:
    used = written("Parts were read.")
    found = talk(rounds_of(12, 1_500), window=20_000, policy=MODEL_WRITES, ports=Ports(ask=Writer([used])))
    plan = found.driver.preview()
    assert plan.success and plan.before == 25_408 > plan.after and plan.llm_calls == 1
    assert plan.goes[0] == "u1" and plan.stays[-1] == "b12" and not set(plan.goes) & set(plan.stays)
    assert "Parts were read." in plan.summary and plan.violations == ()
    assert plan.levels[-1].applied and plan.levels[-1].tokens_after == plan.after


def test_x6_a_plan_that_is_dropped_has_done_nothing() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    before = found.driver.state
    assert found.driver.preview().success
    assert found.driver.state is before and found.events == [] and not found.driver.warnings.suppressed


def test_x6_a_plan_that_is_applied_is_what_was_looked_at() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    plan = found.driver.preview()
    found.driver.apply(plan)
    assert found.driver.tokens == plan.after and summaries(found.driver.state)
    assert [event.name for event in found.events] == ["compaction_started", "compaction_finished"]
    assert found.driver.warnings.suppressed


def test_x6_an_edited_plan_shows_the_edited_text_and_is_kept_as_it_is(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl") as session:
        session.append(*rounds_of(12, 1_500))
        found = talk([], log=session.log, window=20_000, keeper=session)
        plan = found.driver.preview()
        edited = plan.edited("Just this: value_3 matters.")
        assert edited.summary == "Just this: value_3 matters." and edited.after < plan.after
        found.driver.apply(edited)
        assert "Just this: value_3 matters." in said(found.driver.state)
        assert found.driver.log.folds[-1].fold.tokens_after == found.driver.tokens == found.driver.state.tracking.left
    with Session.open(tmp_path / "s.jsonl") as again:
        assert view_of(again.log) == found.driver.state.view
        assert talk([], log=again.log, window=20_000).driver.state.tracking.compacted


def test_x6_an_empty_text_and_a_plan_without_one_cannot_be_edited() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    with pytest.raises(PlanError, match="empty"):
        found.driver.preview().edited("  ")
    with pytest.raises(PlanError, match="no summary"):
        found.driver.preview(level="micro").edited("Text.")


def test_x6_a_plan_for_a_history_that_has_moved_on_is_refused() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    plan = found.driver.preview()
    found.driver.say(user("v", "One more thing."))
    with pytest.raises(PlanError, match="moved on"):
        found.driver.apply(plan)
    assert found.driver.log.folds == ()
    found.driver.apply(found.driver.preview())
    with pytest.raises(PlanError):
        found.driver.apply(plan)


# --- X7: pins


def test_x7_the_budget_is_checked_when_it_is_pinned() -> None:
    found = talk(rounds_of(3, 500), window=20_000)  # a tenth of 13,400
    found.driver.pin(words(600, "fact"))
    with pytest.raises(PinError, match=r"1,340 \(10% of the threshold\)"):
        found.driver.pin(words(600, "other"))
    assert len(found.driver.state.tracking.pins) == 1
    found.driver.unpin("text 1")
    found.driver.pin(words(600, "other"))


def test_x7_an_entry_without_text_and_an_unknown_name_are_refused() -> None:
    found = talk([user("u1", "Go."), assistant("a1", call("t1"), api_id="m1")])
    with pytest.raises(PinError, match="no text"):
        found.driver.pin("a1")
    with pytest.raises(PinError, match="'nobody'"):
        found.driver.unpin("nobody")


def test_x7_a_text_pinned_later_takes_no_other_ones_place() -> None:
    found = talk(rounds_of(2, 100))
    names = [found.driver.pin(text) for text in ("one", "two", "three")]
    found.driver.unpin(names[0])
    names.append(found.driver.pin("four"))
    assert len(set(names)) == 4 and [pin.text for pin in found.driver.state.tracking.pins] == ["two", "three", "four"]


PINNED = "The key figure is 4711 and the door is green."


@pytest.mark.parametrize(
    "level", ["structural", "model", "memory", "native", "reactive", "partial", "collapse", "clear", "superseded", "snip", "cap", "trim"]
)
def test_x7_what_is_pinned_survives_every_level_verbatim(level: str) -> None:
    found = pinned_talk(level)
    folds = found.driver.log.folds
    if level == "partial":
        found.driver.compact(pivot="u8", direction="up_to")
    elif level == "clear":
        found.driver.compact(level="micro")
    else:
        found.driver.before_request()
    if level in ("reactive", "collapse", "trim"):
        found.driver.rejected(too_long(26_000, 20_000))
    assert found.driver.log.folds != folds, "the level has done nothing"
    assert PINNED in said(found.driver.state)


def pinned_talk(level: str) -> Talk:
    """A conversation in which the level is due, and whose first result is pinned."""

    def native(given: Any) -> Summarized:
        return Summarized(text="", method="native", block={"type": "compaction", "content": "x", "signature": "eA=="}, calls=1)

    policies: dict[str, dict[str, Any]] = {
        "model": MODEL_WRITES,
        "native": {"summary": {"method": "native"}},
        "reactive": {"auto": {"reactive_only": True}},
        "trim": {"auto": {"reactive_only": True}},
        "collapse": COLLAPSE,
        "cap": {"micro": {"result_percent": 5}},
    }
    memory = Remembered("Nothing of note.") if level == "memory" else None
    ports = Ports(ask=Writer([written("Nothing of note.")]), memory=memory, native=native)
    around = 1_500 if level == "trim" else 400
    text = f"{words(around, 'more')}\n{PINNED}\n{words(around, 'still')}"
    first = [
        user("u0", "Look."),
        assistant("a0", call("t0", "Read", file_path="src/part1.py"), api_id="m0"),
        user("r0", result("t0", text)),
        assistant("b0", "Seen.", api_id="n0"),
    ]
    rest = rounds_of(12, 1_400)
    if level == "trim":
        rest = [
            *rounds_of(1, 200),
            user("u2", "Go."),
            assistant("a2", call("t2", "Bash"), api_id="m2"),
            user("r2", result("t2", words(2_900))),
        ]
        rest += [
            assistant("a3", call("t3", "Bash"), api_id="m3"),
            user("r3", result("t3", words(2_900))),
            assistant("b3", "So.", api_id="n3"),
        ]
        rest += [user("u4", "Go."), assistant("a4", call("t4", "Bash"), api_id="m4"), user("r4", result("t4", words(2_900)))]
    if level == "superseded":
        rest = [*rest[:20], *read_twice()[-4:]]
    if level == "cap":
        rest = []
        first = first[:-1]
    if level == "collapse":
        rest = rounds_of(9, 1_000)
    found = talk([*first, *rest], window=20_000, policy={**policies.get(level, {}), "pins": {"budget_percent": 40}}, ports=ports)
    found.driver.pin("r0")
    if level == "snip":
        found.driver.snip("r0", "r3")
    if level == "collapse":
        found.driver._now(Staged(first="a1", last="b1", text="Part 1 was read."))
    if level == "cap":
        found.driver.state = found.driver.state._replace(tracking=Tracking(pins=found.driver.state.tracking.pins))
        found.driver.say(assistant("a1", call("t1", "Bash"), api_id="m1"), user("r1", result("t1", words(3_000))))
    return found


def test_x7_a_pinned_entry_is_as_it_was_where_it_stays() -> None:
    found = talk(rounds_of(13, 3_000))
    found.driver.pin("r1")
    found.driver.compact(level="micro")
    texts = {e.id: result_text(b) for e in found.driver.state.view.entries() for b in e.blocks if isinstance(b, ToolResult)}
    assert texts["r1"] != CLEARED and texts["r2"] == CLEARED


# --- X8: the agent asks


def test_x8_a_compaction_asked_for_inside_a_tool_loop_happens_at_the_next_legal_point() -> None:
    entries = [
        *rounds_of(12, 1_000),
        user("u20", "Go on."),
        assistant("a20", "I make room.", call("c1", "compact"), call("t20"), api_id="m20"),
    ]
    found = talk(entries)
    answer = found.driver.call_tool("compact", {"instructions": "Mind the birds."})
    assert "before the next step" in answer and found.driver.log.folds == ()
    found.driver.say(user("r20", result("c1", answer)))
    found.driver.before_request()  # the other call has no result yet
    assert found.driver.log.folds == ()
    found.driver.cancel()
    found.driver.say(user("r21", result("t20", "done")))
    sent = found.driver.before_request()
    assert summaries(found.driver.state) and refused(sent.request.messages) == []
    assert found.driver.state.tracking.asked is None
    kept = found.driver.state.view.entries()
    assert [e.id for e in kept if e.id in ("a20", "r20", "r21")] == ["a20", "r20", "r21"]


def test_x8_what_cannot_be_made_smaller_does_not_stop_the_agents_next_request() -> None:
    found = talk(rounds_of(1, 5))
    found.driver.call_tool("compact", {})
    assert found.driver.before_request().request.messages
    assert len(found.named("compaction_failed")) == 1


def test_x8_snip_and_recall_are_carried_out() -> None:
    found = talk(rounds_of(6, 500))
    text = found.driver.call_tool("snip", {"ids": ["r2"]})
    assert "r2" in text or "1" in text
    found.driver.before_request()
    assert "r2" not in seen(found)
    assert "part2 100: nothing to see here" in found.driver.call_tool("recall", {"id": "r2"})


def test_x8_an_unknown_tool_or_input_is_answered_and_not_raised() -> None:
    found = talk(rounds_of(2, 100))
    for name, given in (("fold", {}), ("snip", {"ids": 3}), ("recall", {"colour": "green"})):
        assert isinstance(found.driver.call_tool(name, given), str)
    assert found.driver.log.folds == () and found.driver.state.tracking.marked == ()


# --- X9


def test_x9_a_sub_agents_return_is_capped_like_any_result() -> None:
    found = talk([user("u1", "Go."), assistant("a1", call("t1", "Task", prompt="Count the birds."), api_id="m1")], window=20_000)
    found.driver.say(user("r1", result("t1", words(9_000, "bird"))))
    found.driver.before_request()
    assert found.driver.tokens <= 16_000 // 4 + 200
    assert "`recall` shows the whole: entry r1" in said(found.driver.state)
    assert isinstance(found.driver.log.folds[0].fold, Fold) and not any(isinstance(r, Unfold) for r in found.driver.log.records())


def test_x4_a_stretch_is_asked_for_once() -> None:
    found = talk(rounds_of(5, 1_500), window=20_000, policy=COLLAPSE)
    found.driver.before_request()
    found.driver.replied(assistant("x", "Done.", api_id="y"))
    found.driver.before_request()
    assert len([action for action in found.driver._background if isinstance(action, Stage)]) == 1


def test_x7_pins_survive_a_restart_and_compaction_after_it() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    found.driver.pin(PINNED)
    again = talk([], log=found.driver.log, window=20_000)
    again.driver.before_request()
    assert PINNED in said(again.driver.state)
    loop = talk(loop_of(14, 1_400), window=20_000)
    loop.driver.pin(PINNED)
    loop.driver.before_request()
    assert PINNED in said(loop.driver.state)
