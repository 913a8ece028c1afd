"""E1–E7: what is asked of the provider, field by field, and what it says it did."""

from __future__ import annotations

from typing import Any

import pytest

from fivefold.core.economics import Model
from fivefold.core.levels.server_edits import Applied, ServerEdits, applied, config
from fivefold.core.messages import JSON
from fivefold.core.policy import EditsPolicy

MODEL = Model("m", "anthropic", 1_000_000, 128_000, edits=("clear_tool_uses", "clear_thinking"), compaction=("threshold", "on_demand"))
PLAIN = Model("m", "anthropic", 200_000, 64_000)
TOOLS = ("Read", "Bash", "Edit", "Write", "TodoWrite", "Task", "mcp__x__lookup", "Edit")
HOUR = 3600


def asked(policy: EditsPolicy, model: Model = MODEL, **more: Any) -> ServerEdits | None:
    given: dict[str, Any] = {
        "auto_threshold": None, "idle_seconds": 10.0, "thinking": True, "redacted": False, "signed_block_in_view": False,
        "tool_names": TOOLS,
    }  # fmt: skip
    return config(policy, model, **{**given, **more})


def edits(policy: EditsPolicy, model: Model = MODEL, **more: Any) -> list[JSON]:
    found = asked(policy, model, **more)
    assert found is not None
    return list(found.edits)


def test_e5_by_default_thinking_is_kept_and_tools_are_let_be() -> None:
    found = asked(EditsPolicy())
    assert found == ServerEdits(({"type": "clear_thinking_20251015", "keep": "all"},), ("context-management-2025-06-27",))
    assert found.context_management == {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}


def test_e3_clearing_results_with_the_defaults_asks_for_140_000_at_least() -> None:
    assert edits(EditsPolicy(tools="results", thinking=False)) == [
        {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "input_tokens", "value": 180_000},
            "keep": {"type": "tool_uses", "value": 3},
            "clear_at_least": {"type": "input_tokens", "value": 140_000},
            "exclude_tools": ["TodoWrite", "Task"],
        }
    ]


def test_e5_clearing_uses_leaves_edit_tools_out_each_once() -> None:
    (edit,) = edits(EditsPolicy(tools="uses", thinking=False))
    assert isinstance(edit, dict)
    assert edit["clear_tool_inputs"] is True
    assert edit["exclude_tools"] == ["Edit", "Write", "TodoWrite", "Task"]


def test_e2_no_list_of_tools_where_none_is_left_out() -> None:
    (edit,) = edits(EditsPolicy(tools="uses", thinking=False), tool_names=("Read", "Bash"))
    assert isinstance(edit, dict)
    assert "exclude_tools" not in edit


def test_e2_thinking_stands_first_and_compaction_last_each_with_its_header() -> None:
    found = asked(EditsPolicy(tools="results", compaction=True))
    assert found is not None
    assert [edit["type"] for edit in found.edits] == ["clear_thinking_20251015", "clear_tool_uses_20250919", "compact_20260112"]
    assert found.betas == ("context-management-2025-06-27", "compact-2026-01-12")


@pytest.mark.parametrize(
    ("idle", "keep"),
    [(None, "all"), (0.0, "all"), (HOUR, "all"), (HOUR + 1, {"type": "thinking_turns", "value": 1})],
)
def test_e4_after_more_than_an_hour_one_turn_of_thinking_is_kept(idle: float | None, keep: JSON) -> None:
    assert edits(EditsPolicy(), idle_seconds=idle) == [{"type": "clear_thinking_20251015", "keep": keep}]


@pytest.mark.parametrize("more", [{"thinking": False}, {"redacted": True}])
def test_e4_no_thinking_edit_for_a_model_that_does_not_think_or_hides_it(more: dict[str, Any]) -> None:
    assert asked(EditsPolicy(), **more) is None


def test_e6_no_strategy_no_field() -> None:
    assert asked(EditsPolicy(thinking=False)) is None
    assert asked(EditsPolicy(tools="uses", compaction=True), PLAIN) is None


