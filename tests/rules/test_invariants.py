"""Section 11: what is sent stays legal whatever is folded, and thinking that is bound to its prefix is left or hidden, never broken."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fivefold.core.events import Staged, Summarized
from fivefold.core.messages import (
    Opaque,
    RedactedThinking,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    encode_message,
)
from fivefold.core.repair import INTERRUPTED, ORPHAN
from fivefold.core.view import view_of
from fivefold.perform import Ports
from tests.build import assistant, call, refused, result, user
from tests.rules.talk import (
    BOUND,
    FREE,
    MODEL,
    Talk,
    loop_of,
    rounds_of,
    said,
    shown,
    summaries,
    talk,
    thought,
    thoughtful,
    thoughts,
    too_long,
    words,
)


def wire(found: Talk) -> bytes:
    """The request's messages as bytes."""
    return b"\n".join(msgspec.json.encode(encode_message(message)) for message in found.driver.outgoing().messages)


# --- I1 to I4, through every level


def test_i1_a_synthetic_result_exists_in_the_request_only() -> None:
    entries = [user("u1", "Go."), assistant("a1", call("t1"), api_id="m1"), user("u2", "Stop, something else.")]
    found = talk(entries)
    sent = found.driver.before_request()
    blocks = [block for message in sent.request.messages for block in message.blocks]
    assert ToolResult("t1", INTERRUPTED, is_error=True) in blocks
    assert [finding.rule for finding in sent.request.findings] == ["I1"]
    assert list(found.driver.log.entries()) == entries and INTERRUPTED not in said(found.driver.state)


@pytest.mark.parametrize("what", ["auto", "from", "up_to", "micro", "snip", "reactive", "collapse"])
def test_i1_i2_i3_i4_whatever_is_folded_the_request_is_legal(what: str) -> None:
    entries = []
    for n in range(1, 17):  # parallel calls, one response over two entries, results in one entry
        entries += [
            user(f"u{n}", f"Part {n}."),
            assistant(f"a{n}", thought(n), "I look.", call(f"s{n}", "Read", file_path=f"{n}.py"), api_id=f"m{n}"),
            assistant(f"c{n}", call(f"t{n}", "Bash", command=f"cat {n}"), api_id=f"m{n}"),
            user(f"r{n}", result(f"t{n}", words(700)), result(f"s{n}", words(700))),
            assistant(f"b{n}", thought(n + 100), f"Part {n} is read.", api_id=f"n{n}"),
        ]
    policy: dict[str, Any] = {"collapse": {"enabled": True}} if what == "collapse" else {}
    policy |= {"auto": {"reactive_only": True}} if what == "reactive" else {}
    found = talk([*entries, user("v", "Go on.")], window=24_000 if what in ("auto", "reactive") else 60_000, policy=policy, model=FREE)
    if what in ("from", "up_to"):
        found.driver.compact(pivot="r9", direction=what)
    elif what == "micro":
        found.driver.compact(level="micro")
    elif what == "snip":
        found.driver.snip("c3", "r5", "b7")
    if what == "collapse":
        found.driver._now(Staged(first="a2", last="b2", text="Part 2 was read."))
    sent = found.driver.before_request()
    if what in ("reactive", "collapse"):
        sent = found.driver.rejected(too_long(25_000, 24_000))
    assert found.driver.log.folds
    assert refused(sent.request.messages, open_end=False) == [] and sent.request.findings == ()
    ids = [item.entry.id for item in found.driver.state.view.shown()]
    assert len(ids) == len(set(ids))
    uses = [block.id for message in sent.request.messages for block in message.blocks if isinstance(block, ToolUse)]
    assert len(uses) == len(set(uses))
    by_api: dict[str | None, int] = {}
    for entry in found.driver.state.view.entries():
        if entry.kind == "assistant":
            by_api[entry.api_id] = by_api.get(entry.api_id, 0) + 1
    assert all(count == (2 if str(api).startswith("m") else 1) for api, count in by_api.items())
    said_thoughts = [block for entry in entries for block in entry.blocks if isinstance(block, Thinking)]
    assert thoughts(found) and all(block in said_thoughts for block in thoughts(found))


