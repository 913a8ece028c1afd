"""From entries to a legal request: I1–I5, I8–I10, R4, judged by the independent validator."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.economics import MediaLimits
from fivefold.core.entries import Entry
from fivefold.core.messages import (
    Block,
    Image,
    Message,
    Opaque,
    RedactedThinking,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    decode_block,
    encode_message,
)
from fivefold.core.pairing import Place, legal_cuts, pair
from fivefold.core.repair import CONTINUED, INTERRUPTED, ORPHAN, outgoing, violations
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
    assert sent(entries)[2].blocks == (Text(ORPHAN), Text("the output"))


def test_i1_an_orphan_results_media_is_kept() -> None:
    picture = Image({"type": "base64", "media_type": "image/png", "data": "aGVsbG8="})
    assert sent([user("u1", "go"), assistant("a1", "hm"), user("u2", result("gone", (picture,)))])[2].blocks == (Text(ORPHAN), picture)


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


def test_i1_one_of_two_results_there_needs_both() -> None:
    """A response written over several entries: its first call is answered, its second still open."""
    entries = [
        user("u", "go"),
        assistant("a1", call("t1"), api_id="m1"),
        user("r", result("t1")),
        assistant("a2", call("t2"), api_id="m1"),
    ]
    assert rules(entries) == ["I1"]
    assert sent(entries)[2].blocks == (result("t1"), ToolResult("t2", INTERRUPTED, is_error=True))


def test_i1_an_attachment_inside_a_response_does_not_close_it() -> None:
    entries = [
        user("u", "go"),
        assistant("a1", "x", api_id="m1"),
        entry("n", "attachment", "file"),
        assistant("a2", call("t1"), api_id="m1"),
    ]
    assert pair(entries).open == (Place(3, 0),) and pair(entries).unanswered == ()


def test_i9_harness_text_beside_a_result_leaves_the_other_call_open() -> None:
    entries = [user("u", "go"), assistant("a1", call("t1"), call("t2")), user("r", result("t1"), "reminder")]
    assert pair(entries).open == (Place(1, 1),)
    assert legal_cuts(entries)[-1] is False


def test_i8_a_server_call_paused_and_answered_in_the_next_response_is_a_pair() -> None:
    use, answer = ServerToolUse("s1", "web_search", {}), ServerToolResult("s1", [], "web_search_tool_result")
    entries = [user("u", "go"), assistant("a1", use, api_id="m1"), assistant("a2", answer, "found", api_id="m2")]
    assert rules(entries) == []
    assert sent(entries)[1].blocks == (use, answer, Text("found"))


def test_i10_results_go_with_their_calls_whatever_ids_are_taken() -> None:
    entries = [
        user("u", "go"),
        assistant("a", call("0", n=1), call("0", n=2), call("0_2", n=3)),
        user("r", result("0_2", "three"), result("0", "one"), result("0", "two")),
    ]
    messages = sent(entries)
    calls = {b.input["n"]: b.id for b in messages[1].blocks if isinstance(b, ToolUse) and isinstance(b.input, dict)}
    answers = {b.tool_use_id: b.content for b in messages[2].blocks if isinstance(b, ToolResult)}
    assert [answers[calls[n]] for n in (1, 2, 3)] == ["one", "two", "three"]


def test_v1_tool_ids_and_inputs_that_anthropic_does_not_take() -> None:
    entries = [user("u", "go"), assistant("a", ToolUse("call.1:2|x", "apply_patch", "*** Begin")), user("r", result("call.1:2|x"))]
    assert rules(entries) == ["V1", "V1"] and violations(entries, family="other") == []
    messages = sent(entries)
    assert messages[1].blocks == (ToolUse("call_1_2_x", "apply_patch", {"input": "*** Begin"}),)
    assert messages[2].blocks == (result("call_1_2_x"),)


def test_i3_half_surrogates_anywhere() -> None:
    entries = [
        user("u", "go"),
        assistant("a", Thinking("\ud83d", "s"), ToolUse("t", "B", {"c": "\ud83d", "\ud83d": 1}), Opaque({"type": "new", "x": "\udc00"})),
        user("r", result("t", (Text("\ud83d"), Text("")))),
    ]
    assert rules(entries) == ["I2", "I3", "I3", "I3", "I3"]
    assert sent(entries)[1].blocks == (ToolUse("t", "B", {"c": "\ufffd", "\ufffd": 1}), Opaque({"type": "new", "x": "\ufffd"}))
    assert sent([user("u", ToolUse("t", "B", {"c": "\ud83d"}))])[0].blocks


def test_i2_thinking_of_another_provider_is_left_out() -> None:
    """A foreign signature means nothing to the one it is sent to."""
    entries = [
        user("u", "go"),
        assistant("a", Thinking("hm", "sealed"), RedactedThinking("x"), Text("ok", {"id": "m"}), extra={"phase": 1}),
    ]
    assert outgoing(entries, foreign=True).messages[1] == Message("assistant", (Text("ok"),))
    own = [user("u", "go"), assistant("a", Thinking("hm", "sig"), "ok", model="claude-opus-4-5")]
    assert outgoing(own, foreign=True).messages[1].blocks == (Thinking("hm", "sig"), Text("ok"))


def test_i6_what_a_foreign_wire_alone_has_becomes_text() -> None:
    parts = (Text("a", {"k": 1}), Image({"type": "path", "path": "a.png"}), Opaque({"type": "input_audio"}))
    entries = [user("u", *parts), assistant("a", call("t")), user("r", ToolResult("t", parts, extra={"name": "n"}))]
    plain = (Text("a"), Text("[image: a.png]"), Text('{"type":"input_audio"}'))
    messages = outgoing(entries, foreign=True).messages
    assert messages[0].blocks == plain and messages[2].blocks == (ToolResult("t", plain),)


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
    assert rules(entries) == ["I2"] and violations(entries, family="other") == []
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


def test_i5_marks_on_any_kind_count_and_those_of_the_system_prompt() -> None:
    mark: Any = {"cache_control": {"type": "ephemeral"}}
    picture = {"type": "url", "url": "u"}
    exactly = [user("u", *(Image(picture, mark) for _ in range(4)))]
    assert rules(exactly) == []
    assert rules([entry("s", "system", Text("be brief", mark)), *exactly]) == ["I5"]
    assert rules([user("u", "go"), assistant("a", RedactedThinking("d", mark), Opaque({"type": "new", **mark}))]) == ["I5"]
    nested = [user("u", "go"), assistant("a", call("t")), user("r", ToolResult("t", (Text("x", mark),)))]
    assert rules(nested) == ["I5"] and sent(nested)[2].blocks == (ToolResult("t", (Text("x"),)),)


def png(width: int, height: int, pad: int = 0) -> Image:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x06\x00\x00\x00" + bytes(pad)
    return Image({"type": "base64", "media_type": "image/png", "data": base64.b64encode(head).decode()})


def test_r4_images_over_a_side_are_named_in_text() -> None:
    entries = [user("u", png(8001, 10), png(8000, 8000)), assistant("a", call("t")), user("r", result("t", (png(9000, 10), Text("x"))))]
    assert rules(entries) == ["R4", "R4"]
    messages = sent(entries)
    assert messages[0].blocks == (Text("[image left out: 8001 x 10 px, over the limit of 8000 px a side]"), png(8000, 8000))
    assert isinstance(messages[2].blocks[0], ToolResult) and messages[2].blocks[0].content[1] == Text("x")  # type: ignore[index]


def test_r4_over_twenty_images_the_side_is_smaller() -> None:
    assert rules([user("u", *(png(2001, 10) for _ in range(20)))]) == []
    assert rules([user("u", *(png(2001, 10) for _ in range(21)))]) == ["R4"] * 21
    assert rules([user("u", *(png(2000, 10) for _ in range(21)))]) == []


def test_r4_too_many_and_too_heavy_images() -> None:
    limits = MediaLimits(max_items=2, max_side=8000, many_items=21, many_side=2000, max_image_bytes=400)
    entries = [user("u", png(1, 1), png(2, 2), png(3, 3))]
    request = outgoing(entries, limits=limits)
    assert request.messages[0].blocks == (Text("[image left out: one of too many]"), png(2, 2), png(3, 3))
    assert [f.rule for f in outgoing([user("u", png(1, 1, 300))], limits=limits).findings] == ["R4"]


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


@pytest.mark.parametrize(
    "data",
    [
        {"type": "tool_use", "id": "q"},
        {"type": "text"},
        {"type": "text", "text": None},
        {"type": "thinking", "thinking": None},
        {"type": "tool_result"},
        {"type": "image"},
        {"type": "server_tool_use", "id": "s", "name": "w"},
        None,
        5,
        "loose",
        {},
    ],
)
def test_v1_a_block_without_the_fields_of_its_kind_is_sent_as_text(data: Any) -> None:
    block = decode_block(data)
    assert isinstance(block, Opaque)
    entries = [user("u", "go"), assistant("a", "ok", block), user("u2", "more")]
    assert rules(entries) == ["V1"]
    assert isinstance(sent(entries)[1].blocks[1], Text)
    assert rules([user("u", "go"), assistant("a", "ok", Opaque({"type": "next_year"}))]) == []


def test_i3_i8_where_a_lonely_server_call_was_a_whole_message_its_neighbours_become_one() -> None:
    entries = [user("u", "Search."), assistant("a", ServerToolUse("s", "web_search", {}), api_id="m"), user("v", "Well?")]
    request = outgoing(entries)
    assert [message.role for message in request.messages] == ["user"] and not refused(request.messages)
