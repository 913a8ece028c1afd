"""Conversations of callers that send their whole history at every call (design: callers without state; Y4).

The longest prefix that is known finds the conversation; what is new is appended; the view goes out. A history that was rewound,
branched or edited shares a shorter prefix: it gets a conversation of its own, with the folds that lie inside what it shares. Losing
what is kept here costs money, never correctness: a history that nobody knows is one that begins.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from .core.entries import Entry, Fold, Head, Record, Unfold, Usage
from .core.fingerprint import MARK, digests, plain
from .core.log import Log
from .core.messages import JSON, encode_message
from .core.state import Phase
from .driving import Driving, Outgoing
from .formats import anthropic_messages, openai_chat_messages
from .formats.common import Ids

D = TypeVar("D", bound=Driving)
Wire: TypeAlias = Literal["anthropic", "openai-chat"]
MOST = 512
"""Conversations that are kept; the one used longest ago is forgotten first (H4)."""


class Answered(NamedTuple):
    """What a response told beside its message."""

    usage: Usage | None = None
    api_id: str | None = None
    model: str | None = None
    context_management: JSON = None


class History(Generic[D]):
    """One conversation: its driver, and where each of the client's messages ends in its log."""

    def __init__(self, driver: D, names: Sequence[bytes] = (), ends: Sequence[int] = ()) -> None:
        self.driver = driver
        self.names = list(names)
        self.ends = list(ends)
        """Length of the log behind each message."""
        self.answered: Answered | None = None
        self.marks = False
        """Whether the client asks for its prefix to be cached."""

    def take(self, entries: Sequence[Sequence[Entry]], names: Sequence[bytes]) -> None:
        """Messages that follow on what is known: the first of them may be the response that was waited for."""
        driver = self.driver
        if not names and driver.state.phase is Phase.SENT:
            driver.cancel()  # the same request again
        for name, made in zip(names, entries, strict=True):
            waited = driver.state.phase is Phase.SENT
            if waited and made and all(entry.kind == "assistant" for entry in made):
                driver.replied(
                    *map(self._told, made), context_management=None if self.answered is None else self.answered.context_management
                )
                self.answered = None
            else:
                if waited:
                    driver.cancel()
                driver.say(*made)
            self.names.append(name)
            self.ends.append(len(driver.log))

    def _told(self, entry: Entry) -> Entry:
        found = self.answered
        if found is None:
            return entry
        return msgspec.structs.replace(entry, usage=found.usage, api_id=found.api_id or entry.api_id, model=found.model)