def test_i3_the_request_ends_on_the_user_after_a_compaction() -> None:
    found = talk([*rounds_of(12, 1_500), user("v", "Go on.")], window=20_000)
    sent = found.driver.before_request()
    assert (sent.request.messages[0].role, sent.request.messages[-1].role) == ("user", "user")


def test_i3_a_request_that_would_end_on_the_assistant_ends_on_the_user_where_the_model_takes_no_prefill() -> None:
    entries = rounds_of(1, 100)
    takes = msgspec.structs.replace(MODEL, prefill=True)
    ends = [talk(entries, model=model).driver.before_request().request.messages[-1] for model in (MODEL, takes)]
    assert [message.role for message in ends] == ["user", "assistant"] and ends[0].blocks == (Text("Go on."),)


def test_i4_compacting_again_and_again_gives_no_id_twice() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    for turn in range(4):
        found.driver.before_request()
        found.driver.replied(assistant(f"x{turn}", "Done.", api_id=f"y{turn}"))
        if turn % 2:
            found.driver.undo()
        found.driver.say(*rounds_of(6, 1_500, start=100 * (turn + 1)))
        ids = shown(found.driver.state)
        assert len(ids) == len(set(ids))


# --- I5, I6


def test_i5_a_view_that_has_not_changed_is_the_same_bytes_from_turn_to_turn() -> None:
    found = talk([*rounds_of(12, 1_500), user("v", "Go on.")], window=20_000)
    found.driver.before_request()
    before = wire(found)
    found.driver.replied(assistant("x", "Done.", api_id="y"))
    found.driver.say(user("w", "And now?"))
    found.driver.before_request()
    assert wire(found).startswith(before)
    again = talk([], log=found.driver.log, window=20_000)
    assert wire(again) == wire(found)


def test_i5_the_same_history_folded_elsewhere_gives_the_same_bytes() -> None:
    first, second = (talk(rounds_of(12, 1_500), window=20_000) for _ in range(2))
    first.driver.before_request()
    second.driver.before_request()
    assert wire(first) == wire(second)


def test_i6_unknown_blocks_and_fields_come_through_a_compaction_untouched() -> None:
    odd = Opaque({"type": "container_upload", "file_id": "f_1", "new_field": [1, {"deep": True}]})
    kept = [
        user("k1", "See this.", odd),
        assistant("k2", Text("Seen.", {"citations": [{"url": "u"}]}), api_id="k"),
        user("k3", "Go on.", extra={"name": "ann"}),
    ]
    found = talk([*rounds_of(12, 1_500), *kept], window=20_000)
    sent = found.driver.before_request()
    assert summaries(found.driver.state)
    blocks = [block for message in sent.request.messages for block in message.blocks]
    assert odd in blocks and kept[1].blocks[0] in blocks


# --- I7: thinking that is bound to its prefix


def test_i7_a_fold_hides_all_thinking_of_the_kept_part_at_once_and_for_good() -> None:
    found = talk([*thoughtful(rounds_of(12, 1_500)), user("v", "Go on.")], window=20_000, model=BOUND)
    assert len(thoughts(found)) == 24
    found.driver.before_request()
    assert thoughts(found) == [] and len(found.driver.log.folds) == 1
    found.driver.replied(assistant("x", Thinking("New.", "bmV3"), "Done.", api_id="y"))
    found.driver.say(user("w", "And now?"))
    found.driver.before_request()
    assert thoughts(found) == [Thinking("New.", "bmV3")]


def test_i7_on_a_model_that_binds_nothing_the_kept_thinking_stays() -> None:
    found = talk([*thoughtful(rounds_of(12, 1_500)), user("v", "Go on.")], window=20_000, model=FREE)
    found.driver.before_request()
    assert summaries(found.driver.state) and 0 < len(thoughts(found)) < 24


def test_i7_a_small_fold_hides_all_thinking_behind_it_and_none_before() -> None:
    found = talk([*thoughtful(rounds_of(6, 500)), user("v", "Go on.")], model=BOUND)
    found.driver.snip("a3", "r3")
    found.driver.before_request()
    assert thoughts(found) == [thought(n) for n in (1, 3, 5, 7)]  # a1 b1 a2 b2


