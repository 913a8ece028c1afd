"""The types of what a request holds. A value of another type is refused; the path is the API's, the words are ours."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class _Mark(msgspec.Struct):
    type: str
    ttl: Literal["5m", "1h"] | None = None


class _Binding(msgspec.Struct):
    prefix_mismatch_behavior: Literal["error", "drop_block"] | None = None


class _Thinking(msgspec.Struct):
    type: str
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted"] | None = None
    block_binding: _Binding | None = None


class _Output(msgspec.Struct):
    effort: str | None = None
    format: dict[str, Any] | None = None
    task_budget: dict[str, Any] | None = None


class _Choice(msgspec.Struct):
    type: str


class _Amount(msgspec.Struct):
    type: str
    value: int


class _Keep(msgspec.Struct):
    type: str
    value: int | None = None


class _Edit(msgspec.Struct):
    type: str
    trigger: _Amount | None = None
    keep: Literal["all"] | _Keep | None = None
    clear_at_least: _Amount | None = None
    exclude_tools: list[str] | None = None
    clear_tool_inputs: bool | list[str] | None = None
    pause_after_compaction: bool | None = None
    instructions: str | None = None


class _Managed(msgspec.Struct):
    edits: list[_Edit] = []


class _Summarize(msgspec.Struct):
    type: str
    instructions: str | None = None


class _Diagnostics(msgspec.Struct):
    previous_message_id: str | None = None


class MessagesBody(msgspec.Struct):
    """The body of a request to the Messages API, without messages, system prompt and tools."""

    model: str
    max_tokens: int | None = None
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    cache_control: _Mark | None = None
    thinking: _Thinking | None = None
    output_config: _Output | None = None
    tool_choice: _Choice | None = None
    context_management: _Managed | None = None
    compaction: _Summarize | None = None
    diagnostics: _Diagnostics | None = None


class _Source(msgspec.Struct):
    type: str
    data: str | None = None
    content: Any = None


class Block(msgspec.Struct):
    """A block of the Messages API, as far as the simulator looks at it."""

    type: str
    source: _Source | str | None = None
    tool_use_id: str | None = None
    id: str | None = None
    signature: str | None = None
    encrypted_content: str | None = None


class _Part(msgspec.Struct):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | dict[str, Any] | None = None


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    function: _Function | None = None


class Item(msgspec.Struct):
    """A message of Chat Completions or an item of Responses."""

    type: str | None = None
    role: str | None = None
    id: str | None = None
    content: str | list[_Part] | None = None
    output: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    encrypted_content: str | None = None


class _Options(msgspec.Struct):
    mode: str | None = None


class ChatBody(msgspec.Struct):
    """The body of a request to Chat Completions, without messages."""

    model: str
    tools: list[dict[str, Any]] | None = None
    stop: str | list[str] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    prompt_cache_options: _Options | None = None


class _Compaction(msgspec.Struct):
    type: str
    compact_threshold: int | None = None


class ResponsesBody(msgspec.Struct):
    """The body of a request to Responses, without input."""

    model: str
    instructions: str | None = None
    tools: list[dict[str, Any]] | None = None
    max_output_tokens: int | None = None
    previous_response_id: str | None = None
    context_management: list[_Compaction] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    stream: bool | None = None
    store: bool | None = None
    prompt_cache_options: _Options | None = None


def misfit(value: object, shape: type[msgspec.Struct]) -> tuple[str, str] | None:
    """Where a value is not of its type, as a path with dots, and what was expected; None where it is."""
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        path = place.strip("`.").replace("[", ".").replace("]", "").replace("...", "*")
        return path, text.replace("`", "'")
    return None
