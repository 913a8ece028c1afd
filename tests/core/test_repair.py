"""From entries to a legal request: I1–I5, I8–I10, R4, judged by the independent validator."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.entries import Entry
from fivefold.core.messages import (
    Block,
    Message,
    RedactedThinking,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolResult,
    encode_message,
)
from fivefold.core.repair import CONTINUED, INTERRUPTED, outgoing, violations
from tests.build import assistant, call, entry, refused, result, user
from tests.core.test_pairing import ENTRY
from tests.core.test_pairing import build as build_entries


def rules(entries: list[Entry]) -> list[str]:
    return [found.rule for found in violations(entries)]


def sent(entries: list[Entry]) -> tuple[Message, ...]:
    messages = outgoing(entries).messages
    assert refused(messages) == []
    return messages


def test_i3_a_clean_history_goes_out_as_it_is() -> None:
    entries = [user("u1", "go", bare=True), assistant("a1", "ok", call("t1")), user("u2", result("t1")), assistant("a2", "done")]
    assert rules(entries) == []
    assert [encode_message(m) for m in sent(entries)] == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}, {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    ]


def test_i2_entries_of_one_response_are_sent_together() -> None:
    """Parallel calls, written one a line with their results between."""
    entries = [
        user("u1", "go"),
        assistant("a1", Thinking("hm", "sig"), api_id="m1"),
        assistant("a2", call("t1"), api_id="m1"),
        user("u2", result("t1", "one")),
        assistant("a3", call("t2"), api_id="m1"),
        user("u3", result("t2", "two")),
        assistant("a4", "done", api_id="m2"),
    ]
    assert rules(entries) == []
    assert [tuple(type(b).__name__ for b in m.blocks) for m in sent(entries)] == [
        ("Text",),
        ("Thinking", "ToolUse", "ToolUse"),
        ("ToolResult", "ToolResult"),
        ("Text",),
    ]


def test_i1_an_unanswered_call_gets_an_interrupted_result() -> None:
    entries = [user("u1", "go"), assistant("a1", call("t1"), call("t2")), user("u2", result("t2"), "stop")]
    assert rules(entries) == ["I1"]
    assert sent(entries)[2].blocks == (result("t2"), ToolResult("t1", INTERRUPTED, is_error=True), Text("stop"))


def test_i1_a_call_still_open_at_the_end_is_no_orphan() -> None:
    entries = [user("u1", "go"), assistant("a1", call("t1"))]
    assert rules(entries) == [] and len(sent(entries)) == 2


def test_i1_an_orphan_result_becomes_text() -> None:
    entries = [user("u1", "go"), assistant("a1", "hm"), user("u2", result("gone", "the output"))]
    assert rules(entries) == ["I1"]
    assert "the output" in sent(entries)[2].blocks[0].text  # type: ignore[union-attr]


def test_i1_results_stand_first() -> None:
    entries = [user("u1", "go"), assistant("a1", call("t1")), user("u2", "by the way"), user("u3", result("t1"))]
    assert rules(entries) == ["I1"]
    assert sent(entries)[2].blocks == (result("t1"), Text("by the way"))


def test_i9_a_late_result_is_sent_in_its_calls_answer() -> None:
    entries = [
        user("u1", "go"),
        assistant("a1", call("t1"), api_id="m1"),
        user("u2", "and?"),
        assistant("a2", "waiting", api_id="m2"),
        user("u3", result("t1", "late")),
    ]
    assert rules(entries) == ["I9"]
    assert sent(entries)[2].blocks == (result("t1", "late"), Text("and?"))


def test_i10_repeated_ids_are_made_unique_in_call_and_result() -> None:
    entries = [
        user("u1", "go"),
        assistant("a1", call("0", n=1), call("0", n=2), api_id="m1"),
        user("u2", result("0", "one"), result("0", "two")),
        assistant("a2", call("0", n=3), api_id="m2"),
        user("u3", result("0", "three")),
    ]
    assert rules(entries) == ["I4", "I4"]
    messages = sent(entries)
    answers = {b.tool_use_id: b.content for m in messages for b in m.blocks if isinstance(b, ToolResult)}
    calls = {b.id: b.input for m in messages for b in m.blocks if hasattr(b, "input")}
    assert calls == {"0": {"n": 1}, "0_2": {"n": 2}, "0_3": {"n": 3}}
    assert answers == {"0": "one", "0_2": "two", "0_3": "three"}


def test_i8_lonely_server_calls_and_results_are_left_out() -> None:
    use, answer = ServerToolUse("s1", "web_search", {}), ServerToolResult("s2", [], "web_search_tool_result")
    entries = [user("u1", "go"), assistant("a1", use, answer, "text"), user("u2", "more")]
    assert rules(entries) == ["I8", "I8"]
    assert sent(entries)[1].blocks == (Text("text"),)
    pending = [user("u1", "go"), assistant("a1", "wait", use)]
    assert rules(pending) == ["I8"]
    assert outgoing(pending, paused=True).findings == ()


def test_i2_thinking_without_signature_is_left_out_for_anthropic_only() -> None:
    entries = [user("u1", "go"), assistant("a1", Thinking("hm", ""), "ok"), user("u2", "more")]
    assert rules(entries) == ["I2"] and violations(entries, family="openai") == []
    assert sent(entries)[1].blocks == (Text("ok"),)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_i3_empty_text_and_messages_are_left_out(text: str) -> None:
    entries = [user("u1", "go"), assistant("a1", text), user("u2", "more")]
    assert rules(entries) == ["I3"]
    assert [m.blocks for m in sent(entries)] == [(Text("go"), Text("more"))]


def test_i3_first_message_is_the_users() -> None:
    assert sent([assistant("a1", "hello"), user("u1", "hi")])[0].blocks == (Text(CONTINUED),)


def test_i3_trailing_white_space_of_the_final_assistant_text() -> None:
    assert sent([user("u1", "hi"), assistant("a1", "ok \n")])[-1].blocks == (Text("ok"),)


def test_i3_half_a_surrogate_pair_is_replaced() -> None:
    entries = [user("u1", "a\ud800b"), assistant("a1", call("t1")), user("u2", result("t1", "\udc00"))]
    assert rules(entries) == ["I3", "I3"]
    assert sent(entries)[0].blocks == (Text("a\ufffdb"),)


def test_i5_at_most_four_cache_marks_none_on_thinking() -> None:
    mark: Any = {"cache_control": {"type": "ephemeral"}}
    entries = [user(f"u{i}", Text(f"text {i}", mark)) for i in range(6)] + [assistant("a", Thinking("hm", "sig", mark), "ok")]
    assert rules(entries) == ["I5"] * 3
    assert [b.text for m in sent(entries) for b in m.blocks if isinstance(b, Text) and b.extra] == ["text 2", "text 3", "text 4", "text 5"]


def test_system_entries_in_front_are_the_system_prompt_later_ones_user_text() -> None:
    request = outgoing([entry("s", "system", "be brief"), user("u", "hi"), entry("s2", "system", "now in French"), assistant("a", "oui")])
    assert request.system == (Text("be brief"),)
    assert [m.role for m in request.messages] == ["user", "assistant"]
    assert request.messages[0].blocks == (Text("hi"), Text("now in French"))


def test_notes_and_boundaries_are_never_sent() -> None:
    entries = [entry("b", "boundary"), user("u", "hi"), entry("n", "note", "API error"), assistant("a", "ok")]
    assert [m.blocks for m in sent(entries)] == [(Text("hi"),), (Text("ok"),)]


EXTRAS: list[Block | str] = [
    "",
    "text",
    Thinking("x", "sig"),
    Thinking("", ""),
    RedactedThinking("d"),
    ServerToolUse("s", "w", {}),
    ServerToolResult("s", [], "w_tool_result"),
]


@given(st.lists(ENTRY, max_size=12), st.lists(st.sampled_from(EXTRAS), min_size=12, max_size=12))
def test_i1_whatever_comes_in_a_legal_request_goes_out(
    rows: list[tuple[str, list[str], bool, str | None]], extras: list[Block | str]
) -> None:
    base = build_entries(rows)
    entries = [
        entry(e.id, e.kind, extra, *e.blocks, api_id=e.api_id) if e.kind == "assistant" else e
        for e, extra in zip(base, extras, strict=False)
    ]
    request = outgoing(entries)
    assert not request.messages or refused(request.messages) == []
    again = [
        entry(f"r{i}", "assistant" if m.role == "assistant" else "user", *m.blocks, api_id=f"m{i}" if m.role == "assistant" else None)
        for i, m in enumerate(request.messages)
    ]
    assert violations(again) == [], "a repaired request needs no repair"
    assert [m.blocks for m in outgoing(again).messages] == [m.blocks for m in request.messages]
