"""The references of one conversation, and what was seen of them: the memory behind a summary without a model (B2, L14)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_

from ..core.entries import Entry
from .index import Index
from .shapes import Kind as Kind
from .shapes import Shapes, every, pieces_of
from .shapes import find as find
from .shapes import words_of as words_of


class Extractor(Shapes):
    """Finds references in texts, and remembers what one conversation has shown of them.

    A caller may keep one for each conversation and feed it as the conversation goes on (``learn``); a plan then pays for
    choosing alone. It changes nothing in a plan but what it costs.
    """

    def __init__(self, *, words: bool = False) -> None:
        super().__init__(words=words)
        self.index = Index(self)

    def learn(self, entries: Iterable[Entry]) -> None:
        """Take in the entries that were said since the last call (or since a plan), at a cost for these alone."""
        self.index.add(entries)
        self.index.prepare()

    def knowing(self, entries: Sequence[Entry]) -> Extractor:
        """A memory of just these entries: this one, brought up to them, or a new one where this one has gone on further. One
        that has seen other entries, of a conversation that was rewound, starts anew."""
        have = self.index.entries
        if len(have) > len(entries) and all(map(is_, entries, have)):
            return Extractor(words=self.words).knowing(entries)
        if not all(map(is_, have, entries)):
            self._start(words=False)
        self.index.add(entries[len(self.index.entries) :])
        if self.index.is_sparse != self.words:
            self._start(words=not self.words)
            self.index.add(entries)
        return self

    def _start(self, *, words: bool) -> None:
        super().__init__(words=words)
        self.index = Index(self)

    def of(self, text: str) -> frozenset[str]:
        """All references in a text."""
        return frozenset(every(self.rows(pieces_of(text))))

    def of_call(self, text: str) -> frozenset[str]:
        """All references in the input of a call, the two-word commands of a script (``git rebase``) among them."""
        return self.of(text).union(command for _, command in self.commands(text))

    def once(self, text: str) -> set[str]:
        """The same as ``of``, of a text that is not to be remembered."""
        return every(self._read(pieces_of(text)))
