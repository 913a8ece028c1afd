"""Message lists of Anthropic's API, alone, in requests, in results files, and as JSON lines (Z3, Z4).

``Transcript.meta["frame"]`` says how the file was put together around its conversations, so that ``encode`` gives back the
whole of it: ``messages`` (a list, by number of its conversation), ``request`` (an object that holds one under ``key``),
``list``, ``within`` (other keys around a frame under ``key``), ``line`` (a message that is a line of its own), ``value``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from ..core.entries import NO_RAW, SHOWN_AS, Entry, Head
from ..core.log import Log
from ..core.messages import JSON, Block, Object, Text, decode_block, encode_block
from ..core.transcript import Conversation, ConversationKind, OtherRecord, Transcript
from .anthropic_messages import decode, encode_messages, is_foreign, is_message, is_messages
from .anthropic_messages import encode as encode_message
from .common import Ids, transcript
from .fields import is_single_document
from .source import MAX_LINE, Source, loads

NAME = "anthropic"
KEYS = ("messages", "traj", "trajectory", "history", "conversation", "transcript")
"""Where an object may hold its message list, the first that does."""
GROUP_KEYS = ("results", "samples", "conversations", "trajectories", "sessions", "data", "requests")
"""Where an object may hold a list of conversations."""
FOREIGN_KEYS = frozenset(("trajectory_format", "eval", "schema_version", "projectHash", "uuid", "parentUuid"))
"""Keys that mark objects of other formats, which may hold such lists too."""
NAME_KEYS = ("name", "id", "session_id", "sessionId", "conversation_id", "instance_id", "task_id", "sample_id")


def recognises(source: Source) -> bool:
    """Whether the content is message lists in Anthropic's shape (see ``is_messages``), alone or inside objects."""
    if source.shape == "document":
        return _holds(source.document)
    if source.shape != "lines":
        return False
    if _holds(_first_line(source)):
        return True
    found = source.first_objects
    messages = [_line_message(first) for first in found]
    if not found or any(FOREIGN_KEYS & first.keys() or is_foreign(first) for first in found):
        return False
    return is_messages(messages) or any(_key_of(first) or _group_key(first) for first in found)


def _first_line(source: Source) -> JSON:
    """The value of the first line, which may be a whole document; None where it is no JSON."""
    with source.open() as file:
        try:
            return loads(file.readline(MAX_LINE))
        except ValueError:
            return None


def _holds(document: JSON) -> bool:
    if isinstance(document, list):
        return is_messages(document) or (bool(document) and any(_key_of(item) or is_messages(item) for item in document))
    return bool(_key_of(document)) or bool(_group_key(document))


def _key_of(value: JSON) -> str:
    """The key under which an object holds its messages; empty where it holds none."""
    if not isinstance(value, dict) or FOREIGN_KEYS & value.keys():
        return ""
    return next((key for key in KEYS if is_messages(value.get(key))), "")


def _group_key(value: JSON) -> str:
    if not isinstance(value, dict) or FOREIGN_KEYS & value.keys():
        return ""
    return next((key for key in GROUP_KEYS if isinstance(value.get(key), list) and _holds(value[key])), "")


def _line_message(value: JSON) -> JSON:
    """The message of a line that is one, or an envelope of one ({type, timestamp, message})."""
    if not isinstance(value, dict):
        return None
    inner = value.get("message")
    if value.get("type") in ("user", "assistant") and isinstance(inner, dict) and inner.get("role") in ("user", "assistant"):
        return inner
    return value if is_message(value) else None


def read(source: Source) -> Transcript:
    """All conversations of a file. Raises InputError where there is no message in it."""
    reading = _Reading(source)
    if source.shape == "lines":
        frame: Object = {"lines": list(reading.lines())}
    else:
        frame = reading.frame(source.document)
    kind: ConversationKind = "main" if len(reading.found) == 1 else "sample"
    conversations = [Conversation(Log(head, entries), kind) for head, entries in reading.found]
    return transcript(NAME, source, conversations, reading.other, {"frame": frame})


