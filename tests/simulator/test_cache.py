"""U3: the prompt cache, with usage numbers worked out by hand.

``words(n)`` is n tokens of o200k. Claude Haiku 4.5 counts by o200k as it is, so its numbers are plain: a message costs its text and 4
tokens of frame, the system prompt its text alone. It caches from 4,096 tokens on. Opus 5.5 counts 1.3 times as many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from fivefold.simulator.accounts import Record
from fivefold.simulator.script import Request
from fivefold.simulator.serve import Simulator
from fivefold.simulator.tokens import counter_for

from .asking import LONG_MARK, MARK, MODEL, OLD, TOOL, Clock, assistant, client_of, png, result, text, use, user, words

SYSTEM = words(5_000)


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def sim(clock: Clock) -> Iterator[Simulator]:
    with Simulator(lambda request: "ok", clock=clock) as sim:
        yield sim


@pytest.fixture(scope="module")
def client(sim: Simulator) -> Iterator[anthropic.Anthropic]:
    with client_of(sim) as client:
        yield client


@pytest.fixture(autouse=True)
def another_day(clock: Clock) -> None:
    """Nothing is left in the cache from the test before."""
    clock.now += 100_000


def usage(client: anthropic.Anthropic, messages: list[Any], **body: Any) -> tuple[int, int, int, int]:
    """Tokens neither read nor written, read, written for five minutes, written for an hour."""
    sent = {"model": OLD, "max_tokens": 10, "messages": messages, **body}
    answer: Any = client.post("/v1/messages", body=sent, cast_to=anthropic.types.Message)
    found = answer.usage
    parts = found.cache_creation
    assert parts.ephemeral_5m_input_tokens + parts.ephemeral_1h_input_tokens == found.cache_creation_input_tokens
    return found.input_tokens, found.cache_read_input_tokens, parts.ephemeral_5m_input_tokens, parts.ephemeral_1h_input_tokens


def marked(value: str, mark: dict[str, Any] = MARK) -> list[Any]:
    return [text(value, **mark)]


def test_u5_words_are_counted_by_the_real_tokenizer() -> None:
    assert counter_for("claude").count(words(5_000)) == 5_000
    assert counter_for("claude-new").count(words(1_000)) == 1_300
    assert counter_for("claude").count("<|endoftext|>") > 1  # no special token: it is what somebody wrote


def test_u3_a_marked_prefix_is_written_then_read(client: anthropic.Anthropic) -> None:
    assert usage(client, [user(words(100))], system=marked(SYSTEM)) == (104, 0, 5_000, 0)
    assert usage(client, [user(words(200))], system=marked(SYSTEM)) == (204, 5_000, 0, 0)


def test_u3_nothing_is_cached_without_a_mark(client: anthropic.Anthropic) -> None:
    assert usage(client, [user(words(100))], system=SYSTEM) == (5_104, 0, 0, 0)
    assert usage(client, [user(words(100))], system=marked(SYSTEM)) == (104, 0, 5_000, 0)


def test_u3_a_prefix_under_the_minimum_is_silently_not_cached(client: anthropic.Anthropic) -> None:
    short = [user(text(words(4_091), **MARK))]  # 4,095 with the frame; the minimum is 4,096
    assert usage(client, short) == (4_095, 0, 0, 0)
    assert usage(client, short) == (4_095, 0, 0, 0)
    enough = [user(text(words(4_092), **MARK))]
    assert usage(client, enough) == (0, 0, 4_096, 0)
    assert usage(client, enough) == (0, 4_096, 0, 0)


def test_u3_a_moving_mark_reads_what_the_last_one_wrote(client: anthropic.Anthropic) -> None:
    first = [user(text(words(5_000), **MARK))]
    assert usage(client, first) == (0, 0, 5_004, 0)
    second = [user(words(5_000)), assistant("ok"), user(text(words(50), **MARK))]
    # "ok" is one token, and each of the two new messages has a frame of 4
    assert usage(client, second) == (0, 5_004, 1 + 4 + 50 + 4, 0)


def test_u3_automatic_caching_marks_the_last_block(client: anthropic.Anthropic) -> None:
    assert usage(client, [user(words(5_000))], **MARK) == (0, 0, 5_004, 0)
    assert usage(client, [user(words(5_000)), assistant("ok"), user(words(50))], **MARK) == (0, 5_004, 59, 0)


def test_u3_an_entry_lives_five_minutes_from_the_last_request_that_hit_it(client: anthropic.Anthropic, clock: Clock) -> None:
    request: dict[str, Any] = {"messages": [user("a")], "system": marked(SYSTEM)}
    assert usage(client, **request)[1:] == (0, 5_000, 0)
    clock.now += 299
    assert usage(client, **request)[1:] == (5_000, 0, 0)
    clock.now += 299  # 598 s after it was written: the hit has made it live anew
    assert usage(client, **request)[1:] == (5_000, 0, 0)
    clock.now += 301
    assert usage(client, **request)[1:] == (0, 5_000, 0)


def test_u3_an_hour_s_entry_lives_an_hour(client: anthropic.Anthropic, clock: Clock) -> None:
    request: dict[str, Any] = {"messages": [user("a")], "system": marked(SYSTEM, LONG_MARK)}
    assert usage(client, **request)[1:] == (0, 0, 5_000)
    clock.now += 3_599
    assert usage(client, **request)[1:] == (5_000, 0, 0)
    clock.now += 3_601
    assert usage(client, **request)[1:] == (0, 0, 5_000)


def test_u3_long_and_short_marks_split_what_is_written(client: anthropic.Anthropic, clock: Clock) -> None:
    request: dict[str, Any] = {"messages": [user(text(words(6_000), **MARK))], "system": marked(SYSTEM, LONG_MARK)}
    assert usage(client, **request) == (0, 0, 6_004, 5_000)
    clock.now += 301  # what lived five minutes is gone, what lives an hour is not
    assert usage(client, **request) == (0, 5_000, 6_004, 0)


def test_u3_a_mark_looks_back_over_twenty_positions_only(client: anthropic.Anthropic) -> None:
    def request(blocks: int) -> list[Any]:
        return [user(words(5_000), *(f"b{i}" for i in range(blocks - 1)), text("end", **MARK))]

    history = [user(text(words(5_000), **MARK))]
    assert usage(client, history) == (0, 0, 5_004, 0)
    assert usage(client, request(19))[1] == 5_004  # the mark is the 20th position with its own
    client_miss = [user(words(5_000), *(f"c{i}" for i in range(19)), text("end", **MARK))]
    assert usage(client, client_miss)[1] == 0  # the 21st


def test_u3_a_run_of_calls_or_of_results_is_one_position(client: anthropic.Anthropic) -> None:
    uses = [use(f"t{i}") for i in range(30)]
    results = [result(f"t{i}") for i in range(30)]
    assert usage(client, [user(text(words(5_000), **MARK))])[2] == 5_004
    longer = [user(words(5_000)), assistant(*uses), user(*results, text("end", **MARK))]
    assert usage(client, longer)[1] == 5_004


def test_u3_a_changed_tool_invalidates_all_a_changed_system_prompt_not_the_tools(client: anthropic.Anthropic) -> None:
    tool = {**TOOL, "description": words(5_000), **MARK}
    base: dict[str, Any] = {"tools": [tool], "system": marked(SYSTEM), "messages": [user(text(words(100), **MARK))]}
    _, read, first, _ = usage(client, **base)
    assert read == 0 and first > 10_000
    assert usage(client, **base) == (0, first, 0, 0)
    _, tools_read, rewritten, _ = usage(client, **{**base, "system": marked(SYSTEM + " more")})
    assert 5_000 < tools_read < 5_100 and tools_read + rewritten == first + 1
    changed = {**tool, "description": words(5_000) + " more"}
    assert usage(client, **{**base, "tools": [changed]})[1] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"tool_choice": {"type": "none"}},
        {"thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 3_000},
        {"output_config": {"effort": "low"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_u3_what_changes_how_the_model_answers_invalidates_the_messages_alone(client: anthropic.Anthropic, change: dict[str, Any]) -> None:
    base: dict[str, Any] = {"tools": [TOOL], "system": marked(SYSTEM), "messages": [user(text(words(100), **MARK))]}
    first = usage(client, **base)[2]
    assert usage(client, **base) == (0, first, 0, 0)
    assert usage(client, **{**base, **change}) == (0, first - 104, 104, 0)


def test_u3_an_image_that_comes_in_invalidates_the_messages(client: anthropic.Anthropic) -> None:
    system = marked(SYSTEM)
    assert usage(client, [user(text(words(5_000), **MARK))], system=system) == (0, 0, 10_004, 0)
    with_image = [user(words(5_000)), assistant("ok"), user(png(28, 28), text("b", **MARK))]
    assert usage(client, with_image, system=system) == (0, 5_000, 5_004 + 5 + 4 + 1 + 1, 0)


def test_u3_moving_a_mark_changes_nothing_that_is_cached(client: anthropic.Anthropic) -> None:
    assert usage(client, [user(text(words(5_000), **MARK), "b")]) == (1, 0, 5_004, 0)
    assert usage(client, [user(words(5_000), text("b", **MARK))]) == (0, 5_004, 1, 0)


def test_u3_another_model_reads_nothing(client: anthropic.Anthropic) -> None:
    assert usage(client, [user(text(words(5_000), **MARK))]) == (0, 0, 5_004, 0)
    assert usage(client, [user(text(words(5_000), **MARK))], model="claude-sonnet-4-6")[1] == 0


def test_u3_a_request_that_is_refused_writes_nothing(client: anthropic.Anthropic) -> None:
    wrong = [user(text(words(5_000), **MARK)), assistant("b")]
    with pytest.raises(anthropic.BadRequestError):
        usage(client, wrong, model="claude-opus-4-6")
    assert usage(client, [user(text(words(5_000), **MARK))], model="claude-opus-4-6") == (0, 0, 5_004, 0)


def test_u5_the_journal_has_the_money_by_the_price_table(client: anthropic.Anthropic, sim: Simulator) -> None:
    """Haiku 4.5: 1 / 5 USD per million in and out, 0.10 read, 1.25 and 2.00 written."""
    request: dict[str, Any] = {"messages": [user(text(words(6_000), **MARK)), assistant("ok"), user(words(96))]}
    usage(client, system=marked(SYSTEM, LONG_MARK), **request)
    record: Record = sim.journal.records[-1]
    assert (record.input, record.read, record.written, record.output) == (11_109, 0, 11_004, 1)
    assert record.usd == pytest.approx((105 * 1.0 + 5_000 * 2.0 + 6_004 * 1.25 + 1 * 5.0) / 1_000_000)
    usage(client, system=marked(SYSTEM, LONG_MARK), **request)
    assert sim.journal.records[-1].usd == pytest.approx((105 * 1.0 + 11_004 * 0.10 + 1 * 5.0) / 1_000_000)


def test_u5_over_a_cliff_the_whole_request_costs_more() -> None:
    """Haiku 5.5: 0.10 USD per million up to a prompt of 100,000 tokens, 0.50 above."""
    with Simulator(lambda request: "ok") as sim, client_of(sim) as client:
        usage(client, [user(words(70_000))], model="claude-haiku-5-5")
        usage(client, [user(words(80_000))], model="claude-haiku-5-5")
        low, high = (record.usd for record in sim.journal.records)
    output = 2  # one token of the vocabulary, times 1.3
    assert low == pytest.approx((91_004 * 0.10 + output * 0.50) / 1_000_000)
    assert high == pytest.approx((104_004 * 0.50 + output * 2.50) / 1_000_000)


def test_u3_diagnostics_say_what_broke_the_prefix(client: anthropic.Anthropic) -> None:
    """Section 2, cache diagnostics: the reason, and how much could have been read."""

    def ask(previous: str | None, **changes: Any) -> anthropic.types.Message:
        body = {"model": OLD, "max_tokens": 10, "system": words(50), "tools": [TOOL], "messages": [user(words(100))], **changes}
        sent: Any = {**body, "diagnostics": {"previous_message_id": previous}}
        return client.post("/v1/messages", body=sent, cast_to=anthropic.types.Message)

    def reason(answer: anthropic.types.Message) -> Any:
        assert answer.diagnostics is not None and answer.diagnostics.cache_miss_reason is not None
        return answer.diagnostics.cache_miss_reason

    first = ask(None)
    assert first.diagnostics is None
    longer = ask(first.id, messages=[user(words(100)), assistant("ok"), user("more")])
    assert longer.diagnostics is None
    edited = reason(ask(longer.id, messages=[user(words(100)), assistant("changed"), user("more")]))
    assert (edited.type, edited.cache_missed_input_tokens) == ("messages_changed", 1 + 4 + 1 + 4)
    assert reason(ask(first.id, system=words(51))).type == "system_changed"
    assert reason(ask(first.id, tools=[])).type == "tools_changed"
    assert reason(ask(first.id, model=MODEL)).type == "model_changed"
    assert reason(ask("msg_nobody")).type == "previous_message_not_found"


def test_u3_max_tokens_zero_warms_the_cache(client: anthropic.Anthropic, sim: Simulator) -> None:
    sent: Any = {"model": OLD, "max_tokens": 0, "messages": [user(text(words(5_000), **MARK))]}
    answer = client.post("/v1/messages", body=sent, cast_to=anthropic.types.Message)
    assert (answer.content, answer.stop_reason, answer.usage.output_tokens) == ([], "max_tokens", 0)
    assert usage(client, [user(text(words(5_000), **MARK))]) == (0, 5_004, 0, 0)


def test_u5_count_tokens_and_usage_say_the_same(client: anthropic.Anthropic) -> None:
    body: dict[str, Any] = {
        "system": words(50),
        "tools": [TOOL],
        "messages": [user("a"), assistant("b", use("t1", command="ls")), user(result("t1"))],
    }
    counted = client.messages.count_tokens(model=OLD, **body)
    assert usage(client, **body) == (counted.input_tokens, 0, 0, 0)


def test_u3_a_lifetime_counts_from_the_start_of_the_request(clock: Clock) -> None:
    def slow(request: Request) -> str:
        clock.now += 200
        return "ok"

    with Simulator(slow, clock=clock) as sim, client_of(sim) as client:
        request: dict[str, Any] = {"messages": [user("a")], "system": marked(SYSTEM)}
        assert usage(client, **request)[2] == 5_000
        clock.now += 101  # 301 s after the request began, 101 s after it was answered
        assert usage(client, **request)[1:3] == (0, 5_000)


def test_u3_what_is_asked_at_the_same_time_cannot_be_read_yet() -> None:
    """An entry can be read once its answer has begun: parallel requests all write."""

    async def slow(request: Request) -> str:
        await asyncio.sleep(0.2)
        return "ok"

    async def main(url: str) -> list[int]:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="key", max_retries=0) as client:
            body: Any = {"model": OLD, "max_tokens": 10, "system": marked(SYSTEM)}
            asked = [client.messages.create(**body, messages=[user(f"number {i}")]) for i in range(3)]
            answers = [*await asyncio.gather(*asked), await client.messages.create(**body, messages=[user("later")])]
            return [answer.usage.cache_read_input_tokens or 0 for answer in answers]

    with Simulator(slow) as sim:
        assert asyncio.run(main(sim.url)) == [0, 0, 0, 5_000]
