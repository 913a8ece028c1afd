"""U2: every rule of the Messages API that gives a 400, 413, 404 or 401 gives it, with the text that the API gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic.types.image_dimensions_too_large_error import ImageDimensionsTooLargeError

from fivefold.simulator.serve import Simulator

from .asking import LONG_MARK, MARK, MODEL, OLD, TOOL, assistant, client_of, png, result, text, use, user

UNANSWERED = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: {}. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
UNEXPECTED = (
    "messages.{}: unexpected `tool_use_id` found in `tool_result` blocks: {}. "
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)
NO_PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."
NO_ENABLED = (
    '"thinking.type.{}" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" '
    "to control thinking behavior."
)
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
SEARCHED = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    with Simulator(lambda request: "ok", windows={"claude-3-5-sonnet": 8_192, "claude-sonnet-4-5": 8_192}) as sim:
        yield sim


@pytest.fixture(scope="module")
def client(sim: Simulator) -> Iterator[anthropic.Anthropic]:
    with client_of(sim) as client:
        yield client


def refusal(client: anthropic.Anthropic, messages: list[Any], *, betas: str = "", **body: Any) -> anthropic.APIStatusError:
    """The error that a request gets; the body goes out as it is given."""
    sent = {"model": MODEL, "max_tokens": 100, "messages": messages, **body}
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.post("/v1/messages", body=sent, cast_to=object, options={"headers": {"anthropic-beta": betas} if betas else {}})
    return caught.value


def message_of(error: anthropic.APIStatusError) -> str:
    assert isinstance(error.body, dict)
    return str(error.body["error"]["message"])


RULES: list[tuple[str, list[Any], dict[str, Any], str]] = [
    # section 3.1, structure
    ("unanswered", [user("a"), assistant(use("toolu_A"), use("toolu_B")), user("b")], {}, UNANSWERED.format("toolu_A, toolu_B")),
    ("half_answered", [user("a"), assistant(use("toolu_A"), use("toolu_B")), user(result("toolu_A"))], {}, UNANSWERED.format("toolu_B")),
    ("text_before_result", [user("a"), assistant(use("toolu_A")), user("x", result("toolu_A"))], {}, UNANSWERED.format("toolu_A")),
    ("unanswered_at_the_end", [user("a"), assistant(use("toolu_A"))], {}, UNANSWERED.format("toolu_A")),
    ("results_split", [user("a"), assistant(use("t1"), use("t2")), user(result("t1")), user(result("t2"))], {}, UNANSWERED.format("t2")),
    ("orphan", [user(result("toolu_X"))], {}, UNEXPECTED.format("0.content.0", "toolu_X")),
    (
        "orphan_later",
        [user("a"), assistant(use("t1")), user(result("t1")), assistant("b"), user("c", result("t1"))],
        {},
        UNEXPECTED.format("4.content.1", "t1"),
    ),
    (
        "same_id",
        [user("a"), assistant(use("t1")), user(result("t1")), assistant("b", use("t1")), user(result("t1"))],
        {},
        "messages.3.content.1: `tool_use` ids must be unique",
    ),
    (
        "search_without_result",
        [user("a"), assistant(SEARCH), user("b")],
        {},
        "`web_search` tool use with id `srvtoolu_1` was found without a corresponding `web_search_tool_result` block",
    ),
    (
        "mixed_turn_with_text",
        [user("a"), assistant(SEARCH, use("t1")), user(result("t1"), "and")],
        {},
        "`web_search` tool use with id `srvtoolu_1` was found without a corresponding `web_search_tool_result` block",
    ),
    (
        "deferred_without_tool",
        [user("a"), assistant(SEARCH)],
        {"tools": [TOOL]},
        "`web_search` tool use with id `srvtoolu_1` was found, but no `web_search` tool was provided",
    ),
    (
        "orphan_server_result",
        [user("a"), assistant({"type": "advisor_tool_result", "tool_use_id": "srvtoolu_9", "content": []}), user("b")],
        {},
        "messages.1.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_9. "
        "Each `advisor_tool_result` block must have a corresponding `server_tool_use` block before it.",
    ),
    ("empty_text", [user(text(""))], {}, "messages: text content blocks must be non-empty"),
    ("blank_text", [user(text(" \n"))], {}, "messages: text content blocks must contain non-whitespace text"),
    ("blank_string", [user("a"), assistant("b"), user("  ")], {}, "messages: text content blocks must contain non-whitespace text"),
    (
        "empty_message",
        [user(""), assistant("b"), user("c")],
        {},
        "messages.0: all messages must have non-empty content except for the optional final assistant message",
    ),
    (
        "trailing_space",
        [user("a"), assistant("b ")],
        {"model": OLD},
        "messages: final assistant content cannot end with trailing whitespace",
    ),
    ("prefill", [user("a"), assistant("b")], {}, NO_PREFILL),
    (
        "five_marks",
        [user(*(text(f"a{i}", **MARK) for i in range(4)))],
        {"system": [text("s", **MARK)]},
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    (
        "four_marks_and_automatic",
        [user(*(text(f"a{i}", **MARK) for i in range(4)), "end")],
        MARK,
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    (
        "mark_on_empty_text",
        [user("a"), assistant("b"), user(text("c"), text("", **MARK))],
        {},
        "messages.2.content.1.text: cache_control cannot be set for empty text blocks",
    ),
    (
        "long_mark_behind_short",
        [user(text("a", **LONG_MARK))],
        {"system": [text("s", **MARK)]},
        "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
        "Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
    ),
    (
        "automatic_of_other_life",
        [user(text("a", **MARK))],
        LONG_MARK,
        "cache_control: the last block already has a cache_control with a different ttl",
    ),
    ("unknown_field", [user("a")], {"frobnicate": 1}, "frobnicate: Extra inputs are not permitted"),
    ("unknown_block_key", [user(text("a", frobnicate=1))], {}, "messages.0.content.0.text.frobnicate: Extra inputs are not permitted"),
    ("unknown_message_key", [{**user("a"), "id": "u1"}], {}, "messages.0.id: Extra inputs are not permitted"),
    (
        "mark_on_thinking",
        [user("a"), assistant({"type": "thinking", "thinking": "", "signature": "x", **MARK}), user("b")],
        {},
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    ),
    (
        "assistant_first",
        [assistant("a"), user("b")],
        {},
        "messages: the first message must use the user role, or hold only a compaction block",
    ),
    ("no_messages", [], {}, "messages: at least one message is required"),
    (
        "forced_tool",
        [user("a")],
        {"tools": [TOOL], "tool_choice": {"type": "any"}},
        'tool_choice: type "tool" and "any" are not supported for this model.',
    ),
    ("budget", [user("a")], {"thinking": {"type": "enabled", "budget_tokens": 2000}}, NO_ENABLED.format("enabled")),
    ("thinking_off", [user("a")], {"thinking": {"type": "disabled"}}, NO_ENABLED.format("disabled")),
    ("adaptive", [user("a")], {"model": OLD, "thinking": {"type": "adaptive"}}, "adaptive thinking is not supported on this model"),
    # section 1.0, the API version that SDK 2 sends
    ("temperature", [user("a")], {"temperature": 1.0}, "temperature: Extra inputs are not permitted"),
    (
        "document_of_assistant",
        [user("a"), assistant(DOCUMENT), user("b")],
        {},
        "messages.1.content.0: `document` blocks are not permitted in `assistant` messages",
    ),
    (
        "cited_user_text",
        [user(text("a", citations=[{"type": "char_location"}]))],
        {},
        "messages.0.content.0.text.citations: `citations` are not permitted in `user` messages",
    ),
    # section 1.3
    (
        "system_behind_assistant",
        [user("a"), assistant("b"), {"role": "system", "content": "c"}],
        {},
        "messages.2: a `system` message must follow a user turn, or an assistant turn that ends in a server tool result, "
        "and must be last or be followed by an assistant turn",
    ),
    (
        "system_on_old",
        [user("a"), {"role": "system", "content": "c"}],
        {"model": OLD},
        "messages.1.role: Input should be 'user' or 'assistant'",
    ),
    # section 1.1, what needs a beta header
    ("edits_without_beta", [user("a")], {"context_management": {"edits": []}}, "context_management: Extra inputs are not permitted"),
    (
        "compaction_without_beta",
        [user("a")],
        {"compaction": {"type": "summarize"}},
        "compaction: the `compaction` parameter requires anthropic-beta: compact-2026-09-04",
    ),
    (
        "block_without_beta",
        [assistant({"type": "compaction", "content": "s", "signature": "x"}), user("a")],
        {},
        "messages.0.content.0: 'compaction' is not one of the expected content block types",
    ),
    # sizes
    (
        "max_output",
        [user("a")],
        {"max_tokens": 200_000},
        "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens for claude-opus-5-5",
    ),
    ("too_long", [user(" word" * 9_000)], {"model": "claude-sonnet-4-5"}, "prompt is too long: 9004 tokens > 8192 maximum"),
    (
        "input_and_output",
        [user(" word" * 8_000)],
        {"model": "claude-3-5-sonnet", "max_tokens": 1_000},
        "input length and `max_tokens` exceed context limit: 8004 + 1000 > 8192, decrease input length or `max_tokens` and try again",
    ),
    (
        "large_side",
        [user(png(8001, 10))],
        {},
        "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels",
    ),
    (
        "large_side_of_many",
        [user("a"), assistant(use("t1")), user(result("t1", [png(2001, 10), *[png(10, 10)] * 20]))],
        {},
        "messages.2.content.0.tool_result.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed "
        "size for many-image requests: 2000 pixels",
    ),
    (
        "large_image",
        [user("a", png(10, 10, chars=10_600_000))],
        {},
        "messages.0.content.1.image.source.base64: image exceeds 10 MB maximum: 10600000 bytes > 10485760 bytes",
    ),
    (
        "many_images",
        [user(*[png(10, 10)] * 101)],
        {"model": OLD},
        "messages: Too much media: 0 document pages + 101 images > 100",
    ),
]


@pytest.mark.parametrize(("messages", "body", "expected"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_u2_a_request_that_breaks_a_rule_gets_the_text_of_the_api(
    client: anthropic.Anthropic, messages: list[Any], body: dict[str, Any], expected: str
) -> None:
    error = refusal(client, messages, **body)
    assert (error.status_code, error.type) == (400, "invalid_request_error")
    assert message_of(error) == expected


LEGAL: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("plain", [user("a")], {}),
    ("answered", [user("a"), assistant("b", use("t1"), use("t2")), user(result("t1"), result("t2", []), "go on")], {"tools": [TOOL]}),
    ("result_without_content", [user("a"), assistant(use("t1")), user({"type": "tool_result", "tool_use_id": "t1"})], {}),
    ("two_users_in_a_row", [user("a"), user("b"), assistant("c"), assistant("d"), user("e")], {}),
    ("prefill_on_old", [user("a"), assistant("b")], {"model": OLD}),
    ("empty_last_assistant_on_old", [user("a"), {"role": "assistant", "content": ""}], {"model": OLD}),
    ("searched", [user("a"), assistant(SEARCH, SEARCHED, "b"), user("c")], {}),
    ("paused_search", [user("a"), assistant(SEARCH)], {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    ("mixed_turn", [user("a"), assistant(SEARCH, use("t1")), user(result("t1"))], {"tools": [{"type": "x", "name": "web_search"}, TOOL]}),
    ("system_message", [user("a"), {"role": "system", "content": "c"}, assistant("d"), user("e")], {}),
    ("four_marks", [user(*(text(f"a{i}", **MARK) for i in range(4)))], MARK),
    ("long_mark_first", [user(text("a", **MARK))], {"system": [text("s", **LONG_MARK)]}),
    ("twenty_images", [user(*[png(2001, 10)] * 20)], {}),
    ("forced_tool_on_old", [user("a")], {"model": OLD, "tools": [TOOL], "tool_choice": {"type": "any"}}),
    ("input_and_output_from_4_5_on", [user(" word" * 8_000)], {"model": "claude-sonnet-4-5", "max_tokens": 1_000}),
]


@pytest.mark.parametrize(("messages", "body"), [case[1:] for case in LEGAL], ids=[case[0] for case in LEGAL])
def test_u2_a_legal_request_is_answered(client: anthropic.Anthropic, messages: list[Any], body: dict[str, Any]) -> None:
    answer: Any = client.post(
        "/v1/messages", body={"model": MODEL, "max_tokens": 100, "messages": messages, **body}, cast_to=anthropic.types.Message
    )
    assert answer.content[0].text == "ok"


def test_u2_a_body_over_32_mb_is_refused_as_too_large(client: anthropic.Anthropic) -> None:
    error = refusal(client, [user("x" * 32_000_001)])
    assert isinstance(error, anthropic.RequestTooLargeError)
    assert message_of(error) == "Request exceeds the maximum size"


def test_u2_image_sides_name_their_paths(client: anthropic.Anthropic) -> None:
    """The structured details of section 3.2, so that a client can take out exactly those images."""
    error = refusal(client, [user("a", png(10, 9000), png(10, 10), png(9000, 10))])
    assert isinstance(error, ImageDimensionsTooLargeError)
    assert error.details is not None and error.details.max_side_length_pixels == 8000
    assert error.details.paths == ["messages.0.content.1", "messages.0.content.3"]


def test_u2_an_unknown_model_is_not_found(client: anthropic.Anthropic) -> None:
    error = refusal(client, [user("a")], model="claude-nobody-9")
    assert (error.status_code, error.type, message_of(error)) == (404, "not_found_error", "model: claude-nobody-9")


def test_u2_an_endpoint_that_is_not_simulated_is_not_found(client: anthropic.Anthropic, sim: Simulator) -> None:
    with pytest.raises(anthropic.NotFoundError, match="Not found: /v1/messages/batches"):
        client.messages.batches.list()
    assert (sim.journal.records[-1].api, sim.journal.records[-1].status) == ("unknown", 404)


def test_u2_errors_come_in_the_api_s_envelope_with_a_request_id(client: anthropic.Anthropic) -> None:
    error = refusal(client, [])
    assert error.body == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "messages: at least one message is required"},
        "request_id": error.request_id,
    }
    assert error.response.headers["request-id"] == error.request_id


def test_u2_a_key_that_is_not_one_of_the_account_is_refused() -> None:
    with Simulator(keys=("right",)) as sim, client_of(sim) as client:
        error = refusal(client, [user("a")])
    assert isinstance(error, anthropic.AuthenticationError)
    assert message_of(error) == "invalid x-api-key"


def test_u2_an_older_api_version_takes_temperature(client: anthropic.Anthropic) -> None:
    answer: Any = client.post(
        "/v1/messages",
        body={"model": MODEL, "max_tokens": 100, "messages": [user("a")], "temperature": 1.0},
        cast_to=anthropic.types.Message,
        options={"headers": {"anthropic-version": "2023-06-01"}},
    )
    assert answer.content[0].text == "ok"


@pytest.mark.parametrize(
    ("messages", "body", "expected"),
    [
        ([user("a")], {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search"),
        ([user({"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}})], {}, "`url` sources"),
        ([user("a")], {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "bash"}}, "tool_choice: type"),
        ([user("a")], {"max_tokens": 5}, "max_tokens: Extra inputs are not permitted"),
        ([user("a"), assistant(use("t1")), user("b")], {}, "`tool_use` ids were found without"),
    ],
)
def test_u2_count_tokens_refuses_what_it_cannot_count(
    client: anthropic.Anthropic, messages: list[Any], body: dict[str, Any], expected: str
) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.post("/v1/messages/count_tokens", body={"model": MODEL, "messages": messages, **body}, cast_to=object)
    assert expected in message_of(caught.value)
