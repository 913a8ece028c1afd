"""The journal that Gemini CLI writes a session as: what is in the log, and what of it the model is shown.

A message id that comes again replaces its message where it stands. ``$set`` with ``messages`` gives the list that the
model is shown from then on: a change of what is shown, where it differs from the list before. ``$rewindTo`` takes a
message and all behind it away: a branch, or, where such a change stands behind it, one more change.
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
    rewound: bool = False
    """Whether it takes back the end of what was shown; ``instead`` is then what stays of it."""


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
        """Take a message and all behind it out of what is shown. One that is never shown (a note) takes what is shown
        behind it. Items are cut off into a branch, unless that would undo a change to what is shown before the message."""
        known = self.messages.get(id)
        if known is None or (id not in self.view and known.type in SPOKEN):
            where = "not in the session" if known is None else "not shown any more"
            self.source.bad(line, f"rewinds to message {id[:60]!r}, which is {where}: nothing is taken back")
            return
        owner = self.owner[id]
        at = self.items.index(owner)
        start = self.view.index(id) if id in self.view else self._next_shown(at)
        if isinstance(owner, Message) and _view_of(self.items[:at]) == self.view[:start]:
            self._cut(at)
        elif start < len(self.view):
            self._cut(1 + max(place for place, item in enumerate(self.items) if isinstance(item, Shown)))
            begin, _ = self._widened(start, 0)
            kept = tuple(self.messages[id] for id in self.view[begin:start])
            self._change(begin, len(self.view), kept, line, rewound=True)

    def _next_shown(self, at: int) -> int:
        """The place in the view of the first message that stands behind an item; the view's length where there is none."""
        behind = {item.id for item in self.items[at:] if isinstance(item, Message)}
        return next((place for place, id in enumerate(self.view) if id in behind and self.owner[id] is self.messages[id]), len(self.view))

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

    def _change(self, start: int, stop: int, instead: tuple[Message, ...], line: int, *, rewound: bool = False) -> None:
        change = Shown(line, tuple(self.view[start:stop]), instead, rewound)
        self.view[start:stop] = [m.id for m in instead]
        self.items.append(change)
        for message in instead:
            self.messages[message.id] = message  # an update is one of what is shown
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
        self.messages, self.owner = {}, {}
        for item in self.items:
            for message in (item,) if isinstance(item, Message) else item.instead:
                self.messages[message.id], self.owner[message.id] = message, item
        self.view = _view_of(self.items)


def _view_of(items: Iterable[Item]) -> list[str]:
    """Ids of the messages shown after these items, in order."""
    view: list[str] = []
    for item in items:
        if isinstance(item, Message):
            if item.type in SPOKEN:
                view.append(item.id)
            continue
        hidden = set(item.hidden)
        start = next((place for place, id in enumerate(view) if id in hidden), len(view))
        view[start:] = [*(m.id for m in item.instead), *(id for id in view[start:] if id not in hidden)]
    return view


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
