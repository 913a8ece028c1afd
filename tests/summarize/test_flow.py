"""A model writes the summary: what is asked of whom, in which order, and what happens when it goes wrong (L1, L3–L5, L7, L8, L11, L12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.entries import Entry, Usage
from fivefold.core.estimate import estimate_text, pad
from fivefold.core.messages import Document, RedactedThinking, ServerToolResult, ServerToolUse, Text, Thinking, ToolResult, encode_message
from fivefold.core.policy import SummaryPolicy
from fivefold.core.rejection import Rejection
from fivefold.core.repair import outgoing
from fivefold.errors import SummaryError
from fivefold.formats.registry import read_transcript
from fivefold.summarize.flow import CUT_NOTE, Answer, Ask, Task, Wait, Written, most_asks, names_of, summarise
from fivefold.summarize.frame import framed
from fivefold.summarize.prompts import SYSTEM

from ..build import assistant, call, refused, result, user

Reply: TypeAlias = Answer | Rejection | None


def chars(text: str) -> float:
    return len(text) / 4


def conversation(rounds: int = 8, size: int = 40) -> tuple[Entry, ...]:
    entries = [user("u", "Investigate the memory leak. Do not restart the server.")]
    for i in range(rounds):
        entries.append(
            assistant(f"a{i}", f"Step {i}: looking at module {i}.", call(f"c{i}", "Read", file_path=f"src/m_{i}.py"), api_id=f"m{i}")
        )
        entries.append(user(f"r{i}", result(f"c{i}", f"start_{i} " + "some code here " * size + f"end_{i}")))
    return tuple(entries)


def task(entries: Iterable[Entry] = (), **more: Any) -> Task:
    """A small conversation and a window in which it fits, unless said otherwise."""
    return Task(
        **{
            "entries": tuple(entries) or conversation(),
            "window": 100_000,
            "max_output": 8_000,
            "max_tokens": 2_000,
            "estimate": chars,
            **more,
        }
    )


class Run(NamedTuple):
    """What a flow asked for, how long it waited, and what came of it."""

    asks: list[Ask]
    waits: list[float]
    end: Written | SummaryError

    @property
    def written(self) -> Written:
        assert isinstance(self.end, Written), self.end
        return self.end

    @property
    def error(self) -> str:
        assert isinstance(self.end, SummaryError), self.end
        return str(self.end)


def run(given: Task, *replies: Reply, answer: Callable[[Ask], Reply] | None = None) -> Run:
    """Drive a flow with replies in order, then with ``answer``. More asks than replies fail the test, and so do replies left over."""
    asks: list[Ask] = []
    waits: list[float] = []
    left = list(replies)
    flow, reply = summarise(given), None
    try:
        while True:
            wanted = flow.send(reply)
            if isinstance(wanted, Wait):
                waits.append(wanted.seconds)
                reply = None
                continue
            asks.append(wanted)
            assert left or answer is not None, f"one ask more than the test has replies for: {wanted.kind} {wanted.model}"
            reply = left.pop(0) if left else answer(wanted) if answer is not None else None
    except StopIteration as stop:
        assert not left, f"replies that nobody asked for: {left}"
        return Run(asks, waits, stop.value)
    except SummaryError as error:
        assert not left, f"replies that nobody asked for: {left}"
        return Run(asks, waits, error)


GOOD = Answer("<analysis>draft</analysis><summary>Nine modules read; the leak is in the pool.</summary>")
TOO_LONG = Rejection(why="too_long", message="prompt is too long", status=400)
BUSY = Rejection(why="transient", message="Overloaded", status=529)
BAD = Rejection(why="other", message="bad request", status=400)


def legal(ask: Ask) -> list[str]:
    """What a provider would refuse in the request that an ask is sent as."""
    request = outgoing(list(ask.entries))
    return refused(request.messages, open_end=False)


def sent(ask: Ask) -> list[Any]:
    return [encode_message(message) for message in outgoing(list(ask.entries)).messages]


# --- a fork first


def test_l1_the_first_ask_is_a_fork_with_the_conversation_untouched() -> None:
    given = task()
    made = run(given, GOOD)
    (ask,) = made.asks
    assert (ask.kind, ask.model, ask.system, ask.thinking, ask.tools) == ("fork", "", "", "inherit", "inherit")
    assert (
        all(mine is theirs for mine, theirs in zip(ask.entries, given.entries, strict=False)) and len(ask.entries) == len(given.entries) + 1
    )
    assert ask.entries[-1].blocks == (Text(ask.text),) and ask.entries[-1].meta
    assert "cache_control" not in str(msgspec.to_builtins(ask.entries[-1]))
    assert legal(ask) == [] and made.written.text == "Nine modules read; the leak is in the pool."
    assert made.written.notes == () and made.written.unseen == ()


def test_l1_a_fork_sends_what_stands_before_too_and_names_where_the_part_begins() -> None:
    before = (user("h", "Project rules.", meta=True),)
    (ask,) = run(task(before=before), GOOD).asks
    assert ask.entries[0] is before[0]
    assert "starts with the message “Investigate the memory leak." in ask.text


@pytest.mark.parametrize("change", [{"fork": False}, {"models": ("other",), "own_model": "big-1"}], ids=["switched off", "another model"])
def test_l1_no_fork_where_it_is_off_or_another_model_writes(change: dict[str, Any]) -> None:
    (ask,) = run(task(**change), GOOD).asks
    assert (ask.kind, ask.system, ask.thinking, ask.tools) == ("direct", SYSTEM, "lowest", "none")
    assert len(ask.entries) == 1 and ask.entries[0].blocks == (Text(ask.text),)
    assert "--- person\nInvestigate the memory leak." in ask.text and "tool_use" not in str(sent(ask))


@pytest.mark.parametrize(
    "reply",
    [TOO_LONG, BAD, Answer(""), Answer("I'm sorry, I can't help with that."), None],
    ids=["too long", "bad", "empty", "refusal", "none"],
)
def test_l1_a_fork_that_fails_is_followed_by_a_direct_request(reply: Reply) -> None:
    made = run(task(own_model="big-1"), reply, GOOD)
    assert [ask.kind for ask in made.asks] == ["fork", "direct"]
    assert made.written.notes[0].startswith("fork of big-1 failed: ") and made.written.notes[0].endswith("; big-1 wrote it")


def test_l11_a_fork_that_leaves_no_room_for_a_summary_is_not_sent() -> None:
    entries = conversation(20, 400)
    size = pad(sum(chars(str(block)) for entry in entries for block in entry.blocks))
    made = run(task(entries, window=size, max_tokens=1_000), GOOD)
    assert [ask.kind for ask in made.asks] == ["direct"]
    assert "no fork of" in made.written.notes[0] and "leave no room" in made.written.notes[0]


def test_l1_the_ledgers_size_decides_about_a_fork_not_the_padded_estimate() -> None:
    """At 167,000 of 200,000 tokens the padded estimate is over the window, and the cache would never be used."""
    entries = conversation(400, 100)
    known = int(sum(chars(str(block)) for entry in entries for block in entry.blocks))
    (ask,) = run(task(entries, window=int(known * 1.2), fork_tokens=known), GOOD).asks
    assert ask.kind == "fork" and known + chars(ask.text) + ask.max_tokens <= known * 1.2


# --- what a fork may not send


def test_i1_a_pending_call_is_answered_in_the_request_and_stays_in_the_history() -> None:
    """The clean-up for a summary must not reach the live history, whether the summary works or not."""
    entries = (*conversation(3), assistant("p", "Checking.", call("pending", command="pytest -q"), api_id="mp"))
    before = msgspec.to_builtins(entries)
    for replies in ((GOOD,), (BUSY,) * 4):
        made = run(task(entries), *replies)
        assert legal(made.asks[0]) == []
        assert isinstance(made.asks[0].entries[-1].blocks[0], ToolResult)
        assert "interrupted" not in str(sent(made.asks[0]))
        assert msgspec.to_builtins(entries) == before


def test_i8_a_server_side_call_without_its_result_is_not_sent() -> None:
    entries = (
        user("u", "What changed in the caching RFC?"),
        assistant(
            "a",
            "Searching.",
            ServerToolUse("s1", "web_search", {"query": "x"}),
            ServerToolResult("s1", [], "web_search_tool_result"),
            "Revised.",
        ),
        user("u2", "Fetch the section on freshness."),
        assistant("a2", "Fetching.", ServerToolUse("s2", "web_fetch", {"url": "https://example.org"})),
    )
    fork, direct = run(task(entries), BAD, GOOD).asks
    assert legal(fork) == []
    assert "s2" not in str(sent(fork)) and str(sent(fork)).count("'s1'") == 2
    assert "server_tool_use" not in str(sent(direct))


def test_i1_an_interrupted_call_of_long_ago_does_not_poison_the_request() -> None:
    entries = (
        user("u", "Clean up the CI config."),
        assistant("a", "Running the linter.", call("i", command="make lint")),
        user("u2", "Stop, wrong directory. Use ./ci instead."),
        assistant("a2", "Understood, switching."),
    )
    for ask in run(task(entries), BAD, GOOD).asks:
        assert legal(ask) == [] and "Use ./ci instead" in str(sent(ask))


def test_i2_thinking_of_the_newest_message_goes_whole_or_not_at_all() -> None:
    thought = (Thinking("Jitter is missing.", "c2lnbmF0dXJl"), RedactedThinking("d1pDT0VjZw"))
    entries = (*conversation(2), assistant("t", *thought, "There is no jitter today.", api_id="mt"))
    fork, direct = run(task(entries), BAD, GOOD).asks
    kinds = [block["type"] for message in sent(fork) for block in message["content"] if isinstance(block, dict)]
    assert kinds.count("thinking") == kinds.count("redacted_thinking") == 1
    assert sent(fork)[-2]["content"][:2] == [
        {"type": "thinking", "thinking": "Jitter is missing.", "signature": "c2lnbmF0dXJl"},
        {"type": "redacted_thinking", "data": "d1pDT0VjZw"},
    ]
    assert "d1pDT0VjZw" not in direct.text and "Jitter is missing" not in direct.text


def test_t7_no_media_under_a_body_limit_and_documents_keep_their_names() -> None:
    data = "JVBERi0xLjQK" + "Qk9PSw" * 2_000
    entries = [user("u", "Read these three reports and compare totals.")]
    for i in range(3):
        source = {"type": "base64", "media_type": "application/pdf", "data": data}
        entries += [
            assistant(f"a{i}", call(f"c{i}", "Read", file_path=f"report_{i}.pdf"), api_id=f"m{i}"),
            user(f"r{i}", result(f"c{i}"), Document(source)),
        ]
    (ask,) = run(task(entries, window=200_000, body_limit=20_000), GOOD).asks
    body = msgspec.json.encode(sent(ask))
    assert ask.kind == "direct" and len(body) < 20_000 and data[:60].encode() not in body
    assert all(f"report_{i}.pdf" in ask.text for i in range(3))


# --- which answers are a summary


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "Error generating summary: connection closed",
        "I'm sorry, there is no conversation to summarise.",
        "<analysis>only a draft</analysis>",
    ],
)
def test_l3_no_blank_error_text_refusal_or_draft_is_installed(text: str) -> None:
    made = run(task(), answer=lambda ask: Answer(text))
    assert len(made.asks) == 2 and "no usable summary" in made.error
    assert "empty answer" in made.error or "instead of a summary" in made.error or "only a draft" in made.error


def test_l3_the_models_last_reply_does_not_stand_in_as_the_summary() -> None:
    made = run(task(fork=False), Answer("Step 7: looking at module 7."), GOOD)
    assert made.written.text.startswith("Nine modules") and "once more" in made.asks[1].text


def test_l4_a_tool_call_is_denied_and_asked_once_more_without_tools() -> None:
    made = run(task(), Answer("", called_tool=True, stop_reason="tool_use"), GOOD)
    assert [(ask.kind, ask.tools) for ask in made.asks] == [("fork", "inherit"), ("direct", "none")]
    assert "was a tool call. It was not carried out" in made.asks[1].text
    assert made.written.text.startswith("Nine modules")


def test_l4_on_the_direct_path_too_and_only_once() -> None:
    calls = Answer("Let me look at one file first.", called_tool=True, stop_reason="tool_use")
    assert run(task(fork=False), calls, GOOD).written.asks == 2
    assert "tool call instead" in run(task(fork=False), calls, calls).error


def test_l4_an_answer_of_no_use_is_asked_for_otherwise_only_once() -> None:
    calls, repeats = Answer("", called_tool=True), Answer("Step 7: looking at module 7.")
    assert "once more" in run(task(fork=False), calls, repeats).error


def test_l4_what_was_too_long_is_not_sent_again_with_the_denial() -> None:
    made = run(task(conversation(30), fork=False), TOO_LONG, Answer("", called_tool=True), GOOD)
    second, third = made.asks[1:]
    assert made.written.unseen and third.text.split("</conversation>")[0] == second.text.split("</conversation>")[0]


def test_l5_instructions_and_feedback_reach_the_model_in_order_and_within_bounds() -> None:
    given = task(
        instructions=("from the user", "from the project " + "x" * 200_000, "from a hook"), feedback="shorter please", window=20_000
    )
    (ask,) = run(given, GOOD).asks
    places = [ask.text.index(text) for text in ("from the user", "from the project", "from a hook", "shorter please")]
    assert places == sorted(places) and pad(chars(ask.text)) + ask.max_tokens <= 20_000


def test_l12_an_earlier_summary_is_brought_up_to_date() -> None:
    earlier = user("s", framed("## 1. Primary request and intent\nPort it."), summary=True)
    fork, direct = run(task((earlier, *conversation(2))), BAD, GOOD).asks
    assert "merge the new into it" in fork.text and fork.entries[0] is earlier
    assert "merge the new into it" in direct.text and "--- earlier summary\n## 1. Primary request" in direct.text


def test_l12_an_answer_over_the_cap_is_shortened_not_installed() -> None:
    long = "\n\n".join(f"## {i}. Section\n" + "\n".join(f"line {j} of section {i}" for j in range(120)) for i in range(1, 10))
    made = run(task(max_tokens=600), Answer(f"<summary>{long}</summary>")).written
    assert chars(made.text) <= 600 and "line 0 of section 9" in made.text
    assert made.notes == ("shortened from about 5,726 tokens to 600",)


def test_l12_an_answer_that_its_limit_cut_off_is_asked_for_again_without_a_draft() -> None:
    cut = Answer("<analysis>a long draft</analysis><summary>## 1. Primary request\nFind the le", stop_reason="max_tokens")
    made = run(task(fork=False), cut, GOOD)
    assert "<analysis>" in made.asks[0].text and "<analysis>" not in made.asks[1].text
    assert made.written.text.startswith("Nine modules")
    spare = run(task(), cut, cut).written
    assert spare.text == f"## 1. Primary request\nFind the le\n{CUT_NOTE}"
    drafts = Answer("<analysis>a long draft that took all the room", stop_reason="max_tokens")
    assert "only a draft" in run(task(), drafts, drafts).error


# --- other models


def test_l11_the_cheap_model_is_asked_first_and_the_main_one_when_it_fails() -> None:
    gone = Rejection(why="other", message="model not found", status=404)
    usage = Usage(input=900, output=80)
    made = run(
        task(models=("small-1", "big-1"), own_model="big-1"), gone, Answer("Design doc, eight modules.", usage=usage, model="big-1-2026")
    )
    assert [(ask.model, ask.kind) for ask in made.asks] == [("small-1", "direct"), ("big-1", "fork")]
    assert made.written.notes == ("small-1 failed: model not found (404); big-1 wrote it",)
    assert (made.written.model, made.written.usages) == ("big-1-2026", (usage,))


def test_l11_no_model_is_asked_twice_under_two_names() -> None:
    given = task(models=("", "big-1", "small-1", "small-1"), own_model="big-1")
    assert names_of(given) == ["", "small-1"]
    made = run(given, answer=lambda ask: BAD)
    assert [(ask.model, ask.kind) for ask in made.asks] == [("", "fork"), ("", "direct"), ("small-1", "direct")]


def test_l8_a_model_that_will_not_answer_however_it_is_asked_is_asked_once() -> None:
    for status in (401, 403, 404):
        assert len(run(task(), Rejection(why="other", message="no", status=status)).asks) == 1


def test_t2_the_usage_of_useless_answers_is_reported_too() -> None:
    first, second = Usage(input=10, output=1), Usage(input=20, output=2)
    made = run(task(), Answer("", usage=first), Answer("Work done.", usage=second)).written
    assert made.usages == (first, second) and made.asks == 2


# --- too large


def test_l11_a_large_history_fits_a_small_window_before_it_is_sent() -> None:
    entries = conversation(16, 140)
    made = run(task(entries, window=4_000, max_output=500, max_tokens=350), GOOD)
    (ask,) = made.asks
    assert pad(chars(SYSTEM) + chars(ask.text)) + ask.max_tokens <= 4_000
    assert made.written.shortened > 0 and "Investigate the memory leak" in ask.text


def test_l11_input_and_output_share_a_small_window() -> None:
    """An output that is asked for as if the window were large is refused, and looks like an empty summary."""
    made = run(task(conversation(10, 110), window=4_000, max_output=2_000, max_tokens=320), GOOD)
    assert all(pad(chars(ask.system) + chars(ask.text)) + ask.max_tokens <= 4_000 for ask in made.asks)


def test_l7_a_refused_request_drops_the_oldest_rounds_that_cover_the_gap() -> None:
    told = Rejection(why="too_long", message="prompt is too long: 5000 tokens > 4000 maximum", status=400, actual=5_000, limit=4_000)
    made = run(task(conversation(30, 40), fork=False, window=60_000), told, GOOD)
    first, second = made.asks
    assert chars(first.text) - chars(second.text) >= 1_000
    assert made.written.unseen[:3] == ("a0", "r0", "a1") and "left out here, because of the size" in second.text


def test_l7_at_most_three_retries_none_of_them_the_same() -> None:
    made = run(task(conversation(30), fork=False), answer=lambda ask: TOO_LONG)
    assert len(made.asks) == 4 and len({ask.text for ask in made.asks}) == 4
    assert [chars(ask.text) for ask in made.asks] == sorted((chars(ask.text) for ask in made.asks), reverse=True)
    assert "prompt is too long (400)" in made.error and "tokens sent" in made.error and "in a window of 100,000" in made.error


def test_l7_talk_without_any_tool_results_is_reduced_another_way() -> None:
    entries = [user("u", "Let us talk through the architecture at length.")]
    for i in range(8):
        entries += [
            assistant(f"a{i}", f"View {i}: " + "branch queue router " * 50, api_id=f"m{i}"),
            user(f"u{i}", f"More on point {i} please."),
        ]
    made = run(task(entries, window=1_500, max_output=300, max_tokens=200), TOO_LONG, TOO_LONG, GOOD)
    assert len({ask.text for ask in made.asks}) == 3
    assert all(pad(chars(ask.system) + chars(ask.text)) + ask.max_tokens <= 1_500 for ask in made.asks)


def test_l7_less_than_two_rounds_fails_with_the_true_cause_and_the_sizes() -> None:
    made = run(task([user("u", "Explain."), assistant("a", "word " * 40)], fork=False), answer=lambda ask: TOO_LONG)
    assert len({ask.text for ask in made.asks}) == len(made.asks) <= 4
    assert "prompt is too long" in made.error and "empty" not in made.error


def test_l7_what_cannot_fit_at_all_is_said_and_not_sent() -> None:
    made = run(task(window=150, max_output=100, max_tokens=50))
    assert made.asks == [] and "does not fit its window of 150 tokens" in made.error


def test_r2_an_output_that_is_too_large_is_lowered_first() -> None:
    told = Rejection(why="output_too_large", message="exceeds", status=400, actual=97_000, limit=100_000, max_tokens=5_000)
    fork = run(task(), told, GOOD)
    assert [(ask.kind, ask.max_tokens) for ask in fork.asks] == [("fork", 5_000), ("fork", 3_000)] and fork.asks[0].text == fork.asks[
        1
    ].text
    blind = run(task(fork=False), Rejection(why="output_too_large", message="max_tokens is too large", status=400), GOOD)
    scarce = Rejection(why="output_too_large", message="exceeds", status=400, actual=99_500, limit=100_000, max_tokens=5_000)
    shorter = run(task(conversation(30, 200), fork=False), scarce, GOOD)
    assert [ask.max_tokens for ask in shorter.asks] == [5_000, 5_000] and shorter.written.unseen
    assert [ask.max_tokens for ask in blind.asks] == [5_000, 2_500] and blind.asks[0].text == blind.asks[1].text


def test_l7_a_body_over_the_limit_is_a_question_of_size_too() -> None:
    told = Rejection(why="bytes", message="Request exceeds the maximum size", status=413, actual=30_000, limit=20_000)
    made = run(task(conversation(60), fork=False), told, GOOD)
    assert 9_000 <= len(made.asks[0].text) - len(made.asks[1].text) <= 14_000


def test_w9_the_window_that_a_refusal_names_holds_from_then_on() -> None:
    told = Rejection(why="too_long", message="prompt is too long: 9000 tokens > 6000 maximum", status=400, actual=9_000, limit=6_000)
    made = run(task(conversation(40, 100), max_tokens=300, max_output=600), told, GOOD)
    direct = made.asks[1]
    assert direct.kind == "direct" and pad(chars(direct.system) + chars(direct.text)) + direct.max_tokens <= 6_000


@pytest.mark.parametrize("size", ["window", "max_output", "max_tokens"])
def test_l11_a_size_of_nothing_is_refused_by_name(size: str) -> None:
    made = run(task(**{size: 0}))
    assert made.asks == [] and "have to be positive" in made.error


# --- transient errors, cancelling


def test_l8_transient_errors_are_retried_with_a_growing_pause() -> None:
    made = run(task(), BUSY, BUSY, GOOD)
    assert made.waits == [2.0, 4.0] and made.written.asks == 3 and made.written.notes == ()
    assert len({ask.text for ask in made.asks}) == 1


def test_l8_after_three_retries_it_is_over_and_no_second_way_is_tried() -> None:
    made = run(task(), BUSY, BUSY, BUSY, BUSY)
    assert made.waits == [2.0, 4.0, 8.0] and "Overloaded (529)" in made.error


def test_l8_retry_after_is_honoured_and_a_limit_of_hours_is_a_failure_at_once() -> None:
    soon = Rejection(why="transient", message="rate limited", status=429, retry_after=21.0)
    assert run(task(), soon, GOOD).waits == [21.0]
    late = Rejection(why="transient", message="limit reached, resets in 2h", status=429)
    made = run(task(), late)
    assert made.waits == [] and "resets in 2h" in made.error
    other = run(task(models=("small-1", "")), late, GOOD)
    assert [ask.model for ask in other.asks] == ["small-1", ""]


def test_l8_a_cancel_stops_at_once() -> None:
    for replies in ([], [TOO_LONG], [BUSY]):
        flow = summarise(task())
        wanted = flow.send(None)
        for reply in replies:
            wanted = flow.send(reply)
        flow.close()
        assert wanted is not None
        with pytest.raises(StopIteration):
            flow.send(GOOD)


def test_l8_a_bad_request_is_not_sent_again() -> None:
    made = run(task(), answer=lambda ask: BAD)
    assert [ask.kind for ask in made.asks] == ["fork", "direct"] and made.waits == []


# --- whatever comes back


def size(why: Any, actual: int | None = None, limit: int | None = None, **more: Any) -> Rejection:
    return Rejection(why=why, message="too much", actual=actual, limit=limit, **more)


REPLIES = st.sampled_from(
    [
        GOOD,
        TOO_LONG,
        BUSY,
        BAD,
        None,
        Answer(""),
        Answer("", called_tool=True),
        Answer("<summary>half of", stop_reason="max_tokens"),
        Answer("word " * 4_000),
        Answer("I'm sorry, I can't help with that."),
        Answer("Step 0: looking at module 0."),
        size("too_long", 4_000, 3_000),
        size("too_long", 10**9, 10),
        size("output_too_large"),
        size("output_too_large", 900, 1_200, max_tokens=400),
        size("bytes"),
        size("bytes", 9_000, 8_000),
        Rejection(why="media", message="image"),
        Rejection(why="other", message="gone", status=404),
        Rejection(why="transient", message="x", retry_after=0.0),
        Rejection(why="transient", message="try again in 3h"),
    ]
)


@given(
    st.integers(0, 6), st.integers(0, 120), st.sampled_from([300, 1_500, 4_000, 60_000]), st.sampled_from([100, 900, 8_000]), st.booleans(),
    st.sampled_from([("",), ("small",), ("small", ""), ("", "own", "small")]), st.lists(REPLIES, max_size=40),
)  # fmt: skip
def test_l7_l8_l11_whatever_comes_back_each_request_fits_is_new_and_their_number_is_bounded(
    rounds: int, words: int, window: int, cap: int, fork: bool, models: tuple[str, ...], replies: list[Reply]
) -> None:
    given = task(conversation(rounds, words), window=window, max_output=2_000, max_tokens=cap, fork=fork, models=models, own_model="own")
    left = iter(replies)
    made = run(given, answer=lambda ask: next(left, GOOD))
    used = [*replies, *[GOOD] * len(made.asks)][: len(made.asks)]
    assert len(made.asks) <= most_asks(given)
    keys = [(ask.kind, ask.model, ask.text, ask.max_tokens) for ask in made.asks]
    for i, key in enumerate(keys):
        if i and isinstance(before := used[i - 1], Rejection) and before.why == "transient" and key == keys[i - 1]:
            continue
        assert key not in keys[:i]
    for ask in made.asks:
        assert legal(ask) == [] and ask.max_tokens > 0
        if ask.kind == "direct":
            assert pad(chars(ask.system) + chars(ask.text)) + ask.max_tokens <= window
    if isinstance(made.end, Written):
        assert made.end.text.strip() and chars(made.end.text) <= min(cap, 2_000)
        assert made.end.text != "I'm sorry, I can't help with that."
        assert made.end.text != "Step 0: looking at module 0." or rounds == 0


def test_a6_the_bound_is_reached_and_not_passed() -> None:
    given = task(models=("", "small"), policy=SummaryPolicy(max_retries=2), entries=conversation(40))
    replies: list[Reply] = []
    for model in ("own", "small"):
        if model == "own":
            replies += [Rejection(why="output_too_large", message="x"), BAD]
        replies += [BUSY, BUSY, TOO_LONG, TOO_LONG, Answer("", called_tool=True), BAD]
    made = run(given, *replies)
    assert len(made.asks) == most_asks(given) == 14 and "no usable summary" in made.error


def test_l11_a_real_session_is_summarised_within_any_window(root: Path) -> None:
    log = read_transcript(root / "examples" / "session.jsonl").conversations[0].log
    entries = tuple(log.entries())
    for window in (3_000, 20_000, 200_000):
        cap = max(100, min(8_000, window // 25))
        made = run(task(entries, window=window, max_output=32_000, max_tokens=cap, estimate=estimate_text), TOO_LONG, GOOD)
        for ask in made.asks:
            assert ask.kind == "direct" and legal(ask) == []
            assert pad(estimate_text(SYSTEM) + estimate_text(ask.text)) + ask.max_tokens <= window


def test_a6_each_name_of_the_conversations_own_model_is_asked_by_a_fork_too() -> None:
    """Two forks for the own model under either of its names, and two direct asks a model with the retries of each."""
    one = 2 * (1 + SummaryPolicy().max_retries)
    counts = [most_asks(task(models=models, own_model="own")) for models in (("",), ("own",), ("small",), ("small", "own"))]
    assert counts == [2 + one, 2 + one, one, 2 + 2 * one]
