"""I6: unknown blocks and fields pass through untouched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.messages import (
    Compaction,
    Document,
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
    decode_content,
    encode_block,
    encode_message,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
JSONS: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3), max_leaves=6
)
KINDS = [
    "text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document", "server_tool_use", "mcp_tool_use",
    "web_search_tool_result", "mcp_tool_result", "compaction", "search_result", "made_up",
]  # fmt: skip
KEYS = [
    "text",
    "thinking",
    "signature",
    "data",
    "id",
    "name",
    "input",
    "tool_use_id",
    "content",
    "is_error",
    "source",
    "cache_control",
    "citations",
    "new_key",
]
BLOCKS = st.fixed_dictionaries({"type": st.sampled_from(KINDS)}, optional={key: JSONS | st.text(max_size=5) for key in KEYS})


@given(BLOCKS | JSONS)
def test_i6_every_object_goes_out_as_it_came(data: Any) -> None:
    assert encode_block(decode_block(data)) == data


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"type": "text", "text": "a", "citations": [1]}, Text),
        ({"type": "thinking", "thinking": "", "signature": "s"}, Thinking),
        ({"type": "redacted_thinking", "data": "x"}, RedactedThinking),
        ({"type": "tool_use", "id": "t", "name": "Read", "input": {"a": 1}}, ToolUse),
        ({"type": "tool_result", "tool_use_id": "t"}, ToolResult),
        (
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "text", "text": "x"}, {"type": "image", "source": {"type": "url", "url": "u"}}],
                "is_error": False,
            },
            ToolResult,
        ),
        ({"type": "image", "source": {"type": "base64"}}, Image),
        ({"type": "document", "source": {"type": "base64"}, "title": "t"}, Document),
        ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, ServerToolUse),
        ({"type": "mcp_tool_use", "id": "s", "name": "x", "input": {}, "server_name": "m"}, ServerToolUse),
        ({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}, ServerToolResult),
        ({"type": "compaction", "content": None}, Compaction),
        ({"type": "container_upload", "file_id": "f"}, Opaque),
    ],
)
def test_i6_known_kinds_are_typed(data: Any, kind: type) -> None:
    block = decode_block(data)
    assert type(block) is kind
    assert encode_block(block) == data


@given(st.text() | st.lists(BLOCKS, max_size=4))
def test_i6_messages_go_out_as_they_came(content: Any) -> None:
    blocks, bare = decode_content(content)
    assert encode_message(Message("user", blocks, bare, {"ts": 1})) == {"role": "user", "content": content, "ts": 1}


def test_i6_a_result_that_says_it_is_no_error_is_none() -> None:
    """The quick way of decoding takes four keys only where the fourth says that it is an error."""
    data = {"type": "tool_result", "tool_use_id": "t", "content": "x", "is_error": False}
    block = decode_block(data)
    assert isinstance(block, ToolResult) and not block.is_error and encode_block(block) == data
