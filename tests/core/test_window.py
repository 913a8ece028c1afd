"""Section 2 of the specification: the window and its states."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.policy import WindowPolicy
from fivefold.core.window import half_up, scaled, state_of, window_of
from fivefold.errors import PolicyError


def test_w1_w2_w3_w4_numbers_at_200k() -> None:
    window = window_of(200_000, 64_000)
    assert (window.effective, window.auto, window.warning, window.blocking) == (180_000, 167_000, 147_000, 177_000)


def test_w2_numbers_at_100k() -> None:
    window = window_of(100_000, 20_000)
    assert (window.effective, window.auto) == (80_000, 67_000)


def test_w1_reserve_is_at_most_the_maximum_output() -> None:
    assert window_of(200_000, 8_192).effective == 200_000 - 8_192


def test_w1_cap_comes_before_the_reserve() -> None:
    capped = window_of(1_000_000, 64_000, WindowPolicy(cap_tokens=200_000))
    assert capped == window_of(200_000, 64_000)


@pytest.mark.parametrize("value", [0, -5, True, 1.5, "200k"])
def test_w1_refuses_what_is_no_positive_whole_number(value: Any) -> None:
    with pytest.raises(PolicyError, match="positive whole number"):
        window_of(value, 8_192)
    with pytest.raises(PolicyError, match="positive whole number"):
        window_of(200_000, 8_192, WindowPolicy(cap_tokens=value))


def test_w2_an_override_only_lowers_the_threshold() -> None:
    assert window_of(200_000, 64_000, WindowPolicy(threshold_percent=50)).auto == 90_000
    assert window_of(200_000, 64_000, WindowPolicy(threshold_tokens=100_000)).auto == 100_000
    assert window_of(200_000, 64_000, WindowPolicy(threshold_percent=100, threshold_tokens=199_000)).auto == 167_000


def test_w3_with_auto_off_the_threshold_is_the_effective_window() -> None:
    window = window_of(200_000, 64_000, auto=False)
    assert (window.auto, window.warning) == (180_000, 160_000)
    assert not state_of(179_999, window).above_auto and state_of(185_000, window).level == "blocking"


def test_w5_percent_left() -> None:
    window = window_of(200_000, 64_000)
    assert [state_of(used, window).percent_left for used in (0, 83_500, 167_000, 400_000)] == [100, 50, 0, 0]
    assert half_up(0.5) == 1 and half_up(1.5) == 2 and half_up(2.4) == 2


def test_w6_one_function_names_the_most_severe_state() -> None:
    window = window_of(200_000, 64_000)
    levels = [(used, state_of(used, window).level) for used in (146_999, 147_000, 166_999, 167_000, 176_999, 177_000)]
    assert levels == [(146_999, "ok"), (147_000, "error"), (166_999, "error"), (167_000, "auto"), (176_999, "auto"), (177_000, "blocking")]
    state = state_of(170_000, window)
    assert (state.above_warning, state.above_error, state.above_auto, state.at_blocking) == (True, True, True, False)


def test_w7_buffers_shrink_below_100k() -> None:
    window = window_of(8_192, 4_096)
    assert (window.effective, window.auto, window.warning, window.blocking) == (
        8_192 - 1_638,
        8_192 - 1_638 - 1_065,
        8_192 - 1_638 - 1_065 - 1_638,
        8_192 - 1_638 - 246,
    )
    assert 0.66 < window.auto / 8_192 < 0.68
    assert scaled(10_000, window) == half_up(10_000 * window.auto / 67_000)
    assert scaled(10_000, window_of(200_000, 64_000)) == 10_000


@given(st.integers(4_096, 2_000_000), st.integers(1_024, 256_000))
def test_w7_order_and_positivity_for_every_window(context: int, max_output: int) -> None:
    window = window_of(context, max_output)
    assert 0 < window.warning < window.auto < window.blocking < window.effective <= context
    assert state_of(0, window).level == "ok" and state_of(context, window).level == "blocking"


@given(
    st.integers(4_096, 2_000_000), st.integers(1_024, 256_000), st.integers(1, 2_000_000), st.floats(0.01, 100), st.integers(0, 3_000_000)
)
def test_w7_order_holds_under_any_override(context: int, max_output: int, tokens: int, percent: float, used: int) -> None:
    window = window_of(context, max_output, WindowPolicy(threshold_tokens=tokens, threshold_percent=percent))
    assert 0 < window.warning < window.auto < window.blocking
    assert 0 <= state_of(used, window).percent_left <= 100


def test_w10_cheapest_stays_under_the_cliff() -> None:
    assert window_of(1_000_000, 64_000, WindowPolicy(cheapest=True), cliff=100_000).context == 100_000
    assert window_of(1_000_000, 64_000, WindowPolicy(), cliff=100_000).context == 1_000_000


def test_w6_with_auto_off_the_level_is_never_auto() -> None:
    window = window_of(200_000, 64_000, auto=False)
    assert state_of(window.auto - 3_001, window).level == "error"
    assert state_of(window.auto, window).level == "blocking"
    assert not state_of(window.auto, window).above_auto


@pytest.mark.parametrize("values", [{"full_size_tokens": 0}, {"threshold_percent": float("nan")}, {"auto_buffer_tokens": -1}])
def test_w2_a_policy_that_makes_no_sense_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match="window"):
        WindowPolicy(**values)
