"""One OpenAI Responses item as a message, and back.

``decode`` makes one message of one item and ``encode`` gives the items of a message, so ``encode(decode(x)) == [x]``
for every item: what is not modelled stays in ``extra``, an item of a kind not known here is ``Opaque``. Item types as in
the Responses API reference and in the Codex protocol. A call that the provider performs itself holds its answer in the
same item; here it is a ``ServerToolUse`` and its ``ServerToolResult`` (I8), one item again on the way out.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..core.messages import (
    JSON,
    Block,
    Compaction,
    Document,
    Image,
    Message,
    Object,
    Opaque,
    RedactedThinking,
    Role,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    encode_block,
)
from .fields import without
from .openai_parts import decode_arguments, encode_arguments
from .responses_parts import decode_part, encode_part

CALLS: Mapping[str, tuple[str, str]] = {
    "function_call": ("", "arguments"),
    "custom_tool_call": ("", "input"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "computer_call": ("computer", "action"),
    "tool_search_call": ("tool_search", "arguments"),
}
"""Calls that the client answers: the tool's name where the type says it, and the key of the input."""

HOSTED: Mapping[str, tuple[str, str, str]] = {
    "web_search_call": ("web_search", "action", "results"),
    "file_search_call": ("file_search", "queries", "results"),
    "code_interpreter_call": ("code_interpreter", "code", "outputs"),
    "image_generation_call": ("image_generation", "revised_prompt", "result"),
    "mcp_call": ("", "arguments", "output"),
}
"""Calls that the provider performs: name, key of the input, key of the answer."""

OUTPUTS: Mapping[str, str] = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "local_shell_call_output": "output",
    "shell_call_output": "output",
    "apply_patch_call_output": "output",
    "computer_call_output": "output",
    "tool_search_output": "tools",
}
"""Answers of the client, and the key of their content."""

COMPACTIONS = frozenset({"compaction", "compaction_summary", "context_compaction"})
ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_FROM_CLIENT = ("_output", "_response", "_trigger", "_reference")


# --- one item in


def decode(item: JSON) -> Message:
    """One item as one message. Anything that does not have the shape of its type is kept whole as ``Opaque``."""
    if not isinstance(item, dict):
        return Message("user", (Opaque(item),))
    kind = item.get("type")
    decoded: Message | None = None
    if kind in ("message", "agent_message") or (kind is None and "type" not in item):
        decoded = _decode_message(item)
    elif not isinstance(kind, str):
        decoded = None
    elif kind == "reasoning":
        decoded = _decode_reasoning(item)
    elif kind in CALLS:
        decoded = _decode_call(item, kind)
    elif kind in OUTPUTS:
        decoded = _decode_output(item, kind)
    elif kind in HOSTED:
        decoded = _decode_hosted(item, kind)
    elif kind in COMPACTIONS:
        decoded = Message("assistant", (Compaction(item),))
    return decoded or Message(_side(item), (Opaque(item),))


def _side(item: Object) -> Role:
    """Who sends an item of an unknown kind: the client what answers or asks, the model the rest."""
    kind = item.get("type")
    return "assistant" if isinstance(kind, str) and not kind.endswith(_FROM_CLIENT) else "user"


def _decode_message(item: Object) -> Message | None:
    wire_role, content = item.get("role"), item.get("content")
    role: Role | None = ROLES.get(wire_role) if isinstance(wire_role, str) else None
    if item.get("type") == "agent_message":  # one agent's word to another (Codex)
        role = "user" if "role" not in item else None
    if role is None or not isinstance(content, str | list):
        return None
    # A message always has "type" here (None: it had none), which tells its parts from items on the way out.
    extra = {"type": item.get("type"), **without(item, "type", "role", "content")}
    if wire_role not in (None, role):
        extra["role"] = wire_role
    if isinstance(content, str):
        return Message(role, (Text(content),), True, extra)
    default = _text_type(role)
    return Message(role, tuple([decode_part(part, default) for part in content]), False, extra)


def _text_type(role: Role) -> str:
    return "output_text" if role == "assistant" else "input_text"


def _decode_reasoning(item: Object) -> Message:
    signature = item.get("encrypted_content")
    signed = isinstance(signature, str) and signature != ""
    extra = {key: value for key, value in item.items() if not (signed and key == "encrypted_content")}
    text = _texts(item.get("summary")) or _texts(item.get("content"))
    return Message("assistant", (Thinking(text, signature if isinstance(signature, str) else "", extra),))


def _texts(parts: JSON) -> str:
    if not isinstance(parts, list) or not parts:
        return ""
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _call_id(item: Object) -> tuple[str, tuple[str, ...]] | None:
    """The id that pairs call and answer, and the keys it takes: ``call_id``, for a local shell's answer ``id``.
    None where there is none, or where both are the same so that the way back would not be clear."""
    call_id, id = item.get("call_id"), item.get("id")
    if isinstance(call_id, str) and call_id:
        return None if call_id == id else (call_id, ("call_id",))
    return (id, ()) if isinstance(id, str) and id else None


def _decode_call(item: Object, kind: str) -> Message | None:
    name, key = CALLS[kind]
    named = _call_id(item)
    if not name:
        given = item.get("name")
        name = given if isinstance(given, str) else ""
    if kind == "computer_call" and isinstance(item.get("actions"), list):
        key = "actions"
    input = item.get(key)
    odd = (kind == "function_call" and key not in item) or (key == "action" and isinstance(input, list))
    if named is None or not name or odd:
        return None
    id, id_keys = named
    extra: Object = {}
    if kind == "function_call":
        input, extra = decode_arguments(input)
    else:
        extra["type"] = kind
    fixed = () if CALLS[kind][0] else ("name",)
    if input is None and key in item:
        extra[key] = item[key]
    extra |= without(item, "type", key, *fixed, *id_keys)
    return Message("assistant", (ToolUse(id, name, input, extra),))


