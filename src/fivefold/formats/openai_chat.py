"""OpenAI Chat messages: a list of them, a request or its log (``messages``, ``tools``, ``response`` …), JSON lines of
either, and results files that hold several conversations (tau-bench: ``traj``).

How a message becomes blocks and goes out again is in ``openai_chat_messages``. In a log of one call (LiteLLM's shape) the
reply is the last entry and has the usage; ``raw_messages``, the same conversation before the client rewrote it, is a
conversation of its own. A list of user and assistant messages with nothing of OpenAI's in it is left to the Anthropic
reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from ..core.entries import Entry, Head
from ..core.log import Log
from ..core.messages import JSON, Object
from ..core.transcript import Conversation, Transcript
from .common import Ids, parse_time, transcript
from .fields import list_at, object_at, text_at, without
from .foreign_messages import is_foreign_part, is_thread_message
from .openai_chat_messages import PairCalls, decode, is_message
from .openai_parts import entry_of, tops
from .parts import dig, litellm_usage
from .source import Source

NAME = "openai-chat"

_LISTS = ("messages", "traj")
"""Keys under which one conversation's messages stand."""
_RESULTS = ("results", "conversations", "trajectories")
"""Keys under which the conversations of a results file stand, where it is an object."""
_FOREIGN_KEYS = frozenset({"trajectory_format", "trajectory", "history", "schema_version", "eval", "sessionId", "steps", "mapping"})
"""Keys of other formats that hold messages, too."""
_FOREIGN_PARTS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "input_text", "output_text", "input_image", "tool-call", "tool-result"}
)
_OWN_PARTS = frozenset({"image_url", "input_audio", "file"})
_OWN_ROLES = frozenset({"system", "developer", "tool", "function"})
_OWN_KEYS = frozenset({"tool_calls", "function_call", "refusal", "reasoning_content"})


# --- recognising


def recognises(source: Source) -> bool:
    """Whether the content is Chat messages: by a role, key or part that only they have, and none that only others have."""
    if source.shape not in ("lines", "document"):
        return False
    found = source.first_objects
    if found and not is_message(found[0]):
        messages = next((messages for container in _containers(found[0]) for messages in _message_lists(container)), [])
        return _are_messages(messages[:50])
    return _are_messages(found)


def _are_messages(messages: Sequence[JSON]) -> bool:
    some = [message for message in messages if isinstance(message, dict)]
    if not some or not all(is_message(message) and message.get("type") != "message" for message in some):
        return False
    parts = [part for message in some for part in list_at(message, "content") if isinstance(part, dict)]
    types = [part.get("type") for part in parts]
    if any(is_foreign_part(part) or part.get("type") in _FOREIGN_PARTS for part in parts) or any(map(is_thread_message, some)):
        return False
    return any(isinstance(kind, str) and kind in _OWN_PARTS for kind in types) or any(
        text_at(message, "role") in _OWN_ROLES or not _OWN_KEYS.isdisjoint(message) for message in some
    )


def _containers(value: Object) -> list[Object]:
    """The objects in a value that hold conversations: itself, or those of a results file's list."""
    if not _FOREIGN_KEYS.isdisjoint(value) or isinstance(object_at(value, "info").get("exit_status"), str):
        return []
    if any(isinstance(value.get(key), list) for key in _LISTS):
        return [value]
    return [item for key in _RESULTS for item in list_at(value, key) if isinstance(item, dict) and _message_lists(item)]


def _message_lists(value: Object) -> list[list[JSON]]:
    return [found for key in _LISTS if isinstance(found := value.get(key), list)]


# --- reading


class _Log(NamedTuple):
    """What a file has of one conversation. ``line``: its line where the file is JSON lines."""

    key: str
    messages: Sequence[JSON]
    data: Object
    reply: Object
    line: int | None