class Histories(Generic[D]):
    """The conversations of one wire format. ``begin`` makes a driver for a log."""

    def __init__(self, begin: Callable[[Log], D], *, wire: Wire = "anthropic", most: int = MOST) -> None:
        self.begin, self.wire, self.most = begin, wire, most
        self._known: OrderedDict[int, History[D]] = OrderedDict()
        self._places: dict[bytes, tuple[int, int]] = {}
        self._made = 0

    def __len__(self) -> int:
        return len(self._known)

    def find(self, messages: Sequence[JSON], head: Head, *, marks: bool = False) -> History[D]:
        """The conversation of these messages, which are taken in. ``head``: system prompt and tools, for one that begins.

        Raises ValueError for a message that this wire format does not know; nothing is taken in then.
        """
        names = list(digests(messages))
        known, shared = self._longest(names)
        new = messages[shared:]
        entries = [list(self._entries(message, names[shared + i], shared + i + 1)) for i, message in enumerate(new)]
        if known is None:
            history = self._add(History(self.begin(Log(head))))
        elif shared < len(known.names):
            history = self._add(branched(known, shared, head, self.begin))
        else:
            history = known
        at = len(history.names)
        history.take(entries, names[at:])
        history.marks = history.marks or marks or any(has_marks(message) for message in messages)
        number = next(number for number, one in self._known.items() if one is history)
        self._known.move_to_end(number)
        self._places.update({name: (number, place) for place, name in enumerate(history.names[at:], at + 1)})
        return history

    def _longest(self, names: Sequence[bytes]) -> tuple[History[D] | None, int]:
        for place in range(len(names), 0, -1):
            found = self._places.get(names[place - 1])
            if found is not None and found[0] in self._known:
                return self._known[found[0]], place
        return None, 0

    def _add(self, history: History[D]) -> History[D]:
        self._made += 1
        self._known[self._made] = history
        for place, name in enumerate(history.names, 1):
            self._places[name] = (self._made, place)
        while len(self._known) > self.most:
            number, gone = self._known.popitem(last=False)
            for name in gone.names:
                if self._places.get(name, (0, 0))[0] == number:
                    del self._places[name]
        return history

    def _entries(self, message: JSON, name: bytes, number: int) -> Iterator[Entry]:
        """A client's message as entries; ids come from the digest, so they are the same in every process."""
        bare = plain(message)
        id = f"m{name.hex()[:20]}"
        if self.wire == "anthropic":
            found = anthropic_messages.decode(_unmarked(message), Ids(), number)
            if found is None:
                raise ValueError(f"message {number} has no role that is known")
            yield msgspec.structs.replace(found, id=id)
            return
        if not isinstance(bare, dict) or not openai_chat_messages.is_message(bare):
            raise ValueError(f"message {number} is no message of Chat Completions")
        made = openai_chat_messages.decode(bare)
        role = bare.get("role")
        kind: Literal["system", "assistant", "user"] = (
            "system" if role in ("system", "developer") else "assistant" if role == "assistant" else "user"
        )
        yield Entry(id=id, kind=kind, blocks=made.blocks, bare=made.bare, extra=made.extra, line=number)


def branched(known: History[D], shared: int, head: Head, begin: Callable[[Log], D]) -> History[D]:
    """A conversation that shares so many of another's messages, with the folds that lie inside them."""
    end = known.ends[shared - 1] if shared else 0
    log = Log(head, within(known.driver.log, end))
    return History(begin(log), known.names[:shared], known.ends[:shared])


def within(log: Log, end: int) -> Iterator[Record]:
    """The records of a log up to its entry number ``end``."""
    said, taken = log.base, set[str]()
    for record in log.records():
        if isinstance(record, Entry):
            said += 1
            if said > end:
                return
        elif isinstance(record, Fold):
            taken.add(record.id)
        elif isinstance(record, Unfold) and record.fold not in taken:
            continue
        yield record


# --- the way out


def changed(out: Outgoing) -> bool:
    """Whether the request differs from what the client has sent: a fold is in force, or something had to be mended."""
    return bool(out.state.log.folds) or bool(out.request.findings)


def messages_of(history: History[D], out: Outgoing) -> list[JSON]:
    """A request's messages for Anthropic, with cache marks where the client wants its prefix cached: on the last message, and on the
    one that was the last before it, so that the next request finds the longest prefix (I5)."""
    made: list[JSON] = [encode_message(message) for message in out.request.messages]
    if history.marks and made:
        for place in {len(made) - 1, max(0, len(made) - 3)}:
            made[place] = marked(made[place])
    return made


def marked(message: JSON) -> JSON:
    """A message with a cache mark on its last block that can have one."""
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    blocks: list[JSON] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else list(content) if isinstance(content, list) else []
    )
    for place in range(len(blocks) - 1, -1, -1):
        block = blocks[place]
        if isinstance(block, dict) and block.get("type") not in ("thinking", "redacted_thinking"):
            blocks[place] = {**block, MARK: {"type": "ephemeral"}}
            return {**message, "content": blocks}
    return message


# --- cache marks


def has_marks(value: JSON) -> bool:
    """Whether anything in it asks the provider to cache."""
    if isinstance(value, dict):
        return MARK in value or has_marks(value.get("content"))
    return isinstance(value, list) and any(map(has_marks, value))


def _unmarked(value: JSON) -> JSON:
    """Without cache marks; lists of one text stay lists."""
    if isinstance(value, dict):
        return {key: _unmarked(inner) if key == "content" else inner for key, inner in value.items() if key != MARK}
    return [_unmarked(inner) for inner in value] if isinstance(value, list) else value
