"""U2, section 1.2: signed thinking, bound to all that stands before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from fivefold.simulator.script import Call, Reply, Request
from fivefold.simulator.serve import Simulator

from .asking import OLD, TOOL, client_of, result, text, user, words

BOUND = "claude-fable-5-2"
BY_ACCOUNT = "claude-opus-5-5"
FREE = "claude-opus-5"
BINDING = "thinking-binding-controls-2026-08-01"
COMPACT = "compact-2026-09-04"
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
INVALID = "messages.{}.content.0: Invalid `signature` in `thinking` block"
ELSEWHERE = (
    INVALID + ". The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
NEEDS_BETA = " That setting requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."


def model(request: Request) -> Reply | str:
    """Thinks and calls a tool on each turn; a summary is one sentence."""
    if request.purpose == "compaction":
        return "They said hello."
    n = len(request.messages)
    return Reply(thinking=f"step {n}", calls=(Call("bash", {"n": n}, f"toolu_{request.number}"),))


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    with Simulator(model) as sim:
        yield sim


@pytest.fixture(scope="module")
def client(sim: Simulator) -> Iterator[anthropic.Anthropic]:
    with client_of(sim) as client:
        yield client


def ask(client: anthropic.Anthropic, messages: list[Any], *, betas: list[str] | None = None, **body: Any) -> Any:
    sent = {"model": BOUND, "max_tokens": 1000, "system": "Be good.", "tools": [TOOL], "messages": messages, **body}
    return client.beta.messages.create(betas=betas or [], **sent)


def answered(answer: Any) -> list[Any]:
    """The answer as the client sends it back, and the result of its call."""
    content = [block.to_dict() for block in answer.content]
    return [{"role": "assistant", "content": content}, user(result(content[-1]["id"]))]


def conversation(client: anthropic.Anthropic, turns: int, **body: Any) -> list[Any]:
    """A conversation of some turns, each with thinking in front."""
    messages: list[Any] = [user("hello")]
    for _ in range(turns):
        messages += answered(ask(client, messages, **body))
    return messages


def without_thinking(messages: list[Any], *places: int) -> list[Any]:
    """A copy whose messages at these places have no thinking."""
    return [
        {**message, "content": [block for block in message["content"] if block["type"] != "thinking"]} if i in places else message
        for i, message in enumerate(messages)
    ]


def refusal(client: anthropic.Anthropic, messages: list[Any], **body: Any) -> str:
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(client, messages, **body)
    assert isinstance(caught.value.body, dict)
    return str(caught.value.body["error"]["message"])


def test_u2_thinking_goes_back_as_it_came(client: anthropic.Anthropic) -> None:
    messages = conversation(client, 3)
    thinking = messages[1]["content"][0]
    assert thinking["type"] == "thinking" and thinking["thinking"] == "" and thinking["signature"]  # its text is left out by default
    shown = ask(client, messages, thinking={"type": "adaptive", "display": "summarized"})
    assert shown.content[0].thinking == "step 7"


def test_u2_an_edit_before_thinking_is_refused(client: anthropic.Anthropic) -> None:
    messages = conversation(client, 3)
    edited = [*messages]
    edited[2] = user(result(messages[2]["content"][0]["tool_use_id"], "shortened"))
    assert refusal(client, edited) == ELSEWHERE.format(3) + NEEDS_BETA
    assert refusal(client, edited, betas=[BINDING]) == ELSEWHERE.format(3)
    assert refusal(client, messages, system="Be bad.") == ELSEWHERE.format(1) + NEEDS_BETA
    assert refusal(client, messages, tools=[{**TOOL, "description": "Else."}]) == ELSEWHERE.format(1) + NEEDS_BETA
    assert refusal(client, [user("hello"), user("you"), *messages[1:]]) == ELSEWHERE.format(2) + NEEDS_BETA
    with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):  # count_tokens checks it too
        client.messages.count_tokens(model=BOUND, messages=edited, system="Be good.", tools=[TOOL])  # type: ignore[list-item]


def test_u2_what_is_no_edit_is_taken(client: anthropic.Anthropic) -> None:
    messages = conversation(client, 2)
    marked = [user(text("hello", cache_control={"type": "ephemeral"})), *messages[1:]]
    assert ask(client, marked, max_tokens=500, output_config={"effort": "low"}, tool_choice={"type": "none"}).content
    deferred = {**TOOL, "name": "later", "defer_loading": True}
    assert ask(client, messages, tools=[TOOL, deferred]).content


def test_u2_thinking_may_be_left_out_from_the_start_or_the_end_but_not_from_the_middle(client: anthropic.Anthropic) -> None:
    messages = conversation(client, 3)
    for places in [(1,), (1, 3), (5,), (3, 5), (1, 3, 5)]:
        assert ask(client, without_thinking(messages, *places)).content, places
    assert refusal(client, without_thinking(messages, 3)) == ELSEWHERE.format(5) + NEEDS_BETA


def test_u2_thinking_that_was_left_out_cannot_come_back(client: anthropic.Anthropic) -> None:
    messages = conversation(client, 2)
    stripped = without_thinking(messages, 1, 3)
    longer = [*stripped, *answered(ask(client, stripped))]
    assert ask(client, longer).content
    back = [*messages, *longer[5:]]
    assert refusal(client, back) == ELSEWHERE.format(5) + NEEDS_BETA


def test_u2_a_changed_signature_or_text_is_refused(client: anthropic.Anthropic) -> None:
    messages = conversation(client, 2)

    def changed(at: int, **fields: str) -> list[Any]:
        first, *rest = messages[at]["content"]
        return [{"role": "assistant", "content": [{**first, **fields}, *rest]} if i == at else m for i, m in enumerate(messages)]

    assert refusal(client, changed(1, signature="tampered")) == INVALID.format(1)
    assert refusal(client, changed(1, thinking="else")) == INVALID.format(1)
    assert refusal(client, changed(3, thinking="else")) == (
        "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
        "These blocks must remain as they were in the original response."
    )


def test_u2_drop_block_takes_the_request_without_its_thinking_and_says_so(client: anthropic.Anthropic, sim: Simulator) -> None:
    messages = conversation(client, 3)
    edited = [user("hi"), *messages[1:]]
    answer = ask(client, edited, betas=[BINDING], thinking=DROP)
    assert [part.to_dict() for part in answer.input_transformations] == [
        {"type": "thinking_dropped", "path": f"messages.{n}.content.0", "reason": "prefix_binding_mismatch"} for n in (1, 3, 5)
    ]
    size = sim.journal.records[-1].input
    ask(client, without_thinking(edited, 1, 3, 5))
    assert sim.journal.records[-1].input == size  # what is dropped is not billed
    assert ask(client, messages, betas=[BINDING]).input_transformations == []
    gap = ask(client, without_thinking(conversation(client, 4), 3), betas=[BINDING], thinking=DROP)
    assert [part.path for part in gap.input_transformations] == ["messages.5.content.0", "messages.7.content.0"]  # and all later ones


def test_u2_older_accounts_are_bound_only_where_they_ask_for_it() -> None:
    with Simulator(model, new_account=False) as sim, client_of(sim) as client:
        messages = conversation(client, 2, model=BY_ACCOUNT)
        edited = [user("hi"), *messages[1:]]
        allowed = ask(client, edited, model=BY_ACCOUNT, betas=[BINDING])
        assert [part.type for part in allowed.input_transformations] == ["thinking_mismatch_allowed"] * 2
        error = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
        assert refusal(client, edited, model=BY_ACCOUNT, betas=[BINDING], thinking=error) == ELSEWHERE.format(1)
    with Simulator(model) as sim, client_of(sim) as client:
        messages = conversation(client, 1, model=BY_ACCOUNT)
        assert refusal(client, [user("hi"), *messages[1:]], model=BY_ACCOUNT) == ELSEWHERE.format(1) + NEEDS_BETA


def test_u2_other_models_do_not_bind_and_do_not_read_foreign_thinking(client: anthropic.Anthropic, sim: Simulator) -> None:
    messages = conversation(client, 2, model=FREE)
    assert ask(client, [user("hi"), *messages[1:]], model=FREE).content
    ask(client, messages, model=BOUND)
    size = sim.journal.records[-1].input
    ask(client, without_thinking(messages, 1, 3), model=BOUND)
    assert sim.journal.records[-1].input == size


def test_u2_thinking_counts_though_its_text_is_left_out(client: anthropic.Anthropic, sim: Simulator) -> None:
    messages = conversation(client, 1)
    assert sim.journal.records[-1].thinking == 4  # "step 1" is 3 tokens of the vocabulary, times 1.3
    ask(client, messages)
    size = sim.journal.records[-1].input
    ask(client, without_thinking(messages, 1))
    assert sim.journal.records[-1].input == size - 4


def test_u2_older_models_are_shown_the_last_turn_s_thinking_only() -> None:
    with Simulator(lambda request: Reply(thinking=words(100), text="ok")) as sim, client_of(sim) as client:
        thinking = {"type": "enabled", "budget_tokens": 1_024}
        messages: list[Any] = [user("a")]
        sizes = []
        for _ in range(3):
            answer = ask(client, messages, model=OLD, max_tokens=2_000, thinking=thinking)
            sizes.append(answer.usage.input_tokens)
            messages += [{"role": "assistant", "content": [block.to_dict() for block in answer.content]}, user("b")]
    assert sizes[1] - sizes[0] == sizes[2] - sizes[1] == 5 + 5


# --- on-demand compaction keeps the tail's thinking valid (section 1.1.4)


def compacted(client: anthropic.Anthropic, messages: list[Any], **body: Any) -> dict[str, Any]:
    answer = ask(client, messages, betas=[COMPACT], compaction={"type": "summarize"}, **body)
    return {"role": "assistant", "content": [block.to_dict() for block in answer.content]}


def test_u2_a_kept_tail_stays_valid_behind_the_provider_s_own_summary(client: anthropic.Anthropic) -> None:
    messages = conversation(client, 3)
    block = compacted(client, messages[:3])
    kept = [block, *messages[3:]]
    answer = ask(client, kept, betas=[COMPACT])
    assert ask(client, [*kept, *answered(answer)], betas=[COMPACT]).content
    in_user = [{"role": "user", "content": [*block["content"], text("go on")]}]
    assert ask(client, in_user, betas=[COMPACT]).content


def test_u2_a_tail_that_does_not_follow_the_summary_is_not_valid(client: anthropic.Anthropic) -> None:
    messages = conversation(client, 4)
    block = compacted(client, messages[:3])
    assert refusal(client, [block, *messages[5:]], betas=[COMPACT]).startswith(ELSEWHERE.format(1))
    edited = [block, messages[3], user(result(messages[4]["content"][0]["tool_use_id"], "cut")), *messages[5:]]
    assert refusal(client, edited, betas=[COMPACT]).startswith(ELSEWHERE.format(3))
    assert refusal(client, [block, *messages[3:]], betas=[COMPACT], system="Else.").startswith(ELSEWHERE.format(1))


def test_u2_the_first_kept_message_must_have_another_role_than_the_last_summarised(client: anthropic.Anthropic) -> None:
    messages = conversation(client, 2)
    assert messages[2]["role"] == "user"
    longer = [*messages[:3], user("and this"), *answered(ask(client, [*messages[:3], user("and this")]))]
    assert refusal(client, [compacted(client, longer[:3]), *longer[3:]], betas=[COMPACT]).startswith(ELSEWHERE.format(2))
