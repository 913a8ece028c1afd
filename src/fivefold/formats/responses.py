"""OpenAI Responses: a list of items, a request (``input``), a response object (``output``), or any of these as JSON lines.

One item is one entry; how an item becomes blocks and goes out again is in ``responses_items``. Entries of a response
object share its id; in a list of items adjacent assistant entries are one response. Several requests or responses in one
file are several conversations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ..core.entries import Entry, Head
from ..core.log import Log
from ..core.messages import JSON, Object, Text
from ..core.transcript import Conversation, Transcript
from .common import Ids, openai_usage, transcript
from .fields import list_at, text_at, without
from .openai_parts import entry_of, tops
from .responses_items import CALLS, HOSTED, OUTPUTS, decode
from .source import Source

NAME = "openai-responses"


# --- recognising


def recognises(source: Source) -> bool:
    """Whether the content is Responses items: each of a list may be one and some could be nothing else; or the object of
    a request or response that holds such a list, or names a model beside it."""
    if source.shape not in ("lines", "document"):
        return False
    found = source.first_objects
    if not found:
        return False
    placed = _items_of(found[0])
    items = list(found) if placed is None else [each.item for each in placed][:20]
    named = placed is not None and "messages" not in found[0] and bool(text_at(found[0], "model"))
    return bool(items) and all(_may_be_item(item) for item in items) and (named or any(_is_item(item) for item in items))


def _may_be_item(item: JSON) -> bool:
    if not isinstance(item, dict) or "payload" in item:
        return False
    return isinstance(item.get("type"), str) or ("role" in item and "content" in item)


def _is_item(item: JSON) -> bool:
    """Whether an object can be nothing but a Responses item."""
    match item:
        case {"type": "reasoning", "summary": list()} | {"type": "compaction", "encrypted_content": str()}:
            return True
        case {"type": str(kind), "call_id": str()}:
            return kind in CALLS or kind in OUTPUTS
        case {"type": str(kind), "id": str()} if kind in HOSTED:
            return True
        case {"type": "message", "role": str(), "content": str()}:
            return True
        case {"role": str(), "content": [{"type": "input_text" | "output_text" | "input_image" | "input_file" | "refusal"}, *_]}:
            return True
        case _:
            return False


# --- reading


class _Placed(NamedTuple):
    item: JSON
    answered: bool
    """Whether it stands in a response's output."""


def _items_of(value: JSON) -> Iterator[_Placed] | None:
    """The items of a request, a response, or both in one object; None where the value holds no list of items."""
    if isinstance(value, list):
        return (_Placed(item, False) for item in value)
    if not isinstance(value, dict) or isinstance(value.get("type"), str):
        return None
    given, answer = value.get("input"), _answer_of(value)
    if isinstance(given, str) and isinstance(answer.get("output"), list):
        given = [{"role": "user", "content": given}]
    elif value.get("object") == "list":
        given = value.get("data")
    if not isinstance(given, list) and not isinstance(answer.get("output"), list):
        return None
    asked = (_Placed(item, False) for item in (given if isinstance(given, list) else []))
    return (placed for part in (asked, (_Placed(item, True) for item in list_at(answer, "output"))) for placed in part)


def _answer_of(value: Object) -> Object:
    """The response in an object that holds request and response side by side; else the object itself."""
    inner = value.get("response")
    return inner if isinstance(inner, dict) and isinstance(inner.get("output"), list) else value


def read(source: Source) -> Transcript:
    """The conversations of a file. The usage of a response object stands on its last entry."""
    loose: list[Entry] = []
    found: list[Conversation] = []
    ids = Ids()
    for line, value in tops(source):
        placed = _items_of(value) if line is None or isinstance(value, dict) else None
        if placed is not None:
            found.append(_conversation(placed, value, line))
        elif isinstance(value, list | dict):
            loose += [_entry(item, ids, line or 1) for item in (value if isinstance(value, list) else [value])]
        else:
            source.bad(line or 1, f"a {type(value).__name__} where an item was expected")
    if loose:
        found.insert(0, Conversation(Log(None, loose)))
    if len(found) > 1:
        found = [Conversation(each.log, "sample") for each in found]
    return transcript(NAME, source, found)


def _entry(item: JSON, ids: Ids, number: int) -> Entry:
    return entry_of(decode(item), ids(item.get("id") if isinstance(item, dict) else None), number)


def _conversation(items: Iterator[_Placed], value: JSON, line: int | None) -> Conversation:
    ids = Ids()
    data = value if isinstance(value, dict) else {}
    answer = _answer_of(data)
    head = _head(data, answer)
    usage = openai_usage(answer.get("usage"))
    entries: list[Entry] = []
    for number, (item, answered) in enumerate(items, 1):
        entry = _entry(item, ids, number if line is None else line)
        if answered and entry.kind == "assistant":
            entry = msgspec.structs.replace(entry, api_id=text_at(answer, "id") or None, model=head.model)
        entries.append(entry)
    if entries and usage is not None and entries[-1].kind == "assistant":
        entries[-1] = msgspec.structs.replace(entries[-1], usage=usage)
    return Conversation(Log(head, entries))


def _head(data: Object, answer: Object) -> Head:
    """What is said of the whole: from the request where it says so, else from the response."""
    rest = without(data, "input", "output", "data", "response", "instructions", "tools", "model", "usage")
    if answer is not data:
        rest["response"] = without(answer, "output")
    merged = {**answer, **data}
    instructions = text_at(merged, "instructions")
    return Head(
        id=text_at(answer, "id"),
        model=text_at(merged, "model") or None,
        system=(Text(instructions),) if instructions else (),
        tools=tuple(tool for tool in list_at(merged, "tools") if isinstance(tool, dict)),
        extra=rest,
    )
