"""What names a message for callers that send everything at every call."""

from __future__ import annotations

from typing import Any

import pytest

from fivefold.core.fingerprint import digests, identity

MARK = {"type": "ephemeral"}
TEXT = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    "same",
    [
        {"content": "hello", "role": "user"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {"role": "user", "content": [{"text": "hello", "type": "text", "cache_control": MARK}]},
    ],
)
def test_moved_marks_and_a_list_of_one_text_are_the_same_message(same: Any) -> None:
    assert identity(same) == identity(TEXT)


def test_inside_a_result_too() -> None:
    def result(content: Any) -> Any:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": content}]}

    assert identity(result("x")) == identity(result([{"type": "text", "text": "x", "cache_control": MARK}]))


@pytest.mark.parametrize(
    "other",
    [
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "hello "},
        {"role": "user", "content": [{"type": "text", "text": "hello", "citations": []}]},
        {"role": "user", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]},
        {"role": "user", "content": "hello", "name": "x"},
    ],
)
def test_all_else_counts(other: Any) -> None:
    assert identity(other) != identity(TEXT)


def test_a_mark_as_an_argument_of_a_call_is_no_mark() -> None:
    """A tool's own input may have a key of that name: it is left out of the name, and nothing else of the input is."""
    call = {"type": "tool_use", "id": "t", "name": "set", "input": {"cache_control": 1, "path": "a"}}
    assert b'"path":"a"' in identity({"role": "assistant", "content": [call]})


def test_a_digest_names_the_whole_history() -> None:
    one, two = {"role": "user", "content": "1"}, {"role": "user", "content": "2"}
    both, first, twice = list(digests([one, two])), list(digests([one])), list(digests([two, two]))
    assert both[0] == first[0] and both[1] != twice[1]
    assert len(set(digests([one, one, one]))) == 3
