"""P1: one typed, validated, frozen policy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fivefold.core.policy import Policy
from fivefold.errors import PolicyError


def test_p1_values_over_the_defaults() -> None:
    policy = Policy.of({"window": {"cap_tokens": 64_000}, "micro": {"keep_results": 3}})
    assert (policy.window.cap_tokens, policy.micro.keep_results, policy.auto.max_failures) == (64_000, 3, 3)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"windw": {}}, "windw"),
        ({"window": {"cap": 5}}, "cap"),
        ({"window": {"cap_tokens": 0}}, "window.cap_tokens"),
        ({"window": {"cap_tokens": "big"}}, "cap_tokens"),
        ({"micro": {"keep_results": 0}}, "micro.keep_results"),
        ({"auto": {"headroom_percent": 101}}, "auto.headroom_percent"),
        ({"auto": {"max_failures": -1}}, "auto.max_failures"),
        ({"memory": {"wait_seconds": -1}}, "memory.wait_seconds"),
    ],
)
def test_p1_refuses_by_name(values: dict[str, Any], named: str) -> None:
    with pytest.raises(PolicyError, match=named):
        Policy.of(values)


def test_p1_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Policy().window.cap_tokens = 1  # type: ignore[misc]


def test_p1_every_number_of_the_specification_is_its_default() -> None:
    """A table of the specification's numbers, kept apart from the code's."""
    numbers = msgspec.to_builtins(Policy())
    wanted = {
        ("window", "summary_reserve_tokens"): 20_000,  # W1
        ("window", "auto_buffer_tokens"): 13_000,  # W2
        ("window", "warning_buffer_tokens"): 20_000,  # W3
        ("window", "blocking_buffer_tokens"): 3_000,  # W4
        ("auto", "max_failures"): 3,  # A6
        ("auto", "headroom_percent"): 20,  # A11
        ("auto", "cold_percent"): 50,  # A12
        ("auto", "floor_percent"): 1,  # A10
        ("micro", "idle_minutes"): 60,  # M2
        ("micro", "keep_results"): 5,  # M2
        ("micro", "edits_trigger_results"): 20,  # M3
        ("micro", "edits_keep_results"): 5,  # M3
        ("micro", "min_gain_tokens"): 20_000,  # M8
        ("micro", "result_percent"): 25,  # M10
        ("micro", "round_percent"): 50,  # M10
        ("memory", "first_tokens"): 10_000,  # S1
        ("memory", "grow_tokens"): 5_000,  # S1
        ("memory", "tool_calls"): 3,  # S1
        ("memory", "wait_seconds"): 15,  # S5
        ("memory", "stale_seconds"): 60,  # S5
        ("memory", "keep_tokens"): 10_000,  # S6
        ("memory", "keep_entries"): 5,  # S6
        ("memory", "keep_max_tokens"): 40_000,  # S6
        ("memory", "section_tokens"): 2_000,  # S9
        ("summary", "max_tokens"): 8_000,  # L12
        ("summary", "max_retries"): 3,  # L7
        ("summary", "drop_percent"): 20,  # L7
        ("summary", "tail_rounds"): 3,  # L14
        ("restore", "files"): 5,  # C2
        ("restore", "file_tokens"): 5_000,  # C2
        ("restore", "files_tokens"): 50_000,  # C2
        ("restore", "skill_tokens"): 5_000,  # C3
        ("restore", "skills_tokens"): 25_000,  # C3
    }
    assert {key: numbers[key[0]][key[1]] for key in wanted} == wanted


def test_p1_numbers_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(PolicyError, match="blocking_buffer_tokens"):
        Policy.of({"window": {"blocking_buffer_tokens": 150_000}})