def _decode_output(item: Object, kind: str) -> Message | None:
    named = _call_id(item)
    if named is None:
        return None
    id, id_keys = named
    key = OUTPUTS[kind]
    value = item.get(key)
    extra: Object = {} if kind == "function_call_output" else {"type": kind}
    extra |= without(item, "type", key, *id_keys)
    content: str | tuple[Block, ...] | None = None
    if isinstance(value, str) and key == "output":
        content = value
    elif isinstance(value, list):
        content = tuple([decode_part(part, "input_text") for part in value])
    elif key in item:
        # Not a list: the null says so on the way out.
        extra[key] = None
        content = None if value is None else (decode_part(value, "input_text"),)
    return Message("user", (ToolResult(id, content, False, extra),))


def _decode_hosted(item: Object, kind: str) -> Message:
    name, key, answer_key = HOSTED[kind]
    extra = without(item, "type", key, answer_key)
    if not name:
        given = extra.get("name")
        name = given if isinstance(given, str) else ""
    id = extra.get("id")
    if isinstance(id, str) and id:
        del extra["id"]
    else:
        id = ""
    input, answer = item.get(key), item.get(answer_key)
    if key == "arguments" and input is not None:
        input, kept = decode_arguments(input)
        extra |= kept
    for each, value in ((key, input), (answer_key, answer)):
        if value is None and each in item:
            extra.setdefault(each, None)
    return Message("assistant", (ServerToolUse(id, name, input, kind, extra), ServerToolResult(id, answer, f"{kind}_result")))


# --- and out


def encode(message: Message) -> list[JSON]:
    """The items of a message: its text and media as one message item, every call, answer and thought as its own."""
    items: list[JSON] = []
    parts: list[Block] = []
    extra = message.extra
    whole = "type" in extra
    for block in message.blocks:
        if _is_part(block, whole):
            parts.append(block)
            continue
        if parts:
            items.append(_encode_message(message, parts, extra))
            parts, extra = [], {}
        match block:
            case ServerToolResult(kind=kind) if kind.removesuffix("_result") in HOSTED:
                if items and isinstance(items[-1], dict):
                    items[-1] |= _hosted_answer(block)
            case _:
                items.append(_encode_item(block))
    if parts or (whole and not items):
        items.append(_encode_message(message, parts, extra))
    return items


def _is_part(block: Block, whole: bool) -> bool:
    """Whether a block is content of a message item, as against an item of its own."""
    if isinstance(block, Opaque):
        return whole
    return isinstance(block, Text | Image | Document)


def _encode_message(message: Message, parts: list[Block], extra: Object) -> Object:
    out: Object = {"type": "message", "role": message.role}
    if extra.get("type", "") is None:
        del out["type"]
        extra = without(extra, "type")
    elif extra.get("type") == "agent_message":
        del out["role"]
    out |= extra
    match parts:
        case [Text(text, rest)] if message.bare and not rest:
            out["content"] = text
        case _:
            default = _text_type(message.role)
            out["content"] = [encode_part(part, default) for part in parts]
    return out


def _encode_item(block: Block) -> JSON:
    match block:
        case ToolUse():
            return _encode_call(block)
        case ToolResult():
            return _encode_output(block)
        case Thinking(text, signature, extra):
            summary: list[JSON] = [{"type": "summary_text", "text": text}] if text else []
            signed: Object = {"encrypted_content": signature} if signature else {}
            return {"type": "reasoning", **(extra or {"summary": summary}), **signed}
        case RedactedThinking(data, extra):
            return {"type": "reasoning", "summary": [], "encrypted_content": data, **extra}
        case ServerToolUse():
            return _encode_hosted(block)
        case Compaction(data) | Opaque(data):
            return data
        case _:
            return encode_block(block)


def _encode_call(block: ToolUse) -> Object:
    kind = block.extra.get("type")
    kind = kind if isinstance(kind, str) and kind in CALLS else "function_call"
    fixed, key = CALLS[kind]
    out: Object = {"type": kind}
    if block.extra.get("id") != block.id:
        out["call_id"] = block.id
    if not fixed:
        out["name"] = block.name
    if kind == "function_call":
        out[key] = "" if key in block.extra else encode_arguments(block.input)
    elif block.input is not None:
        out["actions" if kind == "computer_call" and isinstance(block.input, list) else key] = block.input
    out |= block.extra
    return out


def _encode_output(block: ToolResult) -> Object:
    kind = block.extra.get("type", "function_call_output")
    key = OUTPUTS.get(kind, "output") if isinstance(kind, str) else "output"
    out: Object = {"type": kind}
    if block.extra.get("id") != block.tool_use_id:
        out["call_id"] = block.tool_use_id
    out |= block.extra
    match block.content:
        case None:
            pass
        case str(text):
            # A search for tools answers with a list of them; cleared, it has found none.
            out[key] = text if key == "output" else []
        case (part,) if key in block.extra:
            out[key] = encode_part(part, "input_text")
        case parts:
            out[key] = [encode_part(part, "input_text") for part in parts]
    return out


def _encode_hosted(block: ServerToolUse) -> Object:
    out: Object = {"type": block.kind}
    if block.id:
        out["id"] = block.id
    name, key, _ = HOSTED.get(block.kind, ("", "input", ""))
    if not name and block.name:
        out["name"] = block.name
    if block.input is not None:
        out[key] = encode_arguments(block.input) if key == "arguments" and key not in block.extra else block.input
    out |= block.extra
    return out


def _hosted_answer(block: ServerToolResult) -> Object:
    _, _, key = HOSTED[block.kind.removesuffix("_result")]
    return {} if block.content is None else {key: block.content}