def test_i7_a_change_behind_all_thinking_is_free() -> None:
    entries = thoughtful(loop_of(2, 300))
    found = talk(entries, window=20_000, model=BOUND)
    found.driver.before_request()
    found.driver.replied(assistant("a9", thought(9), call("t9", "Bash", command="cat log"), api_id="m9"))
    found.driver.say(user("r9", result("t9", words(9_000))))
    found.driver.before_request()
    assert [event["path"] for event in found.named("folded")] == ["cap"]
    assert len(thoughts(found)) == 3


def test_i7_below_the_threshold_a_fold_waits_for_the_end_of_the_loop() -> None:
    found = talk(thoughtful(loop_of(5, 500)), model=BOUND)
    found.driver.snip("a2", "r2")
    found.driver.before_request()
    assert "r2" in shown(found.driver.state) and found.named("folded") == [] and len(thoughts(found)) == 5
    found.driver.replied(assistant("end", thought(99), "All is read.", api_id="me"))
    found.driver.say(user("v", "Fine."))
    found.driver.before_request()
    assert "r2" not in shown(found.driver.state)


def test_i7_a12_a_cold_fold_waits_too() -> None:
    entries = thoughtful(loop_of(8, 900))
    entries = [msgspec.structs.replace(entry, time=1.0) for entry in entries]
    found = talk(entries, window=20_000, model=BOUND)
    assert 6_700 <= found.driver.tokens < 13_400
    found.driver.before_request()
    assert found.named("compaction_started") and found.driver.log.folds == () and len(thoughts(found)) == 8
    assert found.driver.state.tracking.failures <= 1


def loop_at_threshold(policy: dict[str, Any] | None = None, **ports: Any) -> Talk:
    """A tool loop that goes on, over the threshold."""
    return talk(thoughtful(loop_of(12, 1_000)), window=20_000, model=BOUND, policy=policy, ports=Ports(**ports))


def test_i7_at_the_threshold_the_drop_setting_is_sent_where_the_policy_has_it() -> None:
    found = loop_at_threshold({"thinking": {"drop_setting": True}})
    sent = found.driver.before_request()
    assert summaries(found.driver.state) and sent.send.drop_thinking
    found.driver.replied(assistant("x", "Done.", api_id="y"))
    found.driver.say(user("w", "And now?"))
    assert found.driver.before_request().send.drop_thinking  # from now on


def test_i7_l10_with_the_native_block_the_tails_thinking_stays() -> None:
    block = {"type": "compaction", "content": "Parts were read.", "signature": "c2ln"}
    found = loop_at_threshold(
        {"summary": {"method": "native"}}, native=lambda given: Summarized(text="", method="native", block=dict(block), calls=1)
    )
    sent = found.driver.before_request()
    kept = [entry for entry in found.driver.state.view.entries() if entry.kind == "assistant"]
    assert kept and len(thoughts(found)) == len(kept) and not sent.send.drop_thinking


def test_i7_else_one_user_message_takes_in_the_open_loop_with_its_latest_results_verbatim() -> None:
    found = loop_at_threshold()
    sent = found.driver.before_request()
    assert [message.role for message in sent.request.messages] == ["user"] and thoughts(found) == []
    text = said(found.driver.state)
    assert words(1_000, "part12").replace("<", "&lt;") in text and "I read part 12." in text
    assert found.driver.tokens < 13_400 and refused(sent.request.messages) == []


def test_i7_while_a_call_of_it_is_open_its_thinking_is_not_touched() -> None:
    entries = [*thoughtful(loop_of(12, 1_000)), assistant("a99", thought(99), call("t99"), api_id="m99")]
    found = talk(entries, window=20_000, model=BOUND)
    found.driver.before_request()
    assert found.driver.log.folds == () and len(thoughts(found)) == 13
    found.driver.cancel()
    found.driver.say(user("r99", result("t99")))
    found.driver.before_request()
    assert summaries(found.driver.state)


def test_i2_redacted_thinking_goes_back_as_it_came_or_not_at_all() -> None:
    entries = [
        *rounds_of(12, 1_500),
        user("k1", "Go."),
        assistant("k2", RedactedThinking("b3BhcXVl"), "Done.", api_id="k"),
        user("k3", "On."),
    ]
    free, bound = (talk(entries, window=20_000, model=model) for model in (FREE, BOUND))
    for found in (free, bound):
        found.driver.before_request()
    assert thoughts(free) == [RedactedThinking("b3BhcXVl")] and thoughts(bound) == []


