"""LangChain messages: a list of them in any serialisation, a LangGraph state that holds one, JSON lines of either.

How a message becomes blocks and goes out again is in ``langchain_messages``. Usage is LangChain's ``usage_metadata``, whose
input holds the cached parts; the response is named by ``response_metadata.id``, else by the message's own id.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..core.entries import Entry, Head, Usage
from ..core.log import Log
from ..core.messages import JSON, Object
from ..core.transcript import Conversation, OtherRecord, Transcript
from .common import Ids, count, openai_usage, transcript
from .fields import list_at, object_at, text_at, without
from .langchain_messages import Parts, decode, role_of, unwrap
from .openai_parts import compact_json, entry_of, tops
from .source import Source

NAME = "langchain"

_STATES = ("values", "channel_values", "inputs", "state")
"""Keys under which LangGraph's and LangSmith's objects hold a state with ``messages``."""


# --- recognising


def recognises(source: Source) -> bool:
    """Whether the content is LangChain messages, of which one at least is a person's or a model's."""
    if source.shape not in ("lines", "document"):
        return False
    found = source.first_objects
    some: list[JSON] = list(found) if not found or unwrap(found[0]) else (_messages_of(found[0]) or [])[:20]
    parts = [unwrap(message) for message in some]
    known = [part for part in parts if part is not None and _is_known(part)]
    return len(known) == len(parts) and any(part.kind in ("human", "ai") for part in known)


def _is_known(part: Parts) -> bool:
    return part.kind == "remove" or role_of(part) is not None


def _messages_of(value: Object) -> list[JSON] | None:
    """The messages of a state; a list of one list (a batch of one) is opened. None where there are none."""
    for holder in (value, *(object_at(value, key) for key in _STATES)):
        messages = list_at(holder, "messages")
        if messages:
            return messages[0] if isinstance(messages[0], list) and len(messages) == 1 else messages
    return None


# --- reading


def read(source: Source) -> Transcript:
    """The conversations of a file; several states are samples."""
    loose: list[tuple[int, JSON]] = []
    reader = _Reader(source)
    found: list[Conversation] = []
    for line, value in tops(source):
        state = value if isinstance(value, dict) and unwrap(value) is None else {}
        messages = value if isinstance(value, list) else _messages_of(state)
        if messages is None:
            loose.append((line or 1, value))
            continue
        numbered = [(line or number, message) for number, message in enumerate(messages, 1)]
        if isinstance(value, list):
            loose += numbered
        else:
            found.append(Conversation(Log(_head(state), reader.entries(numbered))))
    if loose:
        found.append(Conversation(Log(None, reader.entries(loose))))
    if len(found) > 1:
        found = [Conversation(each.log, "sample") for each in found]
    return transcript(NAME, source, found, reader.other)


def _head(state: Object) -> Head:
    config = object_at(object_at(state, "config"), "configurable")
    id = text_at(state, "thread_id") or text_at(config, "thread_id") or text_at(state, "id")
    rest = without(state, "messages")
    for key in _STATES:
        if isinstance(inner := rest.get(key), dict):
            rest[key] = without(inner, "messages")
    return Head(id=id, extra=rest)


class _Reader:
    """Makes entries of messages, and keeps what is none."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.other: list[OtherRecord] = []

    def entries(self, messages: list[tuple[int, JSON]]) -> list[Entry]:
        ids = Ids()
        return [entry for number, message in messages for entry in self.entry(number, message, ids)]

    def entry(self, number: int, data: JSON, ids: Ids) -> Iterator[Entry]:
        parts = unwrap(data)
        if parts is not None and parts.kind == "remove":  # an order to the state, no message
            self.other.append(OtherRecord(number, compact_json(data).encode()))
            return
        try:
            message = decode(data)
        except ValueError as error:
            self.source.bad(number, str(error))
            return
        body = parts.body if parts is not None else {}
        entry = entry_of(message, ids(body.get("id")), number)
        if message.role == "assistant":
            about = object_at(body, "response_metadata")
            api_id = text_at(about, "id") or text_at(body, "id")
            model = text_at(about, "model_name") or text_at(about, "model")
            yield msgspec.structs.replace(entry, api_id=api_id or None, model=model or None, usage=usage_of(body))
            return
        summary = text_at(object_at(body, "additional_kwargs"), "lc_source") == "summarization"
        yield msgspec.structs.replace(entry, summary=summary, meta=summary) if summary else entry


def usage_of(body: Object) -> Usage | None:
    """The usage of a message in disjoint parts (T2): its input is the whole, with what was read from and written to the
    cache in it. Without ``usage_metadata``, OpenAI's own count where the response brought it."""
    data = body.get("usage_metadata")
    if not isinstance(data, dict):
        return openai_usage(object_at(body, "response_metadata").get("token_usage"))
    details = object_at(data, "input_token_details")
    hour = count(details, "ephemeral_1h_input_tokens")
    written = max(count(details, "cache_creation"), hour + count(details, "ephemeral_5m_input_tokens"))
    read = count(details, "cache_read")
    return Usage(
        input=max(0, count(data, "input_tokens") - written - read),
        cache_write=written,
        cache_read=read,
        output=count(data, "output_tokens"),
        thinking=count(data, "output_token_details", "reasoning"),
        cache_write_1h=hour,
    )