class _Reading:
    """One pass over a file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: list[tuple[Head, list[Entry]]] = []
        self.other: list[OtherRecord] = []
        self._ids = Ids("m")
        self._number = 0  # messages so far, the place of one in a document
        self._line = 0  # the line being read, the place of all its messages in JSON lines

    def frame(self, value: JSON) -> Object:
        """The frame of a value, its conversations taken out. It goes down an object, a list and an object at most."""
        if isinstance(value, list) and not is_messages(value):
            return {"list": [self._item(item) for item in value]}
        group = "" if _key_of(value) else _group_key(value)
        if isinstance(value, dict) and group:
            return {"within": {k: v for k, v in value.items() if k != group}, "key": group, "frame": self.frame(value[group])}
        return self._item(value)

    def _item(self, value: JSON) -> Object:
        if isinstance(value, list) and is_messages(value):
            return {"messages": self._conversation(Head(), value)}
        key = _key_of(value)
        if isinstance(value, dict) and key:
            return self._request(value, key)
        return {"value": value}

    def _request(self, value: Object, key: str) -> Object:
        rest = {k: v for k, v in value.items() if k != key}
        system, bare = _system(rest)
        tools = rest.get("tools")
        if isinstance(tools, list) and tools and all(isinstance(tool, dict) for tool in tools):
            rest.pop("tools")
        else:
            tools = []
        model = rest.get("model")
        if isinstance(model, str):
            rest.pop("model")
        name = next((f"{k} {rest[k]}" for k in NAME_KEYS if isinstance(rest.get(k), str | int)), "")
        id = next((rest[k] for k in ("id", "session_id", "sessionId", "conversation_id") if isinstance(rest.get(k), str)), "")
        head = Head(
            id=str(id),
            model=model if isinstance(model, str) else None,
            system=system,
            tools=tuple(tool for tool in tools if isinstance(tool, dict)),
            name=name,
            extra=rest,
        )
        messages = value[key]
        return {"request": self._conversation(head, messages if isinstance(messages, list) else []), "key": key, "bare_system": bare}

    def _conversation(self, head: Head, messages: list[JSON]) -> int:
        entries: list[Entry] = []
        for message in messages:
            self._number += 1
            place = self._line or self._number
            entry = decode(message, self._ids, place)
            if entry is None:
                self.source.bad(place, "not an object with the role user, assistant or system")
            else:
                entries.append(entry)
        self.found.append((head, entries))
        return len(self.found) - 1

    def lines(self) -> Iterator[JSON]:
        """A frame a line. Lines that are messages make one conversation together."""
        own = -1
        single = is_single_document(self.source)
        for line, value in self.source.values():
            if not isinstance(value, dict | list):
                self.source.bad(line.number, f"a {type(value).__name__} where a message or an object with messages was expected")
                continue
            message = _line_message(value)
            self._line = 0 if single else line.number
            if isinstance(message, dict):
                envelope = message is not value and isinstance(value, dict)
                time = value.get("timestamp") if envelope and isinstance(value, dict) else None
                entry = decode(message, self._ids, line.number, msgspec.Raw(line.data) if envelope else NO_RAW, time)
                if entry is not None:
                    if own < 0:
                        own = len(self.found)
                        self.found.append((Head(), []))
                    self.found[own][1].append(entry)
                    yield {"line": own}
                    continue
            framed = self.frame(value)
            if "value" in framed:
                self.other.append(OtherRecord(line.number, line.data))
            yield framed


def _system(rest: Object) -> tuple[tuple[Block, ...], bool]:
    """The system prompt, taken out of a request's keys, and whether it was a plain string; what is neither a string nor a
    list that is not empty stays where it is."""
    system = rest.get("system")
    if isinstance(system, str):
        rest.pop("system")
        return (Text(system),), True
    if isinstance(system, list) and system:
        rest.pop("system")
        return tuple(decode_block(part) for part in system), False
    return (), False


def said(conversation: Conversation) -> Iterable[Entry]:
    """All that was said in a conversation, hidden or not."""
    return conversation.log.entries()


def encode(read_before: Transcript, shown: Callable[[Conversation], Iterable[Entry]] = said) -> JSON:
    """The file's value with the entries that ``shown`` gives for each conversation: with ``said``, what was read. For JSON
    lines a list with the value of each line; of a transcript of another format, the message list of its main conversation.
    """
    frame = read_before.meta.get("frame")
    if not isinstance(frame, dict):
        # The records of other formats hold no keys of these messages.
        entries = (msgspec.structs.replace(entry, raw=NO_RAW) for entry in shown(read_before.main))
        return list[JSON](encode_messages(entries))
    return _Writing(read_before.conversations, shown).value(frame)


class _Writing:
    def __init__(self, conversations: tuple[Conversation, ...], shown: Callable[[Conversation], Iterable[Entry]]) -> None:
        self.conversations = conversations
        self.shown = shown

    def value(self, frame: Object) -> JSON:
        """What a frame stands for."""
        match frame:
            case {"messages": int(number)}:
                return list[JSON](encode_messages(self.shown(self.conversations[number])))
            case {"request": int(number), "key": str(key)}:
                return self._request(number, key, bool(frame.get("bare_system")))
            case {"within": dict(around), "key": str(key), "frame": dict(inner)}:
                return {**around, key: self.value(inner)}
            case {"list": list(items)}:
                return [self.value(item) for item in items if isinstance(item, dict)]
            case {"lines": list(items)}:
                return self._lines([item for item in items if isinstance(item, dict)])
            case _:
                return frame.get("value")

    def _request(self, number: int, key: str, bare_system: bool) -> Object:
        conversation = self.conversations[number]
        head = conversation.log.head
        out: Object = {}
        if head.model is not None:
            out["model"] = head.model
        if head.system:
            first = head.system[0]
            bare = bare_system and len(head.system) == 1 and isinstance(first, Text)
            out["system"] = first.text if bare and isinstance(first, Text) else [encode_block(block) for block in head.system]
        if head.tools:
            out["tools"] = list[JSON](head.tools)
        return {**out, **head.extra, key: list[JSON](encode_messages(self.shown(conversation)))}

    def _lines(self, frames: list[Object]) -> list[JSON]:
        """Lines in their places; where the entries of a conversation of lines are not those read, all at its first."""
        places = [n for n, frame in enumerate(frames) if "line" in frame]
        own = frames[places[0]]["line"] if places else None
        shown = self.shown(self.conversations[own]) if isinstance(own, int) else ()
        lines = [_line(entry) for entry in shown if entry.kind in SHOWN_AS]
        each = iter(lines) if len(lines) == len(places) else None
        out: list[JSON] = []
        for n, frame in enumerate(frames):
            if "line" not in frame:
                out.append(self.value(frame))
            elif each is not None:
                out.append(next(each))
            elif n == places[0]:
                out.extend(lines)
        return out


def _line(entry: Entry) -> Object:
    """An entry as a line: in its envelope, where it came in one."""
    message = encode_message(entry)
    try:
        envelope = loads(bytes(entry.raw) or b"null")
    except ValueError:
        envelope = None
    return {**envelope, "message": message} if isinstance(envelope, dict) and "message" in envelope else message
