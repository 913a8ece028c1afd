"""The journal that Gemini CLI writes a session as: what is in the log, and what of it the model is shown.

A message id that comes again replaces its message where it first stood. ``$rewindTo`` takes that message and all
behind it away: a branch. ``$set`` with ``messages`` gives the list that the model is shown from then on: a change
of what is shown, where it differs from the list before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from ..core.messages import Object
from ..core.transcript import OtherRecord
from .gemini_parts import SPOKEN, Message, calls_in, is_answer_to
from .source import Source


@dataclass(eq=False)
class Shown:
    """From here on the messages ``hidden`` are not shown, and ``instead`` stand where they stood."""

    line: int
    hidden: tuple[str, ...]
    instead: tuple[Message, ...]


Item: TypeAlias = Message | Shown


@dataclass
class Journal:
    """The state of a session while its records are read."""

    source: Source
    metadata: Object = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    """The log to be: messages, and changes of what is shown."""
    messages: dict[str, Message] = field(default_factory=dict)
    owner: dict[str, Item] = field(default_factory=dict)
    """What brought a message into what is shown: itself, or the change it stands in."""
    view: list[str] = field(default_factory=list)
    """Ids of the messages shown, in order."""
    branches: list[tuple[str, list[Item]]] = field(default_factory=list)
    """What was rewound, each with the id of the message before it."""
    other: list[OtherRecord] = field(default_factory=list)

    def add(self, message: Message) -> None:
        """A message, new or again."""
        known = self.messages.get(message.id)
        if known is not None:
            self.other.append(OtherRecord(known.line, bytes(known.raw)))
            known.type, known.record, known.line, known.raw = message.type, message.record, message.line, message.raw
            return
        self.messages[message.id] = self.owner[message.id] = message
        self.items.append(message)
        if message.type in SPOKEN:
            self.view.append(message.id)

    def rewind(self, id: str, line: int) -> None:
        """Take a message and all behind it out of the main line."""
        if id not in self.view:
            self.source.bad(line, f"rewinds to message {id[:60]!r}, which is not there")
            return
        first = self.owner[id]
        at = self.items.index(first)
        if isinstance(first, Message):
            self._cut(at)
            return
        self._cut(at + 1)
        self._change(self.view.index(id), len(self.view), (), line)

    def show(self, shown: list[Message], line: int) -> None:
        """What the model is shown from here on is exactly ``shown``."""
        answered = {id for message in self.messages.values() for id in calls_in(message.record)}
        shown = [m for m in shown if m.id in self.owner or not is_answer_to(m.record, answered)]
        new = [m.id for m in shown]
        start, end = _common_ends(self.view, new)
        if start == len(self.view):
            for message in shown[start:]:
                self.add(message)
        elif start + end < max(len(new), len(self.view)):
            start, end = self._widened(start, end)
            self._change(start, len(self.view) - end, tuple(shown[start : len(new) - end]), line)

    def _widened(self, start: int, end: int) -> tuple[int, int]:
        """The differing stretch widened so that it hides something, and hides no earlier change in part."""
        if start + end == len(self.view):
            start, end = (start - 1, end) if start else (start, end - 1)
        owners = [self.owner[id] for id in self.view]
        touched = {id(owner) for owner in owners[start : len(owners) - end] if isinstance(owner, Shown)}
        while start and id(owners[start - 1]) in touched:
            start -= 1
        while end and id(owners[-end]) in touched:
            end -= 1
        return start, end

    def _change(self, start: int, stop: int, instead: tuple[Message, ...], line: int) -> None:
        change = Shown(line, tuple(self.view[start:stop]), instead)
        self.view[start:stop] = [m.id for m in instead]
        self.items.append(change)
        for message in instead:
            self.messages.setdefault(message.id, message)
            self.owner[message.id] = change

    def _cut(self, at: int) -> None:
        """Move the items from ``at`` on to a branch; changes among them are undone with it."""
        left = self.items[at:]
        if not left:
            return
        del self.items[at:]
        after = next((item.id for item in reversed(self.items) if isinstance(item, Message)), "")
        self.branches.append((after, left))
        gone = {item.id for item in left if isinstance(item, Message)}
        if len(gone) == len(left):
            for id in gone:
                del self.messages[id], self.owner[id]
            while self.view and self.view[-1] in gone:
                self.view.pop()
            return
        self.messages, self.owner, self.view = {}, {}, []
        for item in self.items:
            self._again(item)

    def _again(self, item: Item) -> None:
        if isinstance(item, Message):
            self.messages[item.id] = self.owner[item.id] = item
            if item.type in SPOKEN:
                self.view.append(item.id)
            return
        places = [self.view.index(id) for id in item.hidden if id in self.view]
        start = min(places, default=len(self.view))
        hidden = set(item.hidden)
        self.view[start:] = [*(m.id for m in item.instead), *(id for id in self.view[start:] if id not in hidden)]
        for message in item.instead:
            self.messages.setdefault(message.id, message)
            self.owner[message.id] = item


def _common_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many items two lists share at their starts, and, of the rest, at their ends."""
    most = min(len(old), len(new))
    start = 0
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, end


def spoken(messages: Iterable[Message | None]) -> list[Message]:
    """The messages that a model can be shown, each id once, the last one counting."""
    found: dict[str, Message] = {}
    for message in messages:
        if message is not None and message.type in SPOKEN:
            found[message.id] = message
    return list(found.values())
