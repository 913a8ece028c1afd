"""What is taken from an answer, and what is not (L3, L8, L12)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.rejection import Rejection
from fivefold.summarize.parse import (
    DRAFT_ONLY,
    EMPTY,
    ERROR_TEXT,
    NO_SUMMARY,
    REFUSAL,
    REFUSED_BY_PROVIDER,
    TOOL_CALL,
    capped,
    judged,
    parsed,
    pause_before,
    shortened,
)

# --- drafts

CLOSED = (
    "<analysis>secret draft</analysis>",
    "<analysis>secret <analysis>inner draft</analysis> draft</analysis>",
    "<ANALYSIS>\nsecret draft\n</ANALYSIS >\n",
    "<thinking>secret</thinking>\n<analysis>draft with a <summary> of it</analysis>",
    "secret draft</analysis>",
    "Sure, here it is:\n<analysis>secret draft</analysis>",
)
OPEN = ("<analysis>secret draft\n", "<analysis>secret <analysis>draft</analysis> secret\n", "<think>secret draft ")
TAGGED = (
    "<summary>\nWork done.\n</summary>",
    "<summary>Work done.",
    "<summary><summary>Work done.</summary></summary>",
    "<Summary>Work done.</SUMMARY>",
)
BARE = ("Work done.", "\n\nWork done.\n")


@pytest.mark.parametrize(("draft", "summary"), [*product(CLOSED, TAGGED + BARE), *product(OPEN, TAGGED[:1] + TAGGED[3:])])
def test_l3_nothing_of_a_draft_leaks_and_the_summary_is_found(draft: str, summary: str) -> None:
    assert parsed(draft + summary) == ("Work done.", "")


@pytest.mark.parametrize(
    "answer",
    [
        *CLOSED,
        *OPEN,
        "<analysis>I will now write the <summary> with all of it",
        "<summary><analysis>secret draft",
        "<summary></summary><analysis>secret",
    ],
)
def test_l3_only_a_draft_is_a_failure(answer: str) -> None:
    assert parsed(answer) == ("", DRAFT_ONLY)


@pytest.mark.parametrize("answer", ["", "   \n", "<summary></summary>", "<summary>\n</summary>\n", "…", "N/A", "None.", "```\n\n```"])
def test_l3_an_empty_summary_is_a_failure(answer: str) -> None:
    assert parsed(answer) == ("", EMPTY)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("Ticket 12: nine modules read.", "Ticket 12: nine modules read."),
        ("<summary>one</summary> and\n<summary>two, which is longer</summary>", "two, which is longer"),
        ("<summary>The parser reads `<analysis>` tags.</summary>", "The parser reads `<analysis>` tags."),
        ("<summary>a<analysis>secret</analysis>b</summary>", "ab"),
        ("<analysis>draft <summary>Work done.</summary></analysis>", "Work done."),
        ("**Analysis:**\nsecret draft\n\n**Summary:**\nWork done.", "Work done."),
        ("```markdown\n## 1. Primary request\nWork\n```", "## 1. Primary request\nWork"),
        ("preamble <summary>Work done.</summary> Anything else?", "Work done."),
        ("Work done.</summary>", "Work done."),
    ],
)
def test_l3_malformed_answers_give_what_is_a_summary_in_them(answer: str, text: str) -> None:
    assert parsed(answer) == (text, "")


PIECES = ("<analysis>", "</analysis>", "<summary>", "</summary>", "<think>", "</think>", "`", "\n", "<summary x=1>", " word ", "<", "</")


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_l3_no_tag_survives_and_parsing_again_changes_nothing(answer: str) -> None:
    text, fault = parsed(answer)
    assert bool(text) != bool(fault)
    for tag in ("<analysis>", "</analysis>", "<summary>", "</summary>", "<think>"):
        assert tag not in text.replace(f"`{tag}", "")
    if not fault:
        assert parsed(text).text == text


@given(
    st.lists(st.sampled_from(["<analysis>", "</analysis>", "<summary>"]), max_size=6),
    st.lists(st.sampled_from(["<analysis>", "\n"]), max_size=3),
)
def test_l3_what_stands_between_a_drafts_own_tags_never_leaks(before: list[str], between: list[str]) -> None:
    answer = f"{''.join(before)}<analysis>{''.join(between)}secret</analysis>"
    assert "secret" not in parsed(answer).text


# --- errors and refusals


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, there is no conversation to summarise.",
        "I’m sorry, but I can't help with that.",
        "I apologize, but I do not have access to the earlier messages.",
        "There is no conversation to summarize.",
        "No conversation was provided.",
        "Please provide the conversation that I should summarize.",
        "As an AI, I cannot do this.",
        "I cannot create a summary of this conversation.",
        "I don't have any previous conversation to work with.",
        "Unfortunately, I cannot summarise this.",
        "抱歉，我无法总结这段对话。",
        "申し訳ありませんが、要約できません。",
        "죄송합니다. 요약할 수 없습니다.",
        "Es tut mir leid, aber ich kann das nicht zusammenfassen.",
        "Je suis désolé, je ne peux pas.",
        "Lo siento, no puedo resumir esta conversación.",
        "Desculpe, não posso ajudar com isso.",
        "Mi dispiace, non posso riassumere.",
        "Извините, я не могу составить сводку.",
        "<summary>I'm sorry, I can't help with that.</summary>",
    ],
)
def test_l3_a_refusal_is_no_summary(answer: str) -> None:
    assert parsed(answer) == ("", REFUSAL)


@pytest.mark.parametrize(
    "answer",
    [
        "Error generating summary: connection closed",
        "Error: 429 rate limit exceeded",
        "API Error: 529 Overloaded",
        "An error occurred while generating the summary.",
        "Request timed out.",
        "Connection closed before the response was complete.",
        "Internal server error",
        "503 Service Unavailable",
        "Failed to generate summary",
        '{"type": "error", "error": {"type": "overloaded_error"}}',
        '{"error": "boom"}',
        "<!DOCTYPE html><html><body>Bad gateway</body></html>",
        "Traceback (most recent call last):\n  File x",
        "错误：连接超时",
        "生成摘要失败",
        "Fehler: Verbindung zum Server getrennt",
    ],
)
def test_l3_the_text_of_an_error_is_no_summary(answer: str) -> None:
    assert parsed(answer) == ("", ERROR_TEXT)


@pytest.mark.parametrize(
    "answer",
    [
        "q1 answered.",
        "more",
        "Error handling was refactored in api/server.py.",
        "Fixed the error in the server start.",
        "Errors: none. Server runs.",
        "The request failed with 500; the cause is the proxy.",
        "Request handling moved to server.py; tests pass.",
        "Connection closed handling was added to the client.",
        "I cannot reproduce the crash; nine modules read.",
        "I could not run the migration: no access to the database.",
        "Unable to write the file: disk full. Nine modules read.",
        "Server errors 500 are logged now.",
        "无法完成部署，因为缺少权限。",
        "The user said sorry for the delay.",
        "## 1. Primary request and intent\nI'm sorry was the last word.",
        "Sorry handling aside:\n- the API error is fixed\n- tests pass",
        "I'm sorry " + "and so on with a real and long account of the work that was done in the end. " * 25,
    ],
)
def test_l3_a_real_summary_may_speak_of_errors_and_of_what_failed(answer: str) -> None:
    text, fault = parsed(answer)
    assert (text, fault) == (answer.strip(), "")


# --- answers with their circumstances


def test_l3_an_earlier_answer_is_not_taken_for_the_summary() -> None:
    said = ["Here are  two\nsites.", "Done."]
    assert judged("Here are two sites.", "end_turn", False, said) == ("", NO_SUMMARY)
    assert judged("Here are two sites, and more.", "end_turn", False, said).text


def test_l3_a_stop_by_the_providers_filter_is_a_refusal() -> None:
    assert judged("Some text.", "refusal", False, []) == ("", REFUSED_BY_PROVIDER)
    assert judged("Some text.", "content_filter", False, []).fault


def test_l4_beside_a_tool_call_only_a_clear_summary_counts() -> None:
    assert judged("", "tool_use", True, []) == ("", TOOL_CALL)
    assert judged("Let me look at the file first.", "tool_use", True, []) == ("", TOOL_CALL)
    assert judged("<summary>Work done.</summary>", "tool_use", True, []) == ("Work done.", "")


def transient(message: str = "Overloaded", **more: float) -> Rejection:
    return Rejection(why="transient", message=message, status=529, **more)  # type: ignore[arg-type]


def test_l8_pauses_double_and_retry_after_is_honoured() -> None:
    assert [pause_before(repeats, transient()) for repeats in range(4)] == [2.0, 4.0, 8.0, 16.0]
    assert pause_before(0, transient(retry_after=7.5)) == 7.5
    assert pause_before(2, transient("rate limited, try again in 20s")) == 20.0
    assert pause_before(0, transient("Please retry in 1.5 minutes")) is None


def test_l8_who_is_told_to_come_back_in_two_hours_does_not_wait() -> None:
    assert pause_before(0, transient("limit reached, resets in 2h")) is None
    assert pause_before(0, transient(retry_after=3_600)) is None
    assert pause_before(0, Rejection(why="other", message="bad request", status=400)) is None


# --- size


def words(text: str) -> float:
    return float(len(text.split()))


SECTIONS = "\n\n".join(
    f"## {number}. Title\n" + "\n".join(f"line {line} of {number} says something" for line in range(count))
    for number, count in ((1, 2), (2, 60), (3, 3), (9, 2))
)


def test_l12_the_longest_section_is_cut_at_a_line_and_the_last_ones_stay() -> None:
    text = capped(SECTIONS, 150, words)
    assert words(text) <= 150
    assert "line 1 of 1 says something" in text and text.endswith("line 1 of 9 says something")
    assert "line 0 of 2 says something" in text and "line 59 of 2" not in text
    assert "more lines left out: over the size limit]" in text
    assert all(line.endswith("something") for line in text.split("\n") if line.startswith("line"))


def test_l12_a_text_without_sections_keeps_its_start_and_its_end() -> None:
    text = capped("\n".join(f"line number {i} of the text" for i in range(200)), 100, words)
    assert words(text) <= 100
    assert text.startswith("line number 0 of") and text.endswith("line number 199 of the text")


def test_l12_what_is_small_enough_is_not_touched() -> None:
    assert capped(SECTIONS, words(SECTIONS), words) == SECTIONS


@given(
    st.lists(st.sampled_from(["## 1. A\n", "## 2. B\n", "x" * 30 + "\n", "word ", "\n", "漢字" * 20]), max_size=60).map("".join),
    st.integers(20, 200),
)
def test_l12_no_summary_is_over_the_cap(text: str, most: int) -> None:
    def estimate(text: str) -> float:
        return len(text) / 4

    assert estimate(capped(text, most, estimate)) <= most


@given(st.text(alphabet="ab \n漢", max_size=400), st.integers(0, 400))
def test_l7_a_shortened_text_is_start_and_end_and_says_what_is_missing(text: str, chars: int) -> None:
    short = shortened(text, chars)
    assert len(short) <= len(text)
    if short != text:
        head, tail = short.split("[…")[0].rstrip("\n"), short.rsplit("…]")[-1].lstrip("\n")
        assert text.startswith(head) and text.endswith(tail) and "characters left out" in short
        assert len(head) + len(tail) <= chars
