"""V2: what is an overflow, of what, and by how much; R10: overflows that are no error. The wordings are the providers' own."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.messages import Object
from fivefold.core.rejection import Rejection, Why
from fivefold.providers.overflow import MAX_CHARS, classify, classify_stop

TOO_LONG: list[tuple[int | None, str, int | None, int | None]] = [
    # one request, refused in a dozen ways
    (400, "prompt is too long: 205030 tokens > 200000 maximum", 205_030, 200_000),
    (400, "This model's maximum context length is 131072 tokens. However, you requested 138956 tokens", 138_956, 131_072),
    (400, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens.", 509_178, 272_000),
    (400, "The input token count (1058724) exceeds the maximum number of tokens allowed (1048576).", 1_058_724, 1_048_576),
    (400, "The input token count exceeds the maximum number of tokens allowed (1048576).", None, 1_048_576),
    (400, "prompt tokens (400007) exceed model maximum (278528) for model-x", 400_007, 278_528),
    (400, "Prompt contains 140000 tokens, too large for model with 131072 maximum context length", 140_000, 131_072),
    (400, "The total length of all messages is too long.", None, None),
    (400, "request (124071 tokens) exceeds the available context size (123904 tokens), try increasing it", 124_071, 123_904),
    (400, "Input is too long for requested model.", None, None),
    # the table of the facts
    (400, "prompt is too long: 200100 tokens > 199999 maximum", 200_100, 199_999),
    (400, "Prompt is too long", None, None),
    (403, "capability_rejected: prompt_too_long", None, None),
    (400, "prompt token count of 140231 exceeds the limit of 128000", 140_231, 128_000),
    (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens.", 8_227, 8_192),
    (None, "Your input exceeds the context window of this model. Please adjust your input and try again.", None, None),
    (400, "Requested token count exceeds the model's maximum context length of 131,072 tokens", None, 131_072),
    (400, "Input length (265330) exceeds model's maximum context length (262144).", 265_330, 262_144),
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 537_812, 131_072),
    (413, "Please reduce the length of the messages or completion.", None, None),
    (400, "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 65_673, 32_768),
    (400, "The input (210000 tokens) is longer than the model's context length (200000 tokens).", 210_000, 200_000),
    (
        400,
        "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of text input).",
        42_832,
        32_768,
    ),
    (400, "Input length 140000 exceeds the maximum allowed input length of 131040 tokens.", 140_000, 131_040),
    (400, "The number of tokens to keep from the initial prompt (9800) is greater than the context length (8192).", 9_800, 8_192),
    (400, "tokens to keep from the initial prompt is greater than the context length", None, None),
    (400, "prompt too long; exceeded max context length by 2100 tokens", None, None),
    (413, "Current length is 8315 while limit is 8192", 8_315, 8_192),
    (400, "Your request exceeded model token limit: 262144 (requested: 300000)", 300_000, 262_144),
    (400, "invalid params, context window exceeds limit (2013)", None, None),
    (400, "400 status code (no body)", None, None),
    # gateways, other servers, other languages
    (400, "Too many input tokens. Max input tokens: 8192, request input token count: 8800", 8_800, 8_192),
    (400, "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 9999.", 9_999, 4_081),
    (400, "Input Tokens Exceeded: Number of input tokens exceeds maximum length.", None, None),
    (400, "The prompt is too long: 200128, model maximum context length: 131072", 200_128, 131_072),
    (400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 202745]", None, 202_745),
    (400, "Prompt has 32,769 tokens, but the configured context size is 32,768 tokens", 32_769, 32_768),
    (400, "Model context window is 128k tokens, you requested 256k tokens", 256_000, 128_000),
    (400, "max_tokens must be at least 1, got -1024", None, None),
    (500, "This model's maximum context length is 131072 tokens. However, you requested 138956 tokens", 138_956, 131_072),
    (400, "上下文长度超出模型最大限制", None, None),
    (400, "错误：输入过长，请减少输入", None, None),
    # of the same kind, from nowhere
    (400, "Conversation of 150_000 tokens is over the 128_000 token limit of this deployment", 150_000, 128_000),
    (400, "The message history is too long for the selected model (limit: 32768 tokens)", None, 32_768),
    (422, "number of tokens in request (45000) is larger than allowed (32000)", 45_000, 32_000),
    (400, "Estimated prompt size 1,234,567 tokens surpasses the allowed 1,000,000", 1_234_567, 1_000_000),
    (400, "Your conversation is 12000 tokens over the model's limit of 200000 tokens", 212_000, 200_000),
    (400, "chat history exceeds 128000 tokens", None, 128_000),
    (400, "This model's maximum context length is 8192 tokens. Please remove 500 tokens from your prompt.", None, 8_192),
    (400, "Prompt length (9000) must be less than max context (8192)", 9_000, 8_192),
]

BOTH: list[tuple[str, Why, int | None, int | None, int | None]] = [
    # message, what it is, input, window, output asked for
    (
        "input length and `max_tokens` exceed context limit: 196758 + 8192 > 200000, decrease input length or `max_tokens` and try again",
        "output_too_large", 196_758, 200_000, 8_192,
    ),
    (
        "This model's maximum context length is 8192 tokens. However, you requested 8213 tokens (6683 in the messages, 730 in the "
        "functions, and 800 in the completion). Please reduce the length of the messages, functions, or completion.",
        "output_too_large", 7_413, 8_192, 800,
    ),
    (
        "This model's maximum context length is 65536 tokens. However, you requested 72814 tokens (68718 in the messages, 4096 in the "
        "completion). Please reduce the length of the messages or completion.",
        "too_long", 68_718, 65_536, None,
    ),
    (
        "This model's maximum context length is 4097 tokens, however you requested 4130 tokens (130 in your prompt; 4000 for the "
        "completion).",
        "output_too_large", 130, 4_097, 4_000,
    ),
    (
        "This endpoint's maximum context length is 163840 tokens. However, you requested about 172900 tokens (4429 of text input, 4631 of "
        "tool input, 163840 in the output). Please reduce the length of either one",
        "output_too_large", 9_060, 163_840, 163_840,
    ),
    (
        "Requested token count exceeds the model's maximum context length of 163840 tokens. You requested a total of 183491 tokens: 19651 "
        "tokens from the input messages and 163840 tokens for the completion.",
        "output_too_large", 19_651, 163_840, 163_840,
    ),
    (
        "This model's maximum context length is 131072 tokens. However, you requested 8192 output tokens and your prompt contains at least "
        "122881 input tokens, for a total of at least 131073 tokens.",
        "output_too_large", 122_881, 131_072, 8_192,
    ),
    (
        "You passed 98305 input tokens and requested 32768 output tokens. However, the model's context length is only 131072 tokens, "
        "resulting in a maximum input length of 98304 tokens. (parameter=input_tokens, value=98305)",
        "output_too_large", 98_305, 131_072, 32_768,
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context length is 4096 tokens and your request "
        "has 2778 input tokens (8000 > 4096 - 2778). None",
        "output_too_large", 2_778, 4_096, 8_000,
    ),
    (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 1512. Given: 603 `inputs` tokens and 1024 `max_new_tokens`",
        "output_too_large", 603, 1_512, 1_024,
    ),
    ("prompt (120000 tokens) plus max_tokens (16000) exceeds the context length 131072", "output_too_large", 120_000, 131_072, 16_000),
    ("max_tokens is too large: input + max_tokens exceed 4000", "output_too_large", None, 4_000, None),
]  # fmt: skip

BYTES = [
    (413, "Request exceeds the maximum size", None, None),
    (413, "", None, None),
    (413, "413 status code (no body)", None, None),
    (413, "<html><head><title>413 Request Entity Too Large</title></head></html>", None, None),
    (400, "Request payload size exceeds the limit: 20971520 bytes.", None, 20_971_520),
    (400, "request body is too large: 41000000 bytes > 33554432 bytes", 41_000_000, 33_554_432),
]

MEDIA = [
    (400, "image exceeds 5 MB maximum"),
    (400, "too many images and documents: 23 + 0 > 20"),
    (400, "messages.1.content.22.pdf.source.base64.data: A maximum of 600 PDF pages may be provided."),
    (400, "At most 30 image(s) may be provided in one prompt."),
    (400, "Image exceeds max pixels allowed."),
    (400, "Could not process image"),
    (400, "the image was specified using the image/png media type, but the image appears to be a image/jpeg image"),
    (413, "image too large"),
]

TRANSIENT = [
    (429, ""),
    (429, "This request would exceed your organization's rate limit of 40,000 input tokens per minute"),
    (429, "prompt is too long: 205030 tokens > 200000 maximum"),
    (413, "Request too large on tokens per minute (TPM): Limit 6000, Requested 7500, please reduce your message size and try again."),
    (400, "ThrottlingException: Too many tokens, please wait before trying again."),
    (400, "rate limit exceeded: 250000 tokens > 200000 tokens"),
    (529, "Overloaded"),
    (500, "Internal server error"),
    (503, "The model is overloaded: too many tokens in flight"),
    (200, "Overloaded"),
    (None, "Connection error."),
    (None, "context deadline exceeded"),
]

OTHER = [
    (400, ""),
    (400, "max_tokens: 400000 > 65536, which is the maximum allowed number of output tokens"),
    (400, "max_tokens is too large: 400000. This model supports at most 16384 completion tokens, whereas you provided 400000."),
    (400, "max_tokens=140000 cannot be greater than max_model_len=max_total_tokens=131072."),
    (400, "Invalid request: max_output_tokens 200000 exceeds limit 128000"),
    (400, "Requested output length 9000 exceeds the maximum of 8192 completion tokens"),
    (400, "`max_tokens` must be greater than `thinking.budget_tokens`."),
    (400, "tools: Tool names must be unique."),
    (400, "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_x"),
    (400, "A maximum of 4 blocks with cache_control may be provided. Found 5."),
    (400, "context_management.edits.0.trigger.value: Input should be greater than or equal to 50000 input_tokens"),
    (400, "Model context window too small (minimum is 128k tokens)"),
    (400, "Invalid 'messages[3].content': string too long. Expected a string with maximum length 10485760, but got one of 11000000."),
    (400, "Invalid 'input[0].call_id': string too long. Expected a string with maximum length 64, but got a string with length 70."),
    (400, "messages: List should have at most 100000 items after validation, not 100001"),
    (400, "The long context beta is not yet available for this subscription."),
    (400, "Your credit balance is too low to access the API. Please go to Plans & Billing."),
    (400, "<html><body>Bad Request: invalid csrf token</body></html>"),
    (400, "Your organization has exceeded its monthly token budget"),
    (400, "This model does not support image input"),
    (401, "invalid x-api-key"),
    (401, "token limit exceeded for this key"),
    (402, "Prompt tokens limit exceeded: 329159 > 168823"),
    (404, "model: not found"),
    (429, "Extra usage is required for long context requests."),
    (429, "You exceeded your current quota, please check your plan and billing details."),
]


@pytest.mark.parametrize(("status", "message", "actual", "limit"), TOO_LONG)
def test_v2_an_overflow_is_known_in_each_wording_and_its_numbers_are_found(
    status: int | None, message: str, actual: int | None, limit: int | None
) -> None:
    found = classify(status, message)
    assert (found.why, found.actual, found.limit, found.max_tokens) == ("too_long", actual, limit, None)
    assert found.gap == (None if actual is None or limit is None or actual == limit + 1 else actual - limit)


@pytest.mark.parametrize(("message", "why", "actual", "limit", "output"), BOTH)
def test_r2_input_that_fits_beside_an_output_that_does_not_is_told_apart(
    message: str, why: Why, actual: int | None, limit: int | None, output: int | None
) -> None:
    found = classify(400, message)
    assert (found.why, found.actual, found.limit, found.max_tokens) == (why, actual, limit, output)


def test_r2_the_first_retry_can_lower_max_tokens_from_the_numbers_alone() -> None:
    refused = "input length and `max_tokens` exceed context limit: 3300 + 1000 > 4000, decrease input length or `max_tokens` and try again"
    found = classify(400, refused)
    assert found.limit is not None and found.actual is not None
    assert (found.limit - found.actual, found.gap) == (700, 300)


@pytest.mark.parametrize(("status", "message", "actual", "limit"), BYTES)
def test_r8_a_body_that_is_too_large_is_about_bytes(status: int, message: str, actual: int | None, limit: int | None) -> None:
    found = classify(status, message)
    assert (found.why, found.actual, found.limit) == ("bytes", actual, limit)


def test_r8_the_providers_own_name_is_enough_for_a_body_that_is_too_large() -> None:
    assert classify(None, "no luck", type="request_too_large").why == "bytes"


@pytest.mark.parametrize(("status", "message"), MEDIA)
def test_r4_what_is_wrong_with_an_image_or_a_document_is_media(status: int, message: str) -> None:
    assert classify(status, message).why == "media"


@pytest.mark.parametrize(("status", "message"), TRANSIENT)
def test_r10_rate_limits_that_speak_of_tokens_and_broken_servers_are_no_overflow(status: int | None, message: str) -> None:
    assert classify(status, message).why == "transient"


@pytest.mark.parametrize(("status", "message"), OTHER)
def test_v2_unknown_errors_are_never_taken_for_overflow(status: int, message: str) -> None:
    assert classify(status, message).why == "other"


@pytest.mark.parametrize(
    ("type", "details", "why"),
    [
        ("context_length_exceeded", None, "too_long"),
        ("invalid_request_error", {"code": "context_length_exceeded"}, "too_long"),
        ("", {"error": {"type": "model_max_prompt_tokens_exceeded"}}, "too_long"),
        ("overloaded_error", None, "transient"),
        ("rate_limit_error", None, "transient"),
        ("invalid_request_error", {"error_code": "image_dimensions_too_large"}, "media"),
        ("invalid_request_error", {"error_code": "compaction_block_misplaced"}, "other"),
        ("invalid_request_error", {"code": "string_above_max_length"}, "other"),
        ("invalid_request_error", {"code": "insufficient_quota"}, "other"),
        ("invalid_request_error", {"code": 17, "type": ["x"]}, "other"),
    ],
)
def test_v2_names_are_believed_where_the_text_says_nothing(type: str, details: Object | None, why: Why) -> None:
    assert classify(200, "something went wrong", type=type, details=details).why == why


def test_v2_an_explicit_name_holds_over_a_text_that_also_speaks_of_rate_limits() -> None:
    assert classify(400, "See also our rate limits.", type="context_length_exceeded").why == "too_long"


def test_v2_numbers_that_are_fields_of_the_error_are_taken_from_there() -> None:
    fields: Object = {"type": "exceed_context_size_error", "n_prompt_tokens": 13_392, "n_ctx": 8_192}
    for details in (fields, {"error": fields}):
        found = classify(400, "try increasing it", details=details)
        assert (found.why, found.actual, found.limit) == ("too_long", 13_392, 8_192)


def test_v2_the_whole_body_may_be_given_as_the_message() -> None:
    body = (
        "Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 tokens. However, your messages resulted in "
        "8227 tokens.\", 'type': 'invalid_request_error', 'param': 'messages', 'code': 'context_length_exceeded'}}"
    )
    for status in (400, None):
        found = classify(status, body)
        assert (found.why, found.actual, found.limit) == ("too_long", 8_227, 8_192)


def test_w9_model_names_dates_and_codes_are_never_learned_as_a_window() -> None:
    said = "Error code: 400, request id: 204857600: prompt is too long for claude-sonnet-4-20250514 (llama-3.3-70b, 2026-11-30, 1500 ms)"
    found = classify(400, said)
    assert (found.why, found.actual, found.limit) == ("too_long", None, None)


# --- media, by place


def test_r4_the_offending_image_is_found_by_its_place_in_the_text() -> None:
    text = "messages.36.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image "
    found = classify(400, text + "requests: 2000 pixels", type="invalid_request_error")
    assert (found.why, found.places, found.max_side) == ("media", ((36, 0),), 2_000)


def test_r4_an_image_inside_a_result_has_a_third_number() -> None:
    text = "messages.3.content.1.tool_result.content.0.image.source.base64: image exceeds 5 MB maximum: 15908784 bytes > 5242880 bytes"
    found = classify(400, text)
    assert (found.why, found.places, found.max_side) == ("media", ((3, 1, 0),), None)
    assert (found.actual, found.limit) == (None, None)  # bytes of an image are no size of the input


def test_r4_structured_paths_come_first_and_each_place_once() -> None:
    details: Object = {
        "error_code": "image_dimensions_too_large",
        "max_side_length_pixels": 8_000,
        "paths": ["messages.0.content.1", "messages.4.content.0.content.2", "messages.0.content.1", 7, "system.0"],
    }
    found = classify(400, "messages.9.content.3.image: image dimensions exceed 8000 pixels", details={"details": details})
    assert (found.why, found.places, found.max_side) == ("media", ((0, 1), (4, 0, 2), (9, 3)), 8_000)


def test_r4_other_providers_count_with_brackets() -> None:
    assert classify(400, "Invalid image in messages[3].content[1].image_url: too large").places == ((3, 1),)
    assert classify(400, "Unable to process input image at contents[2].parts[0]").places == ((2, 0),)


def test_r4_places_are_told_for_media_only() -> None:
    found = classify(400, "messages.3.content.1.text: prompt is too long: 300000 tokens > 200000 maximum")
    assert (found.why, found.places) == ("too_long", ())


# --- when to try again


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"Retry-After": " 0.5 "}, 0.5),
        ({"retry-after": "30", "Retry-After-Ms": "1500"}, 1.5),
        ({"retry-after": "30", "retry-after-ms": "soon"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_l8_retry_after_is_seconds_or_nothing(headers: dict[str, str], seconds: float | None) -> None:
    assert classify(429, "", headers=headers).retry_after == seconds


def test_l8_the_provider_may_say_itself_whether_to_try_again() -> None:
    assert classify(500, "broken", headers={"X-Should-Retry": "false"}).why == "other"
    assert classify(400, "odd", headers={"x-should-retry": "true"}).why == "transient"
    assert classify(400, "prompt is too long", headers={"x-should-retry": "true"}).why == "too_long"


# --- ends of an answer


@pytest.mark.parametrize(
    ("reason", "output", "content", "is_overflow"),
    [
        ("model_context_window_exceeded", 5_000, True, True),
        ("length", 0, False, True),
        ("max_tokens", None, False, True),
        ("MAX_TOKENS", 0, False, True),
        ("max_output_tokens", 0, False, True),
        ("length", 4_096, True, False),
        ("length", 4_096, False, False),
        ("length", 0, True, False),
        ("stop", 0, False, False),
        ("end_turn", 12, True, False),
        ("", None, False, False),
    ],
)
def test_r10_a_full_window_and_an_empty_answer_cut_for_its_length_are_overflows(
    reason: str, output: int | None, content: bool, is_overflow: bool
) -> None:
    found = classify_stop(reason, output_tokens=output, has_content=content)
    assert (found is not None) == is_overflow
    assert found is None or (found.why, found.type) == ("too_long", reason)


# --- bounds


@given(st.none() | st.integers(0, 700), st.text(), st.text(), st.none() | st.dictionaries(st.text(), st.text() | st.lists(st.text())))
def test_h4_no_message_makes_it_raise(status: int | None, message: str, type: str, details: dict[str, object] | None) -> None:
    found = classify(status, message, type=type, details=details)  # type: ignore[arg-type]
    assert isinstance(found, Rejection) and found.message == message[:MAX_CHARS]


@pytest.mark.parametrize(
    "piece", ["1,", "input tokens ", " > 1", "messages.1.content.1.", "image exceed ", "max allowed input ", "1 + 1 > "]
)
def test_h4_a_huge_message_is_cut_and_costs_no_more_than_its_length(piece: str) -> None:
    start = time.perf_counter()
    found = classify(400, piece * 1_000_000)
    assert len(found.message) == MAX_CHARS
    assert time.perf_counter() - start < 3  # measured: 0.13 s at most
