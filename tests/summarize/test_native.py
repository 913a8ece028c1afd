"""The provider's own compaction on request: what is asked, where it may be cut, what comes back (L10, I7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.entries import SHOWN_AS, Entry
from fivefold.core.messages import JSON, Block, Compaction, Text, ToolResult, ToolUse, encode_block
from fivefold.core.pairing import legal_cuts
from fivefold.core.repair import outgoing
from fivefold.errors import SummaryError
from fivefold.summarize.native import INSTRUCTIONS_CHARS, LEAST_TOKENS, faults, native_cut, read_answer, request_for, stand_in, text_of

from ..build import assistant, call, entry, refused, result, user

TALK = [
    user("u1", "Port the scheduler."),
    assistant("a1", "I look.", call("c1", "Read"), api_id="m1"),
    user("r1", result("c1")),
    assistant("a2", "Read.", api_id="m2"),
    user("u2", "Now the tests."),
    assistant("a3", call("c2"), api_id="m3"),
    user("r2", result("c2")),
    user("u3", "And the docs."),
    assistant("a4", "Done.", api_id="m4"),
]

BODY: dict[str, JSON] = {
    "model": "claude-x",
    "system": "You are an agent.",
    "tools": [{"name": "Read"}],
    "thinking": {"type": "adaptive"},
    "messages": [{"role": "user", "content": "old"}],
    "max_tokens": 1_000,
}
BLOCK: dict[str, JSON] = {"type": "compaction", "content": "Port begun.", "signature": "c2ln", "tool_changes": [{"name": "x"}]}


# --- the request


def test_l10_the_conversations_own_settings_stay_and_the_block_is_asked_for() -> None:
    request = request_for(TALK, 5, BODY)
    assert request.entries == tuple(TALK[:5]) and request.left_out == ()
    assert request.body == {
        **{key: value for key, value in BODY.items() if key != "messages"},
        "compaction": {"type": "summarize"},
        "max_tokens": LEAST_TOKENS,
    }
    assert request_for(TALK, 5, BODY, max_tokens=20_000).body["max_tokens"] == 20_000
    assert "compaction" not in BODY and BODY["max_tokens"] == 1_000


@pytest.mark.parametrize(
    ("field", "value", "left"),
    [
        ("context_management", {"edits": []}, None),
        ("stop_sequences", ["STOP"], None),
        ("output_format", {"type": "json_schema"}, None),
        ("tool_choice", {"type": "any"}, None),
        ("tool_choice", {"type": "tool", "name": "Read"}, None),
        ("tool_choice", {"type": "auto"}, {"type": "auto"}),
        ("tool_choice", {"type": "none"}, {"type": "none"}),
        ("output_config", {"format": {"type": "json_schema"}}, None),
        ("output_config", {"format": {"type": "json_schema"}, "effort": "high"}, {"effort": "high"}),
        ("output_config", {"task_budget": {"type": "tokens", "total": 9, "remaining": 3}}, {"task_budget": {"type": "tokens", "total": 9}}),
        ("output_config", {"effort": "high"}, {"effort": "high"}),
        ("metadata", {"user_id": "1"}, {"user_id": "1"}),
    ],
)
def test_l10_what_the_provider_refuses_beside_a_compaction_is_left_out_and_said(field: str, value: JSON, left: JSON) -> None:
    request = request_for(TALK, 5, {**BODY, field: value})
    assert request.body.get(field) == left
    assert request.left_out == (() if left == value else (field,))


def test_l5_instructions_are_cut_to_what_the_provider_takes() -> None:
    asked = request_for(TALK, 5, BODY, instructions=" keep the schema " + "x" * 20_000).body["compaction"]
    assert (
        isinstance(asked, dict)
        and str(asked["instructions"]).startswith("keep the schema")
        and len(str(asked["instructions"])) == INSTRUCTIONS_CHARS
    )
    assert request_for(TALK, 5, BODY, instructions="  ").body["compaction"] == {"type": "summarize"}


@pytest.mark.parametrize("cut", [2, 4, 6, 7])
def test_l10_no_request_is_made_for_a_place_that_does_not_hold(cut: int) -> None:
    """2, 6: between a call and its result. 4 is legal: it follows an answer. 7: the user's side goes on behind it."""
    if cut == 4:
        assert len(request_for(TALK, cut, BODY).entries) == 4
        return
    with pytest.raises(SummaryError, match="may not be cut there"):
        request_for(TALK, cut, BODY)


def test_l10_an_open_call_or_nothing_at_all_cannot_be_summarised() -> None:
    with pytest.raises(SummaryError, match="a call is open"):
        request_for([*TALK, user("u4", "Go."), assistant("a5", call("c9"), api_id="m5")], len(TALK) + 2, BODY)
    for entries in ([], [entry("s", "system", "Be brief.")], [entry("n", "note", "x")]):
        with pytest.raises(SummaryError, match="nothing to summarise"):
            request_for(entries, len(entries), BODY)


