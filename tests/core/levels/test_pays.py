"""M9: the money of a clearing, by hand, and against a plain sum over the turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.economics import CacheRules, Model, Price, Prices, Tier
from fivefold.core.levels.pays import Worth, worth

CACHE = CacheRules()
TENTH = Price(5.0, 25.0, 0.5, 6.25, 10.0)
FORTIETH = Price(8.0, 40.0, 0.2, 10.0, 16.0)
CLIFF = Prices(Price(0.1, 0.5, 0.01, 0.125, 0.2), (Tier(100_000, Price(0.5, 2.5, 0.05, 0.625, 1.0)),))


def model(prices: Prices | None, cache: CacheRules | None = CACHE) -> Model:
    return Model("m", "p", 1_000_000, 128_000, prices=prices, cache=cache)


def made(*args: float, prices: Prices | None = None, **more: object) -> Worth:
    freed, suffix, turns = args
    found = worth(int(freed), int(suffix), turns, model(prices or Prices(TENTH)), **{"cache_alive": True, **more})  # type: ignore[arg-type]
    assert found is not None
    return found


def test_m9_by_hand_at_a_tenth() -> None:
    # 60,000 written instead of read: 60,000 x (6.25 - 0.50); 20,000 read less in each turn: 20,000 x 0.50; over a million
    found = made(20_000, 60_000, 50)
    assert found.write_cost == pytest.approx(0.345)
    assert found.saved_per_turn == pytest.approx(0.01)
    assert found.break_even_turns == pytest.approx(34.5)
    assert found.pays


def test_m9_it_pays_only_after_the_break_even() -> None:
    assert [made(20_000, 60_000, turns).pays for turns in (0, 34, 35)] == [False, False, True]


def test_m9_where_reads_are_cheap_the_same_clearing_loses_money() -> None:
    found = made(20_000, 60_000, 50, prices=Prices(FORTIETH))
    assert found.break_even_turns == pytest.approx(3 * 49)
    assert not found.pays


def test_m9_the_long_lifetime_is_dearer_to_write() -> None:
    assert made(20_000, 60_000, 50, long_lifetime=True).write_cost == pytest.approx(60_000 * 9.5 / 1e6)


def test_a12_on_a_dead_cache_clearing_is_free() -> None:
    found = made(20_000, 60_000, 1, cache_alive=False)
    assert (found.write_cost, found.break_even_turns, found.pays) == (0.0, 0.0, True)


def test_m9_the_end_of_the_prompt_is_cleared_for_nothing() -> None:
    assert made(20_000, 0, 1).pays


@pytest.mark.parametrize("alive", [True, False])
def test_m9_clearing_nothing_never_pays(alive: bool) -> None:
    assert made(0, 60_000, 1_000, cache_alive=alive) == Worth(0.0, 0.0, None, False)
    assert made(-5, 60_000, 1_000, cache_alive=alive) == Worth(0.0, 0.0, None, False)


def test_m9_no_turns_left_no_gain() -> None:
    assert not made(20_000, 0, 0).pays


def test_w10_going_back_under_a_cliff_is_worth_five_times_the_whole_prompt() -> None:
    found = made(20_000, 50_000, 1, prices=CLIFF, prompt_tokens=110_000)
    # 110,000 x 0.05 before, 90,000 x 0.01 after; the suffix is written at the price under the cliff
    assert found.saved_per_turn == pytest.approx((110_000 * 0.05 - 90_000 * 0.01) / 1e6)
    assert found.write_cost == pytest.approx(50_000 * 0.115 / 1e6)
    assert found.pays == (found.saved_per_turn > found.write_cost)


def test_w10_staying_over_the_cliff_is_priced_over_it() -> None:
    found = made(20_000, 50_000, 1, prices=CLIFF, prompt_tokens=300_000)
    assert found.saved_per_turn == pytest.approx(20_000 * 0.05 / 1e6)
    assert found.write_cost == pytest.approx(50_000 * 0.575 / 1e6)


def test_w10_without_a_size_the_base_price_holds() -> None:
    assert made(200_000, 50_000, 1, prices=CLIFF).saved_per_turn == pytest.approx(200_000 * 0.01 / 1e6)


def test_m9_without_a_prompt_cache_input_is_paid_each_turn_and_rewriting_costs_nothing() -> None:
    found = worth(20_000, 60_000, 1, model(Prices(TENTH), cache=None), cache_alive=True)
    assert found is not None
    assert (found.write_cost, found.saved_per_turn, found.pays) == (0.0, pytest.approx(20_000 * 5.0 / 1e6), True)


def test_v3_unknown_prices_are_no_answer_instead_of_a_free_clearing() -> None:
    assert worth(20_000, 60_000, 10, model(None), cache_alive=True) is None


@given(
    freed=st.integers(1, 200_000), suffix=st.integers(0, 200_000), front=st.integers(0, 200_000), turns=st.integers(1, 60),
    prices=st.sampled_from([Prices(TENTH), Prices(FORTIETH), CLIFF]),
)  # fmt: skip
def test_m9_the_formula_agrees_with_a_bill_turn_by_turn(freed: int, suffix: int, front: int, turns: int, prices: Prices) -> None:
    """The oracle adds up what each request pays, one after the other."""
    whole = front + freed + suffix
    old, new = prices.price_for(whole), prices.price_for(whole - freed)
    alone = cleared = 0.0
    for turn in range(turns):
        alone += whole * old.cache_read
        cleared += front * new.cache_read + suffix * (new.cache_write_5m if turn == 0 else new.cache_read)
    found = worth(freed, suffix, turns, model(prices), cache_alive=True, prompt_tokens=whole)
    assert found is not None
    assert turns * found.saved_per_turn - found.write_cost == pytest.approx((alone - cleared) / 1e6, abs=1e-9)
