"""mini-swe-agent trajectories (``.traj.json``): ``info``, ``messages`` and the version of the format.

Version 1 is a plain conversation: the command stands in the assistant's text, its output is the next user message, and
``extra.response`` of an assistant message is the whole API response. Version 2 adds tool calls, and with the Responses
API each assistant message *is* the response object. What the API said beside the message (reasoning in
``extra.response``) was never sent back, so it is no part of the conversation; its tokens are in the usage.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core.entries import Entry, Head
from ..core.log import Log
from ..core.messages import JSON, Block, Object, Opaque, Text, Thinking, ToolResult, ToolUse
from ..core.transcript import Conversation, ConversationKind, Transcript
from .common import Ids, parse_time, transcript
from .parts import (
    arguments,
    chat_calls,
    content_blocks,
    dig,
    documents,
    items_at,
    litellm_usage,
    numbered_objects,
    object_at,
    rest_of,
    text_at,
    thinking_blocks,
)
from .source import Source

NAME = "mini-swe-agent"


def recognises(source: Source) -> bool:
    """Whether the content is a mini-swe-agent trajectory."""
    return source.shape in ("document", "lines") and bool(source.first_objects) and _is_trajectory(source.first_objects[0])


def _is_trajectory(data: Object) -> bool:
    info = object_at(data, "info")
    named = text_at(data, "trajectory_format").startswith("mini-swe-agent")
    return isinstance(data.get("messages"), list) and (named or "mini_version" in info or {"exit_status", "model_stats"} <= info.keys())


def read(source: Source) -> Transcript:
    """Read a trajectory. Raises InputError where there is no message in it."""
    found: list[tuple[Object, Log]] = []
    for number, data in documents(source):
        if _is_trajectory(data):
            found.append((rest_of(data, "messages"), Log(_head(data), _entries(source, data))))
        else:
            source.bad(number, "not a mini-swe-agent trajectory: no info and messages")
    kind: ConversationKind = "sample" if len(found) > 1 else "main"
    meta: Object = found[0][0] if len(found) == 1 else {"documents": [rest for rest, _ in found]}
    return transcript(NAME, source, (Conversation(log, kind) for _, log in found), meta=meta)


def _head(data: Object) -> Head:
    info = object_at(data, "info")
    return Head(
        id=text_at(data, "instance_id"),
        model=text_at(info, "config", "model", "model_name") or None,
        cwd=text_at(info, "config", "environment", "cwd") or None,
        extra={key: info[key] for key in ("exit_status", "model_stats", "mini_version", "submission") if key in info},
    )


def _entries(source: Source, data: Object) -> Iterator[Entry]:
    ids = Ids("m")
    answered = False
    for number, message in numbered_objects(source, items_at(data, "messages"), "message"):
        kind, role = message.get("type"), message.get("role")
        if message.get("object") == "response" or role == "assistant":
            answered = True
            yield _assistant(message, number, ids())
        elif role == "tool" or kind == "function_call_output":
            yield _result(message, number, ids())
        elif role in ("user", "system", "developer"):
            content, bare = content_blocks(message.get("content"))
            meta = role == "user" and answered and not text_at(message, "extra", "interrupt_type").startswith("User")
            time = parse_time(dig(message, "extra", "timestamp"))
            yield Entry(id=ids(), kind="user" if role == "user" else "system", blocks=content, time=time, meta=meta, bare=bare, line=number)
        elif role == "exit":
            yield Entry(id=ids(), kind="note", blocks=content_blocks(message.get("content"))[0], meta=True, line=number)
        else:
            source.bad(number, f"message {number} has the role {role!r}")


def _assistant(message: Object, number: int, id: str) -> Entry:
    response = message if message.get("object") == "response" else object_at(message, "extra", "response")
    content, bare = content_blocks(message.get("content"))
    blocks: tuple[Block, ...] = (*thinking_blocks(message), *content, *chat_calls(message.get("tool_calls")))
    if response is message:
        blocks = tuple(block for item in items_at(response, "output") for block in _output_blocks(item))
    return Entry(
        id=id,
        kind="assistant",
        blocks=blocks,
        time=parse_time(dig(message, "extra", "timestamp")) or parse_time(response.get("created") or response.get("created_at")),
        api_id=text_at(response, "id") or id,
        usage=litellm_usage(response.get("usage")),
        model=text_at(response, "model") or None,
        bare=bare and blocks == content,
        line=number,
    )


def _output_blocks(item: JSON) -> tuple[Block, ...]:
    """The blocks of one output item of the Responses API; an encrypted or unknown one is kept whole (I6)."""
    match item:
        case {"type": "message", "content": list(content)}:
            return content_blocks(content)[0]
        case {"type": "function_call", "call_id": str(id), "name": str(name)}:
            return (ToolUse(id, name, arguments(dig(item, "arguments"))),)
        case {"type": "reasoning"} if not dig(item, "encrypted_content"):
            text = "\n".join(text_at(part, "text") for part in (*items_at(item, "summary"), *items_at(item, "content")))
            return (Thinking(text),) if text else ()
        case dict():
            return (Opaque(item),)
        case _:
            return ()


def _result(message: Object, number: int, id: str) -> Entry:
    content, bare = content_blocks(message.get("output") if "output" in message else message.get("content"))
    whole = "".join(block.text for block in content if isinstance(block, Text)) if bare else content
    call = text_at(message, "call_id") or text_at(message, "tool_call_id")
    code = dig(message, "extra", "returncode")
    failed = isinstance(code, int) and code != 0
    return Entry(
        id=id, kind="user", blocks=(ToolResult(call, whole, failed),), time=parse_time(dig(message, "extra", "timestamp")), line=number
    )