def read(source: Source) -> Transcript:
    """The conversations of a file; several, or those of a results file, are samples."""
    loose: list[tuple[int, JSON]] = []
    logs: list[_Log] = []
    for line, value in tops(source):
        if isinstance(value, dict) and not is_message(value):
            logs += _logs_of(value, line)
        elif isinstance(value, list) and any(isinstance(item, dict) and _containers(item) for item in value):
            logs += [log for item in value if isinstance(item, dict) for log in _logs_of(item, line)]
        elif isinstance(value, list):
            loose += [(line or number, item) for number, item in enumerate(value, 1)]
        else:
            loose.append((line or 1, value))
    found = [_conversation(source, log, Ids()) for log in logs]
    if loose:
        found.append(Conversation(Log(None, _entries(source, loose, Ids()))))
    equals = [each for each in found if each.kind == "main"]
    if len(equals) > 1 or any(log.key == "traj" for log in logs):
        found = [_sample(conversation, place) for place, conversation in enumerate(found, 1)]
    return transcript(NAME, source, [conversation for conversation in found if len(conversation.log)])


def _sample(conversation: Conversation, place: int) -> Conversation:
    """One of several: it has a name."""
    log = conversation.log
    if not log.head.name and not log.head.id:
        log = log.with_head(msgspec.structs.replace(log.head, name=str(place)))
    return Conversation(log, "sample")


def _logs_of(value: Object, line: int | None) -> Iterator[_Log]:
    for container in _containers(value):
        for key in _LISTS:
            if isinstance(messages := container.get(key), list):
                yield _Log(key, messages, container, object_at(container, "response"), line)
        if isinstance(raw := container.get("raw_messages"), list):
            reply = object_at(container, "raw_response")
            yield _Log("raw_messages", raw, {"name": "raw_messages"}, reply, line)


def _conversation(source: Source, log: _Log, ids: Ids) -> Conversation:
    numbered = [(log.line or number, message) for number, message in enumerate(log.messages, 1)]
    reply = dig(log.reply, "choices", 0, "message")
    if isinstance(reply, dict) and not (log.messages and log.messages[-1] == reply):
        numbered.append((log.line or len(numbered) + 1, reply))
    entries = _entries(source, numbered, ids)
    if log.reply and entries and entries[-1].kind == "assistant":
        entries[-1] = msgspec.structs.replace(
            entries[-1],
            usage=litellm_usage(log.reply.get("usage")),
            api_id=text_at(log.reply, "id") or None,
            model=text_at(log.reply, "model") or None,
            time=parse_time(log.reply.get("created")),
        )
    return Conversation(Log(_head(log), entries), "sample" if log.key == "raw_messages" else "main")


def _entries(source: Source, messages: Sequence[tuple[int, JSON]], ids: Ids) -> list[Entry]:
    """An entry for each message; what is none is listed as bad."""
    entries: list[Entry] = []
    paired = PairCalls()
    for number, message in messages:
        if not isinstance(message, dict):
            source.bad(number, f"a {type(message).__name__} where a message was expected")
            continue
        try:
            decoded = paired(decode(message))
        except ValueError as error:
            source.bad(number, str(error))
            continue
        entry = entry_of(decoded, ids(message.get("id")), number)
        usage = litellm_usage(message.get("usage")) if entry.kind == "assistant" else None
        entries.append(msgspec.structs.replace(entry, time=parse_time(message.get("timestamp")), usage=usage))
    return entries


def _head(log: _Log) -> Head:
    data = log.data
    rest = without(data, *_LISTS, "raw_messages", "tools", "model")
    for key in ("response", "raw_response"):
        if key in rest:
            rest[key] = without(object_at(rest, key), "choices", "usage")
    model = text_at(data, "model") or text_at(log.reply, "model")
    return Head(
        id=text_at(data, "id"),
        model=model or None,
        tools=tuple(tool for tool in list_at(data, "tools") if isinstance(tool, dict)),
        name=text_at(data, "name") or _task_name(data),
        extra=rest,
    )


def _task_name(data: Object) -> str:
    """tau-bench names a conversation by its task and trial."""
    names = {"task": data.get("task_id"), "trial": data.get("trial")}
    return ", ".join(f"{what} {value}" for what, value in names.items() if isinstance(value, int | str))
