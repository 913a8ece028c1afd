"""The log as a value: what it refuses, and what a refusal costs (sections 0 and 11, I4, K2, T4)."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from fivefold.core.entries import Entry, Fold, HideSpan, Record, ReplaceBlocks, Target, Unfold
from fivefold.core.log import Log
from fivefold.core.messages import Text, ToolResult
from fivefold.errors import DuplicateIdError, FoldError, LogError
from tests.store.made import HEAD, answer, compaction, log_of, said


def test_k2_logs_with_another_base_are_unequal() -> None:
    records = [said("a"), said("b")]
    assert Log(HEAD, records) == Log(HEAD, records) == log_of(*records)
    assert Log(HEAD, records) != Log(HEAD, records, base=1)
    assert Log(HEAD, records, base=2) != Log(HEAD, records, base=1)


@pytest.mark.parametrize(
    "record", [said(""), Fold(id="", level="auto", changes=()), Fold(id="f", level="auto", changes=(HideSpan("a", None, (said(""),)),))]
)
def test_i4_an_empty_id_is_refused(record: Record) -> None:
    with pytest.raises(LogError, match="not empty"):
        log_of(said("a")).append(record)


@pytest.mark.parametrize("wrong", [42, None, "an entry", Text("x")])
def test_what_is_no_record_is_refused(wrong: Any) -> None:
    log = log_of(said("a"))
    with pytest.raises(LogError, match=f"a {type(wrong).__name__} is no record"):
        log.append(said("b"), wrong)
    assert log == log_of(said("a"))


def test_a_span_that_ends_before_it_begins_is_refused() -> None:
    log = log_of(said("a"), said("b"))
    with pytest.raises(FoldError, match="before it begins: 'b' stands behind 'a'"):
        log.append(Fold(id="f", level="auto", changes=(HideSpan("a", "b"),)))


def test_a_part_of_what_has_none_is_refused() -> None:
    parts = Entry(id="p", kind="user", blocks=(ToolResult("tc", (Text("one"), Text("two"))), Text("x")))
    log = log_of(answer("r", "c", "a string"), parts)
    for target in (Target("r", 0, 0), Target("p", 0, 2), Target("p", 0, -1), Target("p", 1, 0)):
        with pytest.raises(FoldError, match="no tool result with a part"):
            log.append(Fold(id="f", level="micro", changes=(ReplaceBlocks((target,)),)))
    assert len(log.append(Fold(id="f", level="micro", changes=(ReplaceBlocks((Target("p", 0, 1),)),))).folds) == 1


def test_i4_what_a_fold_brings_is_found_by_id_and_not_brought_again() -> None:
    log = log_of(said("a"), compaction("f", "a"))
    for id in ("f-boundary", "f-summary", "f-tail"):
        found = log.find(id)
        assert found is not None and found.id == id
        for record in (
            said(id),
            Fold(id=id, level="auto", changes=()),
            Fold(id="g", level="auto", changes=(HideSpan("a", None, (), (said(id),)),)),
        ):
            with pytest.raises(DuplicateIdError, match=id):
                log.append(record)
    assert log.find("f") is None, "a fold is no entry"
    assert log_of(said("a")).find("f-tail") is None


def test_x5_a_loaded_fold_that_was_undone_is_not_undone_again_behind_what_was_not_loaded() -> None:
    log = Log(HEAD, [said("a"), compaction("f", "a"), Unfold(fold="f")], base=3)
    with pytest.raises(FoldError, match="'f' is not in force"):
        log.append(Unfold(fold="f"))
    assert log.append(Unfold(fold="one not loaded")).changed_at == 4


def test_a_refused_append_leaves_nothing_behind() -> None:
    log = log_of(said("a"), compaction("f", "a"))
    other = log.with_head(HEAD)
    with pytest.raises(DuplicateIdError):
        log.append(said("b"), compaction("g", "b"), Unfold(fold="f"), said("a"))
    for value in (log, other):
        assert value.find("b") is value.find("g-summary") is None
        assert [placed.fold.id for placed in value.folds] == ["f"]
    grown = log.append(compaction("g", "a"), said("b"))
    assert grown.find("g-summary") is not None
    assert other.append(said("b")) == log_of(said("a"), compaction("f", "a"), said("b"))
    assert grown == log_of(said("a"), compaction("f", "a"), compaction("g", "a"), said("b"))


def test_a_log_that_is_not_the_newest_is_refused_without_harm_to_the_newest() -> None:
    old = log_of(said("a"))
    new = old.append(said("b"))
    with pytest.raises(DuplicateIdError):
        old.append(said("c"), said("a"))
    assert new == log_of(said("a"), said("b"))
    assert new.find("b") == said("b") and new.find("c") is None


def _calls(run: Any) -> int:
    """How many Python functions are called: a measure of work that does not hang on the clock."""
    count = 0

    def profile(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def test_t4_replacing_all_stand_ins_of_a_fold_costs_each_of_them_the_same() -> None:
    def work(count: int) -> int:
        stand_ins = tuple(said(f"s{i}") for i in range(count))
        log = log_of(said("a"), Fold(id="f", level="auto", changes=(HideSpan("a", None, stand_ins),)))
        targets = tuple(Target(entry.id, 0) for entry in stand_ins)
        return _calls(lambda: log.append(Fold(id="g", level="micro", changes=(ReplaceBlocks(targets),))))

    small, large = work(100), work(1000)
    assert large < 12 * small


def test_t4_a_refused_append_to_a_long_log_costs_no_copy() -> None:
    log = Log(HEAD, (said(f"e{i}") for i in range(50_000)))
    started = time.perf_counter()
    for i in range(200):
        with pytest.raises(DuplicateIdError):
            log.append(said(f"new{i}"), said("e7"))
        log = log.append(said(f"kept{i}"))
    assert time.perf_counter() - started < 2, "a copy takes more than 10 ms, 200 of them more than 2 s"