# --- I8 to I10


def test_i8_pairs_of_the_provider_and_of_mcp_servers_stay_whole() -> None:
    pair = (
        ServerToolUse("s1", "web_search", {"query": "birds"}),
        ServerToolResult("s1", [{"type": "web_search_result", "url": "u"}], "web_search_tool_result"),
        ServerToolUse("x1", "count", {}, "mcp_tool_use"),
        ServerToolResult("x1", [{"type": "text", "text": "3"}], "mcp_tool_result"),
    )
    kept = [
        user("k1", "Search."),
        assistant("k2", *pair[:2], api_id="k"),
        assistant("k3", *pair[2:], Text("Three."), api_id="k"),
        user("k4", "On."),
    ]
    found = talk([*rounds_of(12, 1_500), *kept], window=20_000)
    sent = found.driver.before_request()
    blocks = [block for message in sent.request.messages for block in message.blocks]
    assert summaries(found.driver.state) and [block for block in blocks if isinstance(block, ServerToolUse | ServerToolResult)] == list(
        pair
    )
    other = talk([*kept, *rounds_of(12, 1_500)], window=40_000)
    other.driver.compact(pivot="k3", direction="from")
    assert "k2" not in shown(other.driver.state)


def test_i9_a_call_that_waits_for_an_approval_is_never_folded_away() -> None:
    entries = [
        *rounds_of(12, 1_500),
        user("u20", "Delete it."),
        assistant("a20", call("t20"), call("t21"), api_id="m20"),
        user("r20", result("t20")),
    ]
    found = talk(entries, window=20_000)
    found.driver.compact()
    assert {"a20", "r20"} <= set(shown(found.driver.state))
    found.driver.say(user("r21", result("t21", "approved")))
    sent = found.driver.before_request()
    assert refused(sent.request.messages, open_end=False) == [] and sent.request.findings == ()


def test_i9_a_result_that_comes_after_its_call_was_folded_away_is_no_orphan_in_the_request() -> None:
    background = [user("u0", "Start it."), assistant("a0", call("t0", "Bash", command="make"), api_id="m0"), user("v0", "Meanwhile read.")]
    found = talk([*background, *rounds_of(12, 1_500), user("v", "Go on.")], window=20_000)
    found.driver.before_request()
    found.driver.replied(assistant("x", "Done.", api_id="y"))
    assert "a0" not in shown(found.driver.state)
    found.driver.say(user("r0", result("t0", "The build is green.")))
    sent = found.driver.before_request()
    assert refused(sent.request.messages) == [] and "The build is green." in str(sent.request.messages[-1].blocks)
    assert any(block == Text(ORPHAN) for block in sent.request.messages[-1].blocks)
    assert view_of(found.driver.log) == found.driver.state.view


def test_i10_repeated_ids_are_paired_by_position_and_made_unique_by_a_stable_rule() -> None:
    entries = []
    for n in range(1, 13):
        entries += [
            user(f"u{n}", f"Part {n}."),
            assistant(f"a{n}", call("0", "Read", file_path=f"{n}.py"), api_id=f"m{n}"),
            user(f"r{n}", result("0", f"value_{n}\n" + words(1_500))),
        ]
    found = talk(entries, window=20_000)
    sent = found.driver.before_request()
    assert summaries(found.driver.state) and refused(sent.request.messages) == []
    blocks = [block for message in sent.request.messages for block in message.blocks]
    uses = {block.id: block.input for block in blocks if isinstance(block, ToolUse)}
    for block in blocks:
        if isinstance(block, ToolResult):
            number = str(uses[block.tool_use_id]["file_path"]).removesuffix(".py")
            assert f"value_{number}" in str(block.content) or "nothing" not in str(block.content)
    first = wire(found)
    found.driver.replied(assistant("x", call("0", "Read", file_path="x.py"), api_id="y"))
    found.driver.say(user("rx", result("0", "value_x")))
    found.driver.before_request()
    assert wire(found).startswith(first)