def test_e2_only_what_the_model_has_is_asked_for() -> None:
    only_tools = Model("m", "anthropic", 200_000, 64_000, edits=("clear_tool_uses",))
    found = asked(EditsPolicy(tools="results", compaction=True), only_tools)
    assert found is not None
    assert [edit["type"] for edit in found.edits] == ["clear_tool_uses_20250919"]
    assert found.betas == ("context-management-2025-06-27",)


@pytest.mark.parametrize(("threshold", "notes"), [(None, 0), (180_001, 0), (180_000, 1), (167_000, 1)])
def test_e3_a_trigger_that_auto_compaction_comes_before_is_said(threshold: int | None, notes: int) -> None:
    found = asked(EditsPolicy(tools="results"), auto_threshold=threshold)
    assert found is not None
    assert len(found.notes) == notes
    assert all("180,000" in note and f"{threshold:,}" in note for note in found.notes)
    assert found == asked(EditsPolicy(tools="results"), auto_threshold=threshold)  # the same words, so that they can be said once


def test_e3_nothing_is_said_of_a_trigger_that_nobody_uses() -> None:
    found = asked(EditsPolicy(), auto_threshold=100_000)
    assert found is not None and found.notes == ()


def test_e3_a_target_over_the_trigger_asks_for_no_least_amount_and_says_so() -> None:
    found = asked(EditsPolicy(tools="results", thinking=False, target_tokens=180_000))
    assert found is not None
    assert "clear_at_least" not in found.edits[0]
    assert "edits.target_tokens" in found.notes[0]


def test_e7_compaction_alone_needs_only_its_own_header() -> None:
    found = asked(EditsPolicy(thinking=False, compaction=True))
    assert found is not None
    assert found.edits == ({"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 180_000}},)
    assert (found.betas, found.notes) == (("compact-2026-01-12",), ())


def test_e7_a_trigger_under_the_providers_least_is_raised_and_said() -> None:
    found = asked(EditsPolicy(thinking=False, compaction=True, trigger_tokens=30_000, target_tokens=10_000))
    assert found is not None
    assert found.edits[0]["trigger"] == {"type": "input_tokens", "value": 50_000}
    assert "50,000" in found.notes[0]


def test_e7_compaction_is_off_beside_a_signed_block_and_on_models_without_it() -> None:
    policy = EditsPolicy(compaction=True)
    assert [edit["type"] for edit in edits(policy, signed_block_in_view=True)] == ["clear_thinking_20251015"]  # type: ignore[index,call-overload]
    on_demand_only = Model("m", "anthropic", 200_000, 64_000, compaction=("on_demand",))
    assert asked(policy, on_demand_only) is None


# --- what the server says


def test_e6_applied_edits_are_read_back() -> None:
    told: JSON = {
        "applied_edits": [
            {"type": "clear_thinking_20251015", "cleared_thinking_turns": 3, "cleared_input_tokens": 15_000},
            {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50_000},
        ]
    }
    assert applied(told) == (
        Applied("clear_thinking_20251015", cleared_thinking_turns=3, cleared_input_tokens=15_000),
        Applied("clear_tool_uses_20250919", cleared_tool_uses=8, cleared_input_tokens=50_000),
    )


@pytest.mark.parametrize(
    "junk", [None, 3, "x", [], {}, {"applied_edits": None}, {"applied_edits": {}}, {"applied_edits": [None, 3, {}, {"type": 4}]}]
)
def test_e6_what_has_not_the_shape_is_nothing(junk: JSON) -> None:
    assert applied(junk) == ()


def test_e6_counts_that_are_none_are_zero_and_the_edit_is_still_told() -> None:
    told: JSON = {
        "applied_edits": [{"type": "new_edit", "cleared_tool_uses": True, "cleared_input_tokens": -5, "cleared_thinking_turns": "9"}]
    }
    assert applied(told) == (Applied("new_edit"),)


def test_h4_a_list_without_end_is_cut() -> None:
    assert len(applied({"applied_edits": [{"type": "x"}] * 100_000})) == 100
