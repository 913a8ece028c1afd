"""What the report of a compaction says, held against numbers worked out by hand (L13, X6, Z2)."""

from __future__ import annotations

import pytest

from fivefold.core.entries import Change, Entry, Fold, HideEntries, HideSpan, ReplaceBlocks, Target
from fivefold.core.log import Log
from fivefold.drive import Driver
from fivefold.plan import LevelRow, Plan
from fivefold.report.compaction import CompactReport, report_of
from fivefold.setup import make_setup
from tests.build import assistant, call, result, user

READ = "src/config/loader.py defines load_config at abc1234f"
PLENTY = " ".join(f"word{i}" for i in range(800))
SONNET = "claude-sonnet-4-5"
"""3 USD a million tokens of input, a tenth of it for a cache read, a quarter more for a cache write."""

ENTRIES = (
    user("u1", "Rename the loader. Keep the tests green."),
    assistant("a1", "Reading it.", call("t1", command="git rebase main && cat loader.py")),
    user("r1", result("t1", f"{READ}\n{PLENTY}")),
    assistant("a2", "load_config is renamed.", call("t2", command="git push")),
    user("r2", result("t2", "done")),
    assistant("a3", "Pushed."),
)


def report(*changes: Change, entries: tuple[Entry, ...] = ENTRIES, model: str = SONNET, output: None = None) -> CompactReport:
    """The report of one fold of these changes."""
    state = Driver(Log().append(*entries), setup=make_setup(model, window=200_000)).state
    fold = Fold(id="f1", level="micro", changes=changes)
    after = state.with_records(fold)
    row = LevelRow(level="micro", path="clear", applied=True, tokens_before=state.used, tokens_after=after.used, folds=("f1",))
    return report_of(Plan(state, after, (row,), True, ""), "a.json", output)


CLEAR = ReplaceBlocks((Target("r1", 0),), ("cleared",))


def test_l13_a_cleared_result_counts_what_it_held_and_what_still_stands() -> None:
    """The path and the commit are gone, the name stands in an answer. Eight hundred words are identifiers too, all gone."""
    found = report(CLEAR).receipt
    assert (found.paths.folded, found.paths.still_in_view) == (1, 0)
    assert (found.identifiers.folded, found.identifiers.still_in_view) == (2 + 800, 1)
    assert (found.commands.folded, found.user_instructions.folded) == (0, 0), "neither the call nor the person's words went"


def test_l13_folded_calls_and_words_count_as_commands_and_sentences() -> None:
    summary = user("s1", "Earlier: git rebase main. The person said: Keep the tests green.", summary=True)
    found = report(HideSpan(last="r1", stand_ins=(summary,))).receipt
    assert (found.commands.folded, found.commands.still_in_view) == (2, 1), "git rebase is told of, cat loader.py is not"
    assert (found.user_instructions.folded, found.user_instructions.still_in_view) == (2, 1)


def test_l13_a_summary_folded_again_is_counted_by_what_it_told() -> None:
    """What the first summary kept and the second does not is lost from view, though the conversation itself went long before."""
    entries = (user("u1", "go"), assistant("a1", "ok"), user("u2", "on"), assistant("a2", "ok"))
    first = HideSpan(last="a1", stand_ins=(user("s1", "src/a/first.py and src/b/second.py", summary=True),))
    state = Driver(Log().append(*entries, Fold(id="f1", level="auto", changes=(first,))), setup=make_setup(SONNET)).state
    second = HideSpan(last="a1", stand_ins=(user("s2", "src/b/second.py", summary=True),))
    after = state.with_records(Fold(id="f2", level="auto", changes=(second,)))
    found = report_of(Plan(state, after, (), True, ""), "a.json", None).receipt
    assert (found.paths.folded, found.paths.still_in_view) == (2, 1)


def test_x6_money_is_that_of_the_cache() -> None:
    """Once: what stands behind the first change, written at 3.75 instead of read at 0.30. A turn: what was freed, read at 0.30."""
    found = report(CLEAR)
    level = found.levels[0]
    assert level.rewrite_usd is not None and level.saved_per_turn_usd is not None
    assert level.saved_per_turn_usd == pytest.approx((found.before.tokens - found.after.tokens) * 0.30 / 1e6)
    behind = level.rewrite_usd / (3.75 - 0.30) * 1e6
    before_it = report(HideSpan(last="a3", first="r1")).after.tokens
    assert behind == pytest.approx(found.after.tokens - before_it, abs=2)
    assert level.break_even_turns == pytest.approx(level.rewrite_usd / level.saved_per_turn_usd)


def test_x6_without_prices_no_money_is_told() -> None:
    level = report(CLEAR, model="a-model-nobody-knows").levels[0]
    assert (level.rewrite_usd, level.saved_per_turn_usd, level.break_even_turns) == (None, None, None)
    assert level.tokens_freed > 1_000


def test_i5_only_a_change_before_the_last_response_breaks_the_cached_prefix() -> None:
    assert report(CLEAR).prefix_breaks == 1
    waiting = (*ENTRIES[:4], user("r2", result("t2", PLENTY)))
    assert report(ReplaceBlocks((Target("r2", 0),), ("cleared",)), entries=waiting).prefix_breaks == 0


def test_x6_each_round_is_told_of_with_its_fate() -> None:
    found = report(HideEntries(("u1",)), ReplaceBlocks((Target("r1", 0),), ("cleared",)))
    assert [(row.round, row.entry, row.fate) for row in found.rounds] == [
        (1, "u1", "folded"), (2, "a1", "shortened"), (3, "a2", "kept"), (4, "a3", "kept"),
    ]  # fmt: skip
    assert found.rounds[0].said == "Rename the loader. Keep the tests green."
    assert found.rounds[1].tokens_before > 1_000 > found.rounds[1].tokens_after
    assert sum(row.tokens_before for row in found.rounds) == pytest.approx(found.before.tokens, abs=4)


def test_t2_the_kinds_add_up_to_the_size() -> None:
    found = report(CLEAR)
    for side in (found.before, found.after):
        assert sum(part.tokens for part in side.by_kind.values()) == pytest.approx(side.tokens, abs=len(side.by_kind))
    assert found.before.by_kind["tool results"].tokens > found.after.by_kind["tool results"].tokens
    assert (found.before.messages, found.after.messages) == (6, 6)


def test_w4_a_result_over_the_models_limit_is_a_violation() -> None:
    state = Driver(Log().append(user("u1", "word " * 8_000)), setup=make_setup(SONNET, window=4_096)).state
    found = report_of(Plan(state, state, (), False, "nothing can be folded"), "a.json", None)
    assert [row.rule for row in found.violations] == ["W4"] and found.largest[0].what == "user text in entry u1"
    assert found.after == found.before and found.why == "nothing can be folded"
