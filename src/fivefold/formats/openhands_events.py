"""What one OpenHands event says to the model, for both generations of events (see ``openhands``)."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import msgspec

from ..core.entries import Kind, Usage
from ..core.messages import JSON, Block, Object, Text, Thinking, ToolResult, ToolUse
from .parts import (
    arguments,
    content_blocks,
    dig,
    items_at,
    litellm_usage,
    media_block,
    object_at,
    objects_at,
    rest_of,
    text_at,
    thinking_blocks,
)

_UNSEEN = frozenset({"recall", "change_agent_state", "agent_state_changed", "null", "start", "pause", "resume", "condensation_request"})
"""Old actions and observations that are no message."""


class Said(NamedTuple):
    """A message made of one event."""

    kind: Kind
    blocks: tuple[Block, ...]
    meta: bool = False
    api_id: str | None = None
    usage: Usage | None = None
    model: str | None = None
    summary: bool = False
    tools: tuple[Object, ...] = ()


def _text(text: str) -> tuple[Block, ...]:
    return (Text(text),) if text else ()


# --- events of the old generation


def old_event(event: Object, responses: Container[str], calls: Container[str]) -> Said | None:
    """The message of an event with an ``action`` or an ``observation``; None for one that is none.

    ``responses``: API responses that were seen already, whose text is not repeated; ``calls``: ids of the calls made.
    """
    if isinstance(event.get("action"), str):
        return _old_action(event, responses)
    return _old_observation(event, calls)


def _old_action(event: Object, responses: Container[str]) -> Said | None:
    action, args = event.get("action"), object_at(event, "args")
    by_agent = event.get("source") == "agent"
    if action == "system":
        return Said("system", content_blocks(args.get("content"))[0], tools=tuple(objects_at(args, "tools")))
    if action == "message":
        images = tuple(media_block(url) for url in items_at(args, "image_urls") if isinstance(url, str))
        blocks = (*content_blocks(args.get("content"))[0], *images)
        return Said("assistant" if by_agent else "user", blocks, meta=event.get("source") == "environment")
    if action in _UNSEEN:
        return None
    if not by_agent:  # a command that the person ran: the model is told of it
        return Said("user", _text(text_at(event, "message") or text_at(args, "command")), meta=True)
    return _old_call(event, args, responses)


def _old_call(event: Object, args: Object, responses: Container[str]) -> Said:
    meta = object_at(event, "tool_call_metadata")
    response = object_at(meta, "model_response")
    message = object_at(response, "choices", 0, "message")
    api_id = text_at(response, "id") or None
    call = text_at(meta, "tool_call_id")
    thought: tuple[Block, ...] = ()
    if api_id is None or api_id not in responses:
        content = content_blocks(message.get("content"))[0] if message else _text(text_at(args, "thought"))
        thought = (*thinking_blocks(message), *content)
    if not call and event.get("action") == "finish":
        return Said("assistant", thought or _text(text_at(args, "final_thought")))
    its = next((item for item in objects_at(message, "tool_calls") if item.get("id") == call), None)
    given = arguments(dig(its, "function", "arguments")) if its else rest_of(args, "thought")
    use = ToolUse(call or f"call_{event.get('id')}", text_at(meta, "function_name") or text_at(event, "action"), given)
    return Said("assistant", (*thought, use), False, api_id, litellm_usage(response.get("usage")), text_at(response, "model") or None)


def _old_observation(event: Object, calls: Container[str]) -> Said | None:
    kind = text_at(event, "observation")
    if kind == "recall":
        return _recalled(event)
    if kind in _UNSEEN:
        return None
    shell = object_at(event, "extras", "metadata")
    text = text_at(shell, "prefix") + text_at(event, "content") + text_at(shell, "suffix")
    images = tuple(media_block(url) for url in items_at(event, "extras", "image_urls") if isinstance(url, str))
    failed = kind == "error" or event.get("success") is False
    call = text_at(event, "tool_call_metadata", "tool_call_id")
    if not call and f"call_{event.get('cause')}" in calls:
        call = f"call_{event.get('cause')}"
    if call:
        return Said("user", (ToolResult(call, (*_text(text), *images) if images else text, failed),))
    return Said("user", (*_text(text), *images), meta=True)


def _recalled(event: Object) -> Said:
    """Knowledge that OpenHands put before the model; where it found none, a note."""
    extras = object_at(event, "extras")
    told = [text_at(extras, "repo_instructions"), text_at(extras, "additional_agent_instructions")]
    told += [text_at(item, "content") for item in objects_at(extras, "microagent_knowledge")]
    blocks = tuple(Text(text) for text in told if text)
    return Said("user", blocks, meta=True) if blocks else Said("note", _text(text_at(event, "content")), meta=True)


# --- events of the SDK


def sdk_event(event: Object) -> Said | None:
    """The message of an event with a ``kind``; None for one that is none."""
    match event.get("kind"):
        case "SystemPromptEvent":
            parts: list[JSON] = [event.get("system_prompt"), event.get("dynamic_context")]
            return Said("system", _plain([part for part in parts if part]), tools=tuple(objects_at(event, "tools")))
        case "MessageEvent":
            return _sdk_message(event)
        case "ActionEvent":
            return _sdk_action(event)
        case "ObservationEvent":
            return _sdk_observation(event)
        case "UserRejectObservation":
            return _sdk_result(event, f"Action rejected: {text_at(event, 'rejection_reason')}", True)
        case "AgentErrorEvent":
            return _sdk_result(event, text_at(event, "error"), True)
        case "CondensationSummaryEvent":
            return Said("user", _text(text_at(event, "summary")), meta=True, summary=True)
        case "ConversationErrorEvent":
            return Said("note", _text(f"{text_at(event, 'code')}: {text_at(event, 'detail')}"), meta=True)
        case _:
            return None


def _plain(content: JSON) -> tuple[Block, ...]:
    """Blocks of a content list; the SDK's own marks on a text (``cache_prompt`` …) are never sent."""
    return tuple(Text(block.text) if isinstance(block, Text) else block for block in content_blocks(content)[0])


