"""The input of OpenAI's Responses: its items, what pairs with what, and what stands behind a compaction item (facts: 7.1)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .items import Item, summary_of
from .refusal import Object, openai_invalid
from .world import Limits, World

CALLS: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
"""Calls that the client runs, and what answers each."""
_ROLES: Final = ("user", "assistant", "system", "developer")
TRIGGER: Final = "compaction_trigger"


def read_input(limits: Limits, raw: msgspec.Raw | None) -> list[Item]:
    """The items of ``input``, a text being a user message."""
    if raw is None:
        return []
    if bytes(memoryview(raw)[:1]) == b'"':
        return [limits.items.item({"type": "message", "role": "user", "content": msgspec.json.decode(raw)})]
    try:
        found = msgspec.json.decode(raw, type=list[msgspec.Raw])
    except msgspec.DecodeError as error:
        raise openai_invalid("Invalid type for 'input': expected a string or an array.", param="input", code="invalid_type") from error
    items = list(map(limits.items.read, found))
    for i, item in enumerate(items):
        if item.value.get("type", "message") == "message" and item.value.get("role") not in _ROLES:
            raise openai_invalid(f"Invalid value: '{item.value.get('role')}'.", param=f"input[{i}].role", code="invalid_value")
    return items


def check_items(items: list[Item], reasoned: dict[str, str]) -> None:
    """Raises Refused where a call and its output, or a call and its reasoning, are apart. They pair by ``call_id``, wherever they
    stand. ``reasoned``: the reasoning that each call of this simulator came with, by the ids of both."""
    calls = {str(item.value.get("call_id")): item for item in items if item.kind in CALLS}
    outputs = {str(item.value.get("call_id")) for item in items if item.kind in CALLS.values()}
    for id in calls:
        if id not in outputs:
            raise openai_invalid(f"No tool output found for function call {id}.", param="input")
    for item in items:
        if item.kind in CALLS.values() and str(item.value.get("call_id")) not in calls:
            text = f"No tool call found for function call output with call_id {item.value.get('call_id')}."
            raise openai_invalid(text, param="input")
    _check_reasoning(items, reasoned)


def _check_reasoning(items: list[Item], reasoned: dict[str, str]) -> None:
    there = {item.value.get("id") for item in items}
    for i, item in enumerate(items):
        id = item.value.get("id")
        if item.kind == "reasoning":
            behind = items[i + 1] if i + 1 < len(items) else None
            follows = behind is not None and (behind.kind in CALLS or behind.kind == "reasoning" or behind.value.get("role") == "assistant")
            if not follows:
                raise openai_invalid(f"Item '{id}' of type 'reasoning' was provided without its required following item.", param="input")
        elif isinstance(id, str) and reasoned.get(id, id) != id and reasoned[id] not in there:
            text = f"Item '{id}' of type '{item.kind}' was provided without its required 'reasoning' item: '{reasoned[id]}'."
            raise openai_invalid(text, param="input")


def shown(items: list[Item]) -> list[Item]:
    """What the model sees: from the last compaction item on that stands for all before it; triggers are not for it."""
    last = max((i for i, item in enumerate(items) if _covers_all(item)), default=0)
    return [item for item in items[last:] if item.kind != TRIGGER]


def _covers_all(item: Item) -> bool:
    return item.kind == "compaction" and str(item.value.get("encrypted_content")).startswith("all:")


def check_compactions(items: list[Item]) -> None:
    """Raises Refused for a compaction item that this simulator has not made."""
    for i, item in enumerate(items):
        if item.kind == "compaction" and summary_of(item.value) is None:
            raise openai_invalid("The encrypted content could not be verified.", param=f"input[{i}]", code="invalid_encrypted_content")


def truncated(items: list[Item], most: int, fixed: int) -> list[Item]:
    """``truncation: auto``: items dropped from the beginning until the rest fits, outputs without their call with them."""
    items = list(items)
    total = fixed + sum(item.tokens for item in items)
    while items and total > most:
        gone = items.pop(0)
        total -= gone.tokens
        calls = {item.value.get("call_id") for item in items if item.kind in CALLS}
        while items and (items[0].kind == "reasoning" or (items[0].kind in CALLS.values() and items[0].value.get("call_id") not in calls)):
            total -= items.pop(0).tokens
    return items


def user_messages(items: list[Item], world: World) -> list[Object]:
    """What ``/responses/compact`` hands back verbatim, in the form in which the API gives items back."""
    found = []
    for item in items:
        if item.value.get("role") == "user":
            content = item.value.get("content")
            parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
            id = item.value.get("id") or world.next_id("msg")
            found.append({"type": "message", "id": id, "role": "user", "status": "completed", "content": parts})
    return found


def text_content(value: Any) -> list[Object]:
    """A text as the content of an assistant's message."""
    return [{"type": "output_text", "text": value, "annotations": [], "logprobs": []}]
