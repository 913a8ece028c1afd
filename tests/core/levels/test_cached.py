"""M3: edits of the provider's cache: what is queued, what a failed request may not lose, and what stands at its place for good."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fivefold.core.levels.cached import CachedEdits, EditsBlock, Reference, consume, dropped, pin, register
from fivefold.core.policy import MicroPolicy

POLICY = MicroPolicy(edits_trigger_results=4, edits_keep_results=2)


def refs(numbers: Iterable[int]) -> list[Reference]:
    return [Reference(f"t{n}", n) for n in numbers]


def filled(count: int) -> CachedEdits:
    return register(CachedEdits(), refs(range(count)), POLICY)


def test_m3_nothing_is_queued_up_to_the_trigger_and_all_but_the_kept_over_it() -> None:
    assert filled(4).queued == ()
    over = filled(5)
    assert over.queued == ("t0", "t1", "t2")
    assert [ref.id for ref in over.live] == ["t3", "t4"]


def test_m3_the_defaults_are_20_and_5() -> None:
    at = register(CachedEdits(), refs(range(20)), MicroPolicy())
    over = register(at, refs([20]), MicroPolicy())
    assert (len(at.queued), len(over.queued), len(over.live)) == (0, 16, 5)


def test_m3_what_was_deleted_does_not_count_towards_the_next_trigger() -> None:
    state = pin(consume(filled(5), "u1").state)
    state = register(state, refs([5, 6]), POLICY)
    assert state.queued == ()
    assert register(state, refs([7]), POLICY).queued == ("t3", "t4", "t5")


def test_m3_results_that_are_told_again_are_not_counted_twice() -> None:
    state = filled(3)
    assert register(state, refs(range(3)), POLICY) is state
    assert register(state, refs(range(5)), POLICY) == filled(5)


@pytest.mark.parametrize(
    ("source", "counts"), [("main", True), ("main:2", True), ("sdk", True), ("", True), ("agent:x", False), ("compact", False)]
)
def test_m3_a_sub_agents_results_are_never_registered(source: str, counts: bool) -> None:
    assert (register(CachedEdits(), refs([0]), POLICY, source=source).seen == 0) == counts


def test_m3_with_nothing_queued_a_request_carries_nothing_new() -> None:
    state = filled(2)
    assert consume(state, "u1") == (state, None)
    assert state.blocks == ()


def test_m3_consume_attaches_and_pin_keeps_at_the_same_place() -> None:
    state, new = consume(filled(5), "u1")
    assert new == EditsBlock("u1", ("t0", "t1", "t2"))
    assert state.blocks == (new,) and state.pinned == ()
    sent = pin(state)
    assert sent.pinned == (new,) and sent.offered is None
    assert consume(sent, "u9") == (sent, None)
    assert sent.blocks == (new,)  # every later request, at u1 still


def test_m3_a_request_that_failed_before_it_was_sent_loses_no_edit() -> None:
    failed = consume(filled(5), "u1").state  # never pinned
    grown = register(failed, refs([5, 6, 7]), POLICY)
    again = consume(grown, "u2")
    assert again.edits == EditsBlock("u2", ("t0", "t1", "t2", "t3", "t4", "t5"))
    assert pin(again.state).pinned == (again.edits,)


def test_m3_a_second_try_with_nothing_new_offers_the_same() -> None:
    first = consume(filled(5), "u1")
    assert consume(first.state, "u1") == first


def test_m3_pins_stay_in_order_and_to_the_letter_while_new_ones_come() -> None:
    state = pin(consume(filled(5), "u1").state)
    before = state.blocks
    state = pin(consume(register(state, refs([5, 6, 7]), POLICY), "u4").state)
    assert state.blocks[:1] == before
    assert state.blocks[1:] == (EditsBlock("u4", ("t3", "t4", "t5")),)


def test_m3_pin_without_an_offer_changes_nothing() -> None:
    state = filled(5)
    assert pin(state) is state


def test_i5_a_result_keeps_its_reference_when_it_is_deleted() -> None:
    state = filled(5)
    seen = [state.references, consume(state, "u1").state.references, pin(consume(state, "u1").state).references]
    assert seen == [frozenset({"t0", "t1", "t2", "t3", "t4"})] * 3


def test_m6_all_pins_go_together_and_the_view_is_registered_anew() -> None:
    assert dropped() == CachedEdits()
    assert register(dropped(), refs(range(5)), POLICY).queued == ("t0", "t1", "t2")


def test_m3_keep_may_be_none_or_more_than_the_trigger() -> None:
    nothing_kept = MicroPolicy(edits_trigger_results=2, edits_keep_results=0)
    assert register(CachedEdits(), refs(range(3)), nothing_kept).queued == ("t0", "t1", "t2")
    much_kept = MicroPolicy(edits_trigger_results=2, edits_keep_results=4)
    assert [len(register(CachedEdits(), refs(range(n)), much_kept).queued) for n in (3, 4, 5)] == [0, 0, 1]


def test_k2_the_state_comes_back_from_its_json() -> None:
    state = consume(register(pin(consume(filled(5), "u1").state), refs([5, 6, 7]), POLICY), "u2").state
    assert msgspec.json.decode(msgspec.json.encode(state), type=CachedEdits) == state
    assert msgspec.json.encode(CachedEdits()) == b"{}"


def test_m7_a_turn_after_a_hundred_thousand_results_costs_what_is_new() -> None:
    """Measured: 0.4 s for 100,000 turns of one result each, pins included; the bound is ten times that."""
    policy = MicroPolicy()
    state = CachedEdits()
    start = time.perf_counter()
    for n in range(100_000):
        state = register(state, (Reference(f"t{n}", n),), policy)
        if state.queued:
            state = pin(consume(state, f"u{n}").state)
        assert len(state.live) <= 20
    assert time.perf_counter() - start < 15
    assert sum(len(block.deletes) for block in state.pinned) + len(state.live) == 100_000


class CachedEditsMachine(RuleBasedStateMachine):
    """Random turns, some of which fail before they are sent, against plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.state = CachedEdits()
        self.count = self.requests = 0
        self.server: list[tuple[str, str]] = []
        """(place, result) of each delete that reached the server, as it saw it first."""

    @rule(new=st.integers(0, 5))
    def results_come(self, new: int) -> None:
        self.state = register(self.state, refs(range(self.count, self.count + new)), POLICY)
        self.count += new

    @rule(is_sent=st.booleans())
    def a_request(self, is_sent: bool) -> None:
        self.requests += 1
        self.state = consume(self.state, f"u{self.requests}").state
        if is_sent:
            carried = [(block.at, id) for block in self.state.blocks for id in block.deletes]
            assert carried[: len(self.server)] == self.server, "an edit moved, or went missing"
            self.server = carried
            self.state = pin(self.state)

    @rule()
    def the_cache_expires(self) -> None:
        self.state, self.server, self.count = dropped(), [], 0

    @invariant()
    def each_result_is_in_one_place(self) -> None:
        deleted = [id for block in self.state.blocks for id in block.deletes]
        known = [*deleted, *self.state.queued, *(ref.id for ref in self.state.live)]
        assert known == [f"t{n}" for n in range(self.count)]


TestCachedEditsMachine = CachedEditsMachine.TestCase
