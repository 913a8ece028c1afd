"""U3, section 1.1: the provider's own context edits and compactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from fivefold.simulator.script import Call, Reply, Request
from fivefold.simulator.serve import Simulator

from .asking import MARK, TOOL, assistant, client_of, result, text, use, user, words

MODEL = "claude-sonnet-4-6"  # counts by o200k as it is
EDITS = "context-management-2025-06-27"
THRESHOLD = "compact-2026-01-12"
ON_DEMAND = "compact-2026-09-04"
SUMMARY = "They asked for it, and it was done."


def model(request: Request) -> Reply | str:
    return SUMMARY if request.purpose == "compaction" else "ok"


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    with Simulator(model) as sim:
        yield sim


@pytest.fixture(scope="module")
def client(sim: Simulator) -> Iterator[anthropic.Anthropic]:
    with client_of(sim) as client:
        yield client


def ask(client: anthropic.Anthropic, messages: list[Any], betas: list[str], *edits: dict[str, Any], **body: Any) -> Any:
    managed = {"context_management": {"edits": list(edits)}} if edits else {}
    sent: dict[str, Any] = {"model": MODEL, "max_tokens": 1_000, "messages": messages, **managed, **body}
    return client.beta.messages.create(betas=betas, **sent)


def refusal(client: anthropic.Anthropic, messages: list[Any], betas: list[str], *edits: dict[str, Any], **body: Any) -> Any:
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(client, messages, betas, *edits, **body)
    return caught.value


def calls(count: int, tokens: int = 1_000) -> list[Any]:
    """A conversation of so many calls, each with a result of so many tokens."""
    messages: list[Any] = [user("start")]
    for i in range(count):
        messages += [assistant(use(f"t{i}", "bash" if i % 2 == 0 else "read")), user(result(f"t{i}", words(tokens)))]
    return messages


def clear(**fields: Any) -> dict[str, Any]:
    return {"type": "clear_tool_uses_20250919", **fields}


def test_u3_old_results_are_cleared_over_the_trigger(client: anthropic.Anthropic) -> None:
    messages = calls(6)
    whole = ask(client, messages, [EDITS]).usage.input_tokens
    trigger = {"type": "input_tokens", "value": 5_000}
    answer = ask(client, messages, [EDITS], clear(trigger=trigger))
    (edit,) = answer.context_management.applied_edits
    # Three of six are kept. The placeholder, "[tool result cleared]", is 5 tokens.
    assert (edit.type, edit.cleared_tool_uses, edit.cleared_input_tokens) == ("clear_tool_uses_20250919", 3, 3 * (1_000 - 5))
    assert answer.usage.input_tokens == whole - edit.cleared_input_tokens


def test_u3_nothing_is_cleared_under_the_trigger_and_the_list_is_there(client: anthropic.Anthropic) -> None:
    assert ask(client, calls(6), [EDITS], clear()).context_management.applied_edits == []
    at_the_trigger = clear(trigger={"type": "tool_uses", "value": 6})
    assert ask(client, calls(6), [EDITS], at_the_trigger).context_management.applied_edits == []
    assert ask(client, calls(6), [EDITS]).context_management is None


def test_u3_the_fields_of_clearing_are_minded(client: anthropic.Anthropic) -> None:
    def cleared(**fields: Any) -> int:
        answer = ask(client, calls(6), [EDITS], clear(trigger={"type": "tool_uses", "value": 5}, **fields))
        return sum(edit.cleared_tool_uses for edit in answer.context_management.applied_edits)

    assert cleared() == 3
    assert cleared(keep={"type": "tool_uses", "value": 1}) == 5
    assert cleared(keep={"type": "tool_uses", "value": 0}) == 6
    assert cleared(exclude_tools=["read"]) == 2
    assert cleared(clear_at_least={"type": "input_tokens", "value": 2_985}) == 3
    assert cleared(clear_at_least={"type": "input_tokens", "value": 2_986}) == 0


def test_u3_inputs_are_cleared_where_asked_for(client: anthropic.Anthropic) -> None:
    messages = [user("a"), assistant(use("t1", command=words(500))), user(result("t1")), assistant("b"), user("c")]
    edit = clear(trigger={"type": "tool_uses", "value": 0}, keep={"type": "tool_uses", "value": 0})
    sizes = [
        ask(client, messages, [EDITS], {**edit, "clear_tool_inputs": inputs}).usage.input_tokens
        for inputs in (False, True, ["bash"], ["x"])
    ]
    assert sizes[0] == sizes[3] > sizes[1] + 490 and sizes[1] == sizes[2]


def test_u3_clearing_breaks_the_cache_at_the_cleared_place_only(client: anthropic.Anthropic) -> None:
    messages = [user(text(words(2_000), **MARK)), *calls(6)[1:]]
    assert ask(client, messages, [EDITS], **MARK).usage.cache_creation_input_tokens > 8_000
    cleared = ask(client, messages, [EDITS], clear(trigger={"type": "tool_uses", "value": 5}), **MARK).usage
    assert cleared.cache_read_input_tokens == 2_004


def test_u3_thinking_turns_are_cleared() -> None:
    thinker = "claude-opus-5"
    with Simulator(lambda request: Reply(thinking=words(100), text="ok")) as sim, client_of(sim) as client:
        messages: list[Any] = [user("a")]
        for _ in range(3):
            answer = ask(client, messages, [], model=thinker)
            messages += [{"role": "assistant", "content": [block.to_dict() for block in answer.content]}, user("b")]
        edit = {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}}
        (done,) = ask(client, messages, [EDITS], edit, model=thinker).context_management.applied_edits
        assert (done.cleared_thinking_turns, done.cleared_input_tokens) == (2, 2 * 130)
        kept = ask(client, messages, [EDITS], {**edit, "keep": "all"}, model=thinker)
        assert kept.context_management.applied_edits == []
        both = [clear(trigger={"type": "tool_uses", "value": 1}), edit]
        assert "must be the first edit" in str(refusal(client, messages, [EDITS], *both, model=thinker))


def test_u3_count_tokens_tells_both_sizes(client: anthropic.Anthropic) -> None:
    body: Any = {"model": MODEL, "messages": calls(6)}
    plain = client.beta.messages.count_tokens(**body)
    edit: Any = clear(trigger={"type": "tool_uses", "value": 5})
    edited = client.beta.messages.count_tokens(**body, betas=[EDITS], context_management={"edits": [edit]})
    assert edited.context_management is not None and edited.context_management.original_input_tokens == plain.input_tokens
    assert edited.input_tokens == plain.input_tokens - 3 * 995


# --- compaction over a threshold

LARGE = [user(words(30_000)), assistant("b"), user(words(30_000))]
COMPACT = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}


def test_u3_over_its_threshold_the_server_compacts_and_goes_on(client: anthropic.Anthropic, sim: Simulator) -> None:
    answer = ask(client, LARGE, [THRESHOLD], COMPACT)
    assert [block.type for block in answer.content] == ["compaction", "text"]
    assert (answer.content[0].content, answer.stop_reason) == (SUMMARY, "end_turn")
    first, second = answer.usage.iterations
    assert (first.type, first.input_tokens, second.type) == ("compaction", 30_004 + 5 + 30_004, "message")
    # On top stands the last window alone, which is the summary; the journal has both, and their money.
    assert answer.usage.input_tokens == second.input_tokens == first.output_tokens < 20
    record = sim.journal.records[-1]
    assert record.input == first.input_tokens + second.input_tokens and record.size == second.input_tokens
    assert record.usd == pytest.approx((record.input * 3 + record.output * 15) / 1e6)


def test_u3_what_stands_before_a_compaction_block_is_not_shown(client: anthropic.Anthropic) -> None:
    block = ask(client, LARGE, [THRESHOLD], COMPACT).content[0].to_dict()
    after = [assistant(block, "ok"), user("go on")]
    sizes = {ask(client, messages, [THRESHOLD]).usage.input_tokens for messages in ([*LARGE, *after], after)}
    assert len(sizes) == 1 and max(sizes) < 40
    failed = [*LARGE, assistant({"type": "compaction", "content": None}, "ok"), user("go on")]
    assert ask(client, failed, [THRESHOLD]).usage.input_tokens > 60_000


def test_u3_pausing_returns_the_block_alone(client: anthropic.Anthropic) -> None:
    answer = ask(client, LARGE, [THRESHOLD], {**COMPACT, "pause_after_compaction": True})
    assert ([block.type for block in answer.content], answer.stop_reason) == (["compaction"], "compaction")
    assert (answer.usage.input_tokens, answer.usage.output_tokens, len(answer.usage.iterations)) == (0, 0, 1)
    went_on = ask(client, [*LARGE, assistant(answer.content[0].to_dict())], [THRESHOLD], COMPACT)
    assert [block.type for block in went_on.content] == ["text"]


def test_u3_a_summary_that_calls_a_tool_has_failed() -> None:
    def calling(request: Request) -> Reply | str:
        return Reply(calls=(Call("bash", {}),)) if request.purpose == "compaction" else "ok"

    with Simulator(calling) as sim, client_of(sim) as client:
        answer = ask(client, LARGE, [THRESHOLD], COMPACT)
        assert (answer.content[0].type, answer.content[0].content, answer.content[1].text) == ("compaction", None, "ok")
        empty = ask(client, LARGE, [ON_DEMAND], compaction={"type": "summarize"})
        assert (empty.content, empty.stop_reason) == ([], "tool_use")
        assert empty.usage.iterations[0].input_tokens > 60_000


def test_u3_a_compaction_is_streamed_as_one_delta(client: anthropic.Anthropic) -> None:
    sent: Any = {"model": MODEL, "max_tokens": 100, "messages": LARGE, "context_management": {"edits": [COMPACT]}, "betas": [THRESHOLD]}
    with client.beta.messages.create(stream=True, **sent) as stream:
        events: list[Any] = [event for event in stream if getattr(event, "index", None) == 0]
    assert [event.type for event in events] == ["content_block_start", "content_block_delta", "content_block_stop"]
    assert (events[1].delta.type, events[1].delta.content) == ("compaction_delta", SUMMARY)
    assert events[1].delta.encrypted_content


@pytest.mark.parametrize(
    ("betas", "edit", "expected"),
    [
        ([THRESHOLD], {**COMPACT, "trigger": {"type": "input_tokens", "value": 49_999}}, "greater than or equal to 50000"),
        ([THRESHOLD], {**COMPACT, "trigger": {"type": "tool_uses", "value": 50_000}}, "should be 'input_tokens'"),
        ([EDITS], COMPACT, "Input tag 'compact_20260112' found using 'type' does not match any of the expected tags"),
        ([EDITS], clear(frobnicate=1), "clear_tool_uses_20250919.frobnicate: Extra inputs are not permitted"),
    ],
)
def test_u2_edits_that_are_wrong_are_refused(client: anthropic.Anthropic, betas: list[str], edit: dict[str, Any], expected: str) -> None:
    assert expected in str(refusal(client, [user("a")], betas, edit))


# --- compaction on demand

HISTORY = [user(words(500)), assistant("b", use("t1")), user(result("t1", words(500))), assistant("done")]
SUMMARIZE: dict[str, Any] = {"compaction": {"type": "summarize"}}


def test_u3_on_demand_a_signed_block_comes_back(client: anthropic.Anthropic, sim: Simulator) -> None:
    answer = ask(client, HISTORY, [ON_DEMAND], **SUMMARIZE)
    (block,) = answer.content
    assert (block.type, block.content, answer.stop_reason) == ("compaction", SUMMARY, "compaction")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (0, 0)
    (iteration,) = answer.usage.iterations
    assert iteration.type == "compaction" and 1_000 < iteration.input_tokens < 1_100
    assert sim.journal.records[-1].input == iteration.input_tokens and sim.journal.records[-1].size == 0
    block = block.to_dict()
    for start in ([assistant(block)], [assistant(block, "b")], []):
        first = user("go on") if start else {"role": "user", "content": [block, text("go on")]}
        assert ask(client, [*start, first], [ON_DEMAND]).usage.input_tokens < 40


def test_u3_on_demand_the_stream_has_the_whole_block_and_no_delta(client: anthropic.Anthropic) -> None:
    sent: Any = {"model": MODEL, "max_tokens": 100, "messages": HISTORY, "betas": [ON_DEMAND], **SUMMARIZE}
    with client.beta.messages.create(stream=True, **sent) as stream:
        events: list[Any] = list(stream)
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[1].content_block.content == SUMMARY and events[1].content_block.signature


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"stop_sequences": ["x"]}, "stop_sequences"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "output_config.format"),
        ({"tools": [TOOL], "tool_choice": {"type": "any"}}, "tool_choice"),
        ({"output_config": {"task_budget": {"type": "tokens", "total": 20_000, "remaining": 5}}}, "output_config.task_budget.remaining"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_u2_on_demand_some_fields_may_not_be_there(client: anthropic.Anthropic, body: dict[str, Any], expected: str) -> None:
    assert f"{expected}: not supported together with `compaction`" in str(refusal(client, HISTORY, [ON_DEMAND], **SUMMARIZE, **body))


def test_u2_on_demand_and_context_management_exclude_each_other(client: anthropic.Anthropic) -> None:
    assert "context_management: not supported" in str(refusal(client, HISTORY, [ON_DEMAND, EDITS], clear(), **SUMMARIZE))
    assert "not supported on this model" in str(refusal(client, HISTORY, [ON_DEMAND], model="claude-haiku-4-5", **SUMMARIZE))
    long = {"compaction": {"type": "summarize", "instructions": "x" * 16_385}}
    assert "at most 16384" in str(refusal(client, HISTORY, [ON_DEMAND], **long))


def code_of(error: anthropic.APIStatusError) -> str | None:
    assert isinstance(error.body, dict)
    details = error.body["error"].get("details") or {}
    return details.get("error_code")


def test_u2_compaction_blocks_have_their_own_error_codes(client: anthropic.Anthropic) -> None:
    block = ask(client, HISTORY, [ON_DEMAND], **SUMMARIZE).content[0].to_dict()
    open_turn = [user("a"), assistant(use("t1"))]
    wrong = {
        "compaction_incomplete_turn": (open_turn, SUMMARIZE),
        "compaction_nothing_to_summarize": ([assistant(block)], SUMMARIZE),
        "compaction_block_misplaced": ([user("a"), assistant(block), user("b")], {}),
        "compaction_block_ambiguous": ([assistant(block), assistant(block), user("b")], {}),
        "compaction_signature_invalid": ([assistant({**block, "signature": "x"}), user("b")], {}),
        "compaction_content_mismatch": ([assistant({**block, "content": "else"}), user("b")], {}),
    }
    assert {code: code_of(refusal(client, messages, [ON_DEMAND], **body)) for code, (messages, body) in wrong.items()} == {
        c: c for c in wrong
    }
    nulls = [assistant({**block, "citations": None}), user("b")]
    assert "compaction.citations: Extra inputs are not permitted" in str(refusal(client, nulls, [ON_DEMAND]))


def test_u4_the_model_is_told_what_is_wanted_of_a_summary_and_then_sees_it_alone() -> None:
    seen: list[Request] = []

    def watching(request: Request) -> str:
        seen.append(request)
        return "ok"

    with Simulator(watching) as sim, client_of(sim) as client:
        ask(client, LARGE, [THRESHOLD], {**COMPACT, "instructions": "Names only."})
        ask(client, HISTORY, [ON_DEMAND], compaction={"type": "summarize", "instructions": "In one line."})
    assert [(request.purpose, request.instructions, len(request.messages)) for request in seen] == [
        ("compaction", "Names only.", 3),
        ("turn", "", 1),
        ("compaction", "In one line.", 4),
    ]


def test_u3_a_reminder_that_clears_itself_costs_nothing_once_a_person_has_spoken(client: anthropic.Anthropic) -> None:
    """Section 1.3: it stays in the messages and is not shown any more."""
    beta, model = "mid-conversation-system-clear-at-2026-08-21", "claude-opus-5"
    reminder = {"role": "system", "content": words(1_000), "clear_at": "next_user_message"}

    def size(*messages: dict[str, Any]) -> int:
        return int(ask(client, list(messages), [beta], model=model).usage.input_tokens)

    start = [user("a"), reminder]
    assert size(*start) > 1_300
    in_the_loop = [assistant(use("t1")), user(result("t1"))]
    assert size(*start, *in_the_loop) > 1_300
    assert size(*start, *in_the_loop, assistant("b"), user("c")) < 60
    assert "messages.1.clear_at: Extra inputs" in str(refusal(client, start, [], model=model))