def _sdk_thinking(message: Object) -> tuple[Block, ...]:
    found = thinking_blocks(message)
    reasoning = object_at(message, "responses_reasoning_item")
    if found or not reasoning:
        return found
    lines = [line for line in (*items_at(reasoning, "summary"), *items_at(reasoning, "content")) if isinstance(line, str)]
    return (Thinking("\n".join(lines)),) if lines else ()


def _sdk_calls(message: Object) -> tuple[Block, ...]:
    return tuple(ToolUse(text_at(c, "id"), text_at(c, "name"), arguments(c.get("arguments"))) for c in objects_at(message, "tool_calls"))


def _sdk_message(event: Object) -> Said:
    message = object_at(event, "llm_message")
    content = _plain([*_listed(message.get("content")), *items_at(event, "extended_content")])
    role, api_id = message.get("role"), text_at(event, "llm_response_id") or None
    if role == "tool":
        return Said("user", (ToolResult(text_at(message, "tool_call_id"), content),))
    if role == "system":
        return Said("system", content)
    if role == "assistant":
        return Said("assistant", (*_sdk_thinking(message), *content, *_sdk_calls(message)), api_id=api_id)
    return Said("user", content, meta=event.get("source") != "user")


def _listed(content: JSON) -> list[JSON]:
    return content if isinstance(content, list) else [content] if isinstance(content, str) else []


def _sdk_action(event: Object) -> Said:
    call = object_at(event, "tool_call")
    given = arguments(call.get("arguments")) if "arguments" in call else rest_of(object_at(event, "action"), "kind")
    id, name = text_at(event, "tool_call_id") or text_at(call, "id"), text_at(event, "tool_name") or text_at(call, "name")
    thought = _plain(event.get("thought"))
    blocks = (*_sdk_thinking(event), *thought, ToolUse(id, name, given))
    return Said("assistant", blocks, api_id=text_at(event, "llm_response_id") or None)


def _sdk_observation(event: Object) -> Said:
    observation = object_at(event, "observation")
    parts = [*_listed(observation.get("content")), *items_at(event, "extended_content")]
    failed = observation.get("is_error") is True
    if parts:
        blocks = _plain(parts)
        texts = [block.text for block in blocks if isinstance(block, Text)]
        return _sdk_result(event, texts[0] if len(texts) == len(blocks) == 1 else blocks, failed)
    # Early versions had fields of their own for each tool.
    plain = next((text_at(observation, key) for key in ("output", "text", "message", "error") if text_at(observation, key)), "")
    return _sdk_result(event, plain or msgspec.json.encode(rest_of(observation, "kind")).decode(), failed)


def _sdk_result(event: Object, content: str | tuple[Block, ...], failed: bool) -> Said:
    return Said("user", (ToolResult(text_at(event, "tool_call_id"), content, failed),))