def test_c6_system_messages_inside_the_part_have_to_be_said_again_and_the_leading_ones_not() -> None:
    entries = [entry("s0", "system", "Be brief."), *TALK[:4], entry("s1", "system", "Answer in French."), *TALK[4:]]
    assert request_for(entries, len(entries), BODY).restate == ("s1",)


# --- the cut


@pytest.mark.parametrize(("at", "cut"), [(9, 9), (8, 8), (7, 5), (6, 5), (5, 5), (4, 4), (3, 3), (2, 1), (1, 1), (0, 0), (99, 9)])
def test_l10_the_cut_moves_back_to_where_the_role_changes_and_no_call_is_open(at: int, cut: int) -> None:
    assert native_cut(TALK, at) == cut


def test_i7_a_tail_does_not_begin_with_a_system_message() -> None:
    entries = [*TALK[:4], entry("s", "system", "Answer in French."), *TALK[4:]]
    assert native_cut(entries, 4) == 3


PARTS: list[Block] = [Text("words"), ToolUse("c", "Bash", {}), ToolResult("c", "done"), ToolUse("d", "Bash", {}), ToolResult("d", "done")]


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "system", "note"]), st.sampled_from(PARTS)), max_size=12), st.integers(0, 14)
)
def test_i7_wherever_it_is_cut_the_roles_change_and_pairs_hold(drawn: list[tuple[str, Block]], at: int) -> None:
    entries = [Entry(id=f"e{i}", kind=kind, blocks=(block,), api_id=f"m{i}") for i, (kind, block) in enumerate(drawn)]  # type: ignore[arg-type]
    cut = native_cut(entries, at)
    good = []
    for place in range(1, min(at, len(entries)) + 1):
        before = [one.kind for one in entries[:place] if one.kind in SHOWN_AS]
        behind = [one.kind for one in entries[place:] if one.kind in SHOWN_AS]
        if legal_cuts(entries)[place] and before and (not behind or (behind[0] != before[-1] and behind[0] != "system")):
            good.append(place)
    assert cut == max(good, default=0)


# --- the answer


def test_l10_the_block_comes_back_exactly_without_keys_that_hold_nothing() -> None:
    block = read_answer([Compaction({**BLOCK, "citations": None, "text": None})], "compaction")
    assert encode_block(block) == BLOCK and text_of(block) == "Port begun."


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("max_tokens", "limit of output"),
        ("model_context_window_exceeded", "does not fit the window"),
        ("tool_use", "called a tool"),
        ("refusal", "refused"),
        ("end_turn", "without a summary"),
        ("odd", "stopped with odd"),
    ],
)
@pytest.mark.parametrize(
    "blocks",
    [[], [Text("Sure.")], [Compaction({**BLOCK, "content": None})], [Compaction({**BLOCK, "content": " "})]],
    ids=["none", "text", "null", "blank"],
)
def test_l10_an_answer_without_a_block_is_a_failure_with_its_reason(reason: str, why: str, blocks: list[Block]) -> None:
    with pytest.raises(SummaryError, match=why):
        read_answer(blocks, reason)


def test_l10_two_blocks_are_none() -> None:
    with pytest.raises(SummaryError, match="2 blocks"):
        read_answer([Compaction(BLOCK), Compaction(BLOCK)], "compaction")


# --- what is sent afterwards


@pytest.mark.parametrize("cut", [3, 4, 5, 8, 9])
def test_l10_the_block_is_first_of_the_first_user_message_and_the_tail_follows_unchanged(cut: int) -> None:
    view = [stand_in("s", Compaction(BLOCK)), *TALK[cut:]]
    request = outgoing(view)
    assert faults(view) == [] and request.findings == () and refused(request.messages) == []
    assert request.messages[0].role == "user" and request.messages[0].blocks[0] == Compaction(BLOCK)
    tail = [block for message in request.messages for block in message.blocks][1:]
    assert tail == [block for one in TALK[cut:] for block in one.blocks]


def test_l10_a_second_block_or_one_that_is_not_first_is_found() -> None:
    first = stand_in("s", Compaction(BLOCK))
    assert faults(TALK) == [] and faults([entry("b", "boundary"), entry("y", "system", "Be brief."), first, *TALK[5:]]) == []
    assert faults([user("u0", "Hello."), first]) == ["the compaction block of entry s is not the first block of the first message"]
    assert faults([first, stand_in("t", Compaction(BLOCK))]) == ["2 compaction blocks, one may stand in a request"]
