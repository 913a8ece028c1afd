"""Prices, cliffs, cache rules and the money of one response (W10, T8, B1)."""

from __future__ import annotations

import math

import msgspec
import pytest

from fivefold.core.economics import CacheRules, Model, Money, Price, Prices, Tier, cost
from fivefold.core.entries import Iteration, Usage

FLAT = Price(3.0, 15.0, 0.3, 3.75, 6.0)
CLIFF = Prices(Price(0.1, 0.5, 0.01, 0.125, 0.2), (Tier(100_000, Price(0.5, 2.5, 0.05, 0.625, 1.0)),))


def model(prices: Prices | None) -> Model:
    return Model("m", "p", 200_000, 64_000, prices=prices)


def test_w10_a_prompt_of_exactly_the_cliff_pays_the_base_price_and_one_token_more_does_not() -> None:
    assert CLIFF.price_for(100_000) == CLIFF.base
    assert CLIFF.price_for(100_001) == CLIFF.tiers[0].price
    assert CLIFF.cliff == 100_000


def test_w10_several_cliffs_are_climbed_in_order() -> None:
    steps = Prices(FLAT, (Tier(32_000, FLAT.times(2)), Tier(128_000, FLAT.times(3))))
    assert [steps.price_for(n).input for n in (0, 32_000, 32_001, 128_000, 128_001)] == [3.0, 3.0, 6.0, 6.0, 9.0]
    assert steps.cliff == 32_000


def test_w10_there_is_no_cliff_where_the_price_is_flat_or_falls() -> None:
    assert Prices(FLAT).cliff is None
    assert Prices(FLAT, (Tier(100, FLAT.times(0.5)),)).cliff is None


def test_b1_cost_of_a_response_by_hand() -> None:
    # 10,000 x 3 + 20,000 x 3.75 + 100,000 x 0.3 + 2,000 x 15, over a million
    money = cost(Usage(input=10_000, cache_write=20_000, cache_read=100_000, output=2_000), model(Prices(FLAT)))
    assert money is not None
    assert (money.input, money.cache_write, money.cache_read, money.output) == pytest.approx((0.03, 0.075, 0.03, 0.03))
    assert money.total == pytest.approx(0.165)


def test_b1_one_hour_writes_cost_their_own_price() -> None:
    money = cost(Usage(cache_write=20_000, cache_write_1h=5_000), model(Prices(FLAT)))
    assert money is not None
    assert money.total == pytest.approx((15_000 * 3.75 + 5_000 * 6.0) / 1e6)


def test_w10_reads_and_writes_count_for_the_tier_and_output_does_not() -> None:
    below = cost(Usage(input=40_000, cache_write=30_000, cache_read=30_000, output=50_000), model(CLIFF))
    above = cost(Usage(input=40_000, cache_write=30_000, cache_read=30_001, output=50_000), model(CLIFF))
    assert below is not None and above is not None
    assert below.input == pytest.approx(40_000 * 0.1 / 1e6)
    assert above.total == pytest.approx(5 * below.total, rel=1e-6)


def test_t8_a_response_of_several_windows_costs_the_sum_of_all_each_at_its_own_tier() -> None:
    windows = (Iteration("compaction", input=150_000, output=4_000), Iteration("message", input=1_000, cache_write=9_000, output=500))
    usage = Usage(input=1_000, cache_write=9_000, output=500, iterations=windows)
    money = cost(usage, model(CLIFF))
    assert money is not None
    first = (150_000 * 0.5 + 4_000 * 2.5) / 1e6
    second = (1_000 * 0.1 + 9_000 * 0.125 + 500 * 0.5) / 1e6
    assert money.total == pytest.approx(first + second)


def test_t8_one_hour_writes_are_shared_among_the_windows() -> None:
    windows = (Iteration("compaction", cache_write=8_000), Iteration("message", cache_write=4_000))
    money = cost(Usage(cache_write=4_000, cache_write_1h=4_000, iterations=windows), model(Prices(FLAT)))
    assert money is not None
    assert money.total == pytest.approx(12_000 * 6.0 / 1e6)


def test_v3_unknown_prices_make_no_money_instead_of_none_spent() -> None:
    assert cost(Usage(input=1_000_000), model(None)) is None


def test_money_adds_up_part_by_part() -> None:
    total = sum((Money(0.1, 0.2, 0.3, 0.4), Money(1.0, 2.0, 3.0, 4.0)), Money())
    assert (total.input, total.cache_write, total.cache_read, total.output) == pytest.approx((1.1, 2.2, 3.3, 4.4))
    assert math.isclose(total.total, 11.0)


def test_a_model_survives_its_json() -> None:
    full = Model("m", "p", 400_000, 128_000, input_cap=272_000, prices=CLIFF, cache=CacheRules(512, client_marks=True), thinking="bound")
    assert msgspec.json.decode(msgspec.json.encode(full), type=Model) == full


def test_prompt_limit_is_the_cap_where_there_is_one_and_never_over_the_window() -> None:
    assert Model("m", "p", 400_000, 128_000, input_cap=272_000).prompt_limit == 272_000
    assert Model("m", "p", 100_000, 10_000, input_cap=272_000).prompt_limit == 100_000
    assert Model("m", "p", 200_000, 64_000).prompt_limit == 200_000
