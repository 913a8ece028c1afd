"""Section 5: what is asked of the provider with each request, and a compaction that it makes by itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fivefold.core.entries import Iteration, Usage
from fivefold.core.messages import Compaction, RedactedThinking, Text, Thinking, ToolUse
from tests.build import assistant, user
from tests.rules.talk import MODEL, Talk, rounds_of, shown, summaries, talk

EDITING = msgspec.structs.replace(
    MODEL, window=1_000_000, edits=("clear_tool_uses", "clear_thinking"), compaction=("threshold",), thinking="free"
)
"""A model with all server-side edits, and a window in which they can happen before auto compaction does."""
BLOCK: dict[str, Any] = {"type": "compaction", "content": "The parts were read.", "signature": "c2ln"}


def asked(found: Talk, *, thinks: bool = False) -> list[dict[str, Any]] | None:
    """The edits that the next request carries."""
    edits = found.driver.before_request(thinks=thinks).send.edits
    return None if edits is None else list(edits.context_management["edits"])


def talking(policy: dict[str, Any] | None = None, **more: Any) -> Talk:
    return talk(rounds_of(3, 200, time=1_000_000.0), window=1_000_000, policy=policy, model=EDITING, **more)


def test_e1_an_edit_goes_with_the_ordinary_request_and_nothing_changes_here() -> None:
    found = talking({"edits": {"tools": "results"}})
    view = found.driver.state.view
    edits = asked(found)
    assert edits is not None and [edit["type"] for edit in edits] == ["clear_tool_uses_20250919"]
    assert found.driver.state.view is view and found.events == []


def test_e2_e5_by_default_only_thinking_is_edited_and_it_stands_first() -> None:
    assert asked(talking()) is None
    assert [edit["type"] for edit in asked(talking(), thinks=True) or []] == ["clear_thinking_20251015"]
    both = asked(talking({"edits": {"tools": "uses"}}), thinks=True) or []
    assert [edit["type"] for edit in both] == ["clear_thinking_20251015", "clear_tool_uses_20250919"]


def test_e3_the_defaults_are_180_000_and_140_000_to_clear_at_least() -> None:
    (edit,) = asked(talking({"edits": {"tools": "results"}})) or []
    assert edit["trigger"] == {"type": "input_tokens", "value": 180_000}
    assert edit["clear_at_least"] == {"type": "input_tokens", "value": 140_000}


def test_e3_a_trigger_that_auto_compaction_comes_before_is_said_once_in_a_conversation() -> None:
    found = talk(rounds_of(3, 200), window=200_000, policy={"edits": {"tools": "results"}}, model=EDITING)
    for turn in range(3):
        found.driver.before_request()
        found.driver.replied(assistant(f"x{turn}", "Done.", api_id=f"y{turn}"))
    (note,) = found.named("note")
    assert "180,000" in note["text"] and "167,000" in note["text"]
    again = talk([], log=found.driver.log, window=200_000, policy={"edits": {"tools": "results"}}, model=EDITING)
    again.driver.before_request()
    assert again.named("note") == []


@pytest.mark.parametrize(("pause", "keep"), [(3_600, "all"), (3_601, {"type": "thinking_turns", "value": 1})])
def test_e4_after_more_than_an_hour_one_turn_of_thinking_is_kept(pause: int, keep: object) -> None:
    found = talking({"auto": {"reactive_only": True}})
    found.clock.now = 1_000_000.0 + pause
    (edit,) = asked(found, thinks=True) or []
    assert edit["keep"] == keep


def test_e4_redacted_thinking_is_left_alone() -> None:
    entries = [user("u1", "Go."), assistant("a1", RedactedThinking("opaque"), "Done.", api_id="m1", time=1_000_000.0), user("u2", "On.")]
    found = talk(entries, window=1_000_000, model=EDITING)
    assert asked(found, thinks=True) is None


def test_e6_no_strategy_no_field_in_the_request() -> None:
    assert talk(rounds_of(2, 100), policy={"edits": {"tools": "results"}}).driver.before_request(thinks=True).send.edits is None


def test_e6_t2_what_the_server_cleared_is_read_back_into_the_meter_and_the_events() -> None:
    applied = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 14_000}]}
    sizes = {}
    for told in (applied, None):
        found = talk(rounds_of(12, 1_500), window=1_000_000, policy={"edits": {"tools": "results"}}, model=EDITING, overhead=None)
        found.driver.before_request()
        found.driver.replied(assistant("x", "Done.", api_id="y", usage=Usage(input=5_000, output=100)), context_management=told)
        sizes[told is applied] = found.driver.tokens
        names = [event.name for event in found.events]
        assert names == (["server_edited"] if told else [])
    assert sizes[True] == 5_100  # and not 25,000, which no provider sees
    assert sizes[False] > 20_000  # a count that nothing explains is not believed
    assert found.driver.state.ledger.calibration.ratio is None


# --- E7: a compaction by the provider


def compacted(found: Talk) -> None:
    """A response in which the provider compacted: its block, and the answer behind it."""
    found.driver.before_request()
    usage = Usage(input=9_000, output=400)
    found.driver.replied(assistant("c1", Compaction(dict(BLOCK)), Text("On with it."), api_id="mc", usage=usage))


def test_e7_the_threshold_edit_is_asked_for_where_the_model_has_it() -> None:
    edits = asked(talking({"edits": {"compaction": True}})) or []
    assert [edit["type"] for edit in edits] == ["compact_20260112"]
    assert edits[0]["trigger"] == {"type": "input_tokens", "value": 180_000}


def test_e7_the_block_is_kept_and_sent_back_exactly_and_hides_what_came_before() -> None:
    found = talking({"edits": {"compaction": True}}, overhead=None)
    before = list(found.driver.log.entries())
    compacted(found)
    assert shown(found.driver.state) == ["c1"]
    assert [block for message in found.driver.outgoing().messages for block in message.blocks if isinstance(block, Compaction)] == [
        Compaction(BLOCK)
    ]
    assert list(found.driver.log.entries())[: len(before)] == before
    assert found.named("folded")[0]["level"] == "server"
    assert found.driver.undo() and "u1" in shown(found.driver.state)


def test_e7_while_a_signed_block_is_in_view_none_is_asked_for() -> None:
    found = talking({"edits": {"compaction": True}}, overhead=None)
    compacted(found)
    found.driver.say(user("v", "And now?"))
    assert asked(found) is None


def test_e7_t8_the_usage_of_the_compaction_is_never_taken_for_the_size() -> None:
    found = talking({"edits": {"compaction": True}}, overhead=None)
    found.driver.before_request()
    windows = (Iteration("compaction", input=180_000, output=3_000), Iteration("message", input=9_000, output=400))
    usage = Usage(input=9_000, output=400, iterations=windows)
    found.driver.replied(assistant("c1", Compaction(dict(BLOCK)), Text("On with it."), api_id="mc", usage=usage))
    assert found.driver.tokens < 10_000


def test_e7_a_compaction_that_failed_at_the_provider_hides_nothing() -> None:
    found = talking({"edits": {"compaction": True}})
    found.driver.before_request()
    failed = Compaction({"type": "compaction", "content": None})
    found.driver.replied(assistant("c1", failed, Text("On with it."), api_id="mc"))
    assert "u1" in shown(found.driver.state) and found.driver.log.folds == ()


def test_e1_edits_ride_along_whatever_the_view_went_through() -> None:
    found = talk(
        rounds_of(12, 1_500),
        window=20_000,
        policy={"edits": {"tools": "uses", "trigger_tokens": 9_000, "target_tokens": 4_000}},
        model=EDITING,
    )
    edits = asked(found) or []
    assert summaries(found.driver.state) and edits[0]["clear_at_least"] == {"type": "input_tokens", "value": 5_000}
    assert all(not isinstance(block, Thinking | ToolUse) for block in summaries(found.driver.state)[0].blocks)
