"""What a conversation has shown so far: its texts, and of each reference how often, how lately and where it stood.

Grows with the conversation, each entry looked at once, so that a fold pays for choosing and not for reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..core.entries import Entry
from ..core.messages import Block, ServerToolUse, ToolResult, ToolUse, result_text
from ..core.pairing import Reading
from ..core.tools import asks_people
from .calls import Call, act_of, call_at
from .redact import redact
from .score import lasting_odds
from .sentences import prose_of
from .shapes import Kind, Shapes, pieces_of, starts_of, words_of
from .spoken import Row, Unit, Voice, spoken

BESIDE_CHARS = 24
"""At least so much of its text stands beside a reference."""
SPARSE_CHARS = 500
"""Fewer references than one in so many characters: a conversation without code, in which names and words count."""
_OF_PROSE: tuple[Kind, ...] = ("word", "quoted", "error")
"""Kinds of references that conversations without code have too."""
REFUSED_WITH = "the user said:"
"""What stands in the result of a call that a person refused and said why, before their words (Claude Code)."""
REFUSED_CHARS = 600
_JOINED = 4
"""So many pieces at most are shown together where one by itself says nothing."""


class Line(NamedTuple):
    """What is shown of a reference: a piece of a text, or several where one says nothing beside it, and all that stands in it."""

    unit: int
    start: int
    text: str
    refs: Row
    is_cut: bool
    """It is less than whole lines."""


class Sighting:
    """All that was seen of one reference. Rounds count from 0; -1: never."""

    __slots__ = ("crowd", "kind", "last", "odds", "only_said", "places", "shown", "written", "wrote")

    def __init__(self, kind: Kind, crowd: int) -> None:
        self.kind = kind
        self.crowd = crowd
        """References in the most selective text that showed it, itself included."""
        self.written = 0
        """Rounds in which the assistant wrote it; the last of them is ``wrote``."""
        self.wrote = -1
        self.shown = 0
        """Rounds in which anybody showed it; the last of them is ``last``."""
        self.last = -1
        self.only_said = True
        """Only people's texts had it."""
        self.places: list[tuple[int, int]] = []
        """Unit and piece of its first place in each text that had it, in order."""
        self.odds: float | None = None
        """Its log-odds but for recency, where they were worked out since it was last seen."""

    def work_out(self) -> float:
        """The log-odds but for recency."""
        self.odds = odds = lasting_odds(self.kind, self.written, self.crowd, min(2, self.shown), self.only_said)
        return odds


class Index:
    """The texts of a conversation and the sightings in them."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.entries: list[Entry] = []
        self.units: list[Unit] = []
        self.places: dict[tuple[int, int], int] = {}
        """Which unit a block is, by the numbers of its entry and block."""
        self.seen: dict[str, Sighting] = {}
        self.calls: dict[tuple[int, int | None], Call | None] = {}
        """Calls worked out so far, by their unit and that of their result."""
        self.started: dict[int, str] = {}
        """Ids of background tasks by the unit that says they were started; empty for one that says nothing of the kind."""
        self._chars = 0
        self._shaped = 0
        self._reading = Reading()
        self._before = False
        """Something was said before the first response: a round of its own."""
        self._starts: dict[int, list[int]] = {}
        self._secret: dict[int, bool] = {}
        self._lines: dict[tuple[int, int], Line] = {}
        self._sentences: dict[int, list[Line]] = {}
        self._prepared = 0
        self._open: dict[str, int] = {}
        self._questions: dict[str, str] = {}
        """Tools that asked a person something, by the id of their call."""

    @property
    def is_sparse(self) -> bool:
        """Whether there are too few references for a conversation about code."""
        return self._chars > SPARSE_CHARS * self._shaped

    def add(self, entries: Iterable[Entry]) -> None:
        """Take in what was said next."""
        for entry in entries:
            self._reading = self._reading.read(entry)
            self._before = self._before or not self._reading.number
            number = len(self.entries)
            self.entries.append(entry)
            for block, voice, text, tool in spoken(entry):
                round = self._reading.number - (not self._before)
                voice, tool = self._heard(entry.blocks[block], voice, tool)
                self.places[number, block] = len(self.units)
                self._add(number, block, round, voice, text, tool)

    def _heard(self, block: Block, voice: Voice, tool: str) -> tuple[Voice, str]:
        """Who speaks: a tool that asks a person gives that person's words, and so does a call that a person refused with some."""
        if isinstance(block, ToolUse) and asks_people(block.name):
            self._questions[block.id] = block.name
        if isinstance(block, ToolResult):
            asked = self._questions.get(block.tool_use_id, "")
            if asked or (block.is_error and REFUSED_WITH in result_text(block)[:REFUSED_CHARS]):
                return "person", asked or "a refused call"
        return voice, tool

    def _add(self, entry: int, block: int, round: int, voice: Voice, text: str, tool: str) -> None:
        rows = self.shapes.rows(pieces_of(text))
        call = self.entries[entry].blocks[block]
        if isinstance(call, ToolUse | ServerToolUse) and act_of(call) == "shell":
            self._add_commands(text, rows)
        found: dict[str, int] = {}
        for i, row in enumerate(rows):
            for reference in row:
                if reference not in found:
                    found[reference] = i
        self._see(found, len(self.units), round, voice)
        self.units.append(Unit(entry, block, round, voice, text, frozenset(found), tool, tuple(rows)))
        if voice != "system":
            self._chars += len(text)

    def _add_commands(self, text: str, rows: list[Row]) -> None:
        commands = self.shapes.commands(text)
        starts = starts_of(text) if commands else []
        piece = 0
        for at, command in commands:
            while piece + 1 < len(starts) and starts[piece + 1] <= at:
                piece += 1
            rows[piece] = (*rows[piece], command)

    def _see(self, found: dict[str, int], unit: int, round: int, voice: Voice) -> None:
        seen, crowd = self.seen, len(found)
        own, said = voice in ("assistant", "call"), voice == "person"
        for reference, piece in found.items():
            sighting = seen.get(reference)
            if sighting is None:
                sighting = seen[reference] = Sighting(self.shapes.kinds[reference], crowd)
                self._shaped += sighting.kind not in _OF_PROSE
            sighting.places.append((unit, piece))
            sighting.odds = None
            if sighting.last != round:
                sighting.last = round
                sighting.shown += 1
            if own and sighting.wrote != round:
                sighting.wrote = round
                sighting.written += 1
            if crowd < sighting.crowd:
                sighting.crowd = crowd
            if not said:
                sighting.only_said = False

    def prepare(self) -> None:
        """Work out ahead of time what a fold will ask of the units that came last."""
        for i in range(self._prepared, len(self.units)):
            unit = self.units[i]
            for reference in unit.refs:
                sighting = self.seen[reference]
                sighting.work_out()
                self.line(*sighting.places[-1])
            if unit.voice == "assistant":
                self.sentences(i)
            self.has_secret(i)
            self._prepare_call(i, self.entries[unit.entry].blocks[unit.block])
        self._prepared = len(self.units)

    def _prepare_call(self, i: int, block: Block) -> None:
        """Calls by what answers them; what pairing says in the end (I10) is asked for by its own key."""
        if isinstance(block, ToolUse):
            self._open[block.id] = i
        elif isinstance(block, ToolResult) and block.tool_use_id in self._open:
            call = self._open.pop(block.tool_use_id)
            self.calls[call, i] = call_at(self.entries, self.units, call, i)
        elif i and self.units[i - 1].voice == "assistant" and "```" in self.units[i - 1].text:
            self.calls[i - 1, i] = call_at(self.entries, self.units, i - 1, i)

    def has_secret(self, unit: int) -> bool:
        """Whether a unit holds a secret of known shape."""
        found = self._secret.get(unit)
        if found is None:
            found = self._secret[unit] = redact(self.units[unit].text) != self.units[unit].text
        return found

    def sentences(self, unit: int) -> list[Line]:
        """The sentences of a unit with their words."""
        found = self._sentences.get(unit)
        if found is None:
            refs, text = self.units[unit].refs, self.units[unit].text
            found = self._sentences[unit] = []
            for start, piece in prose_of(text):
                words = dict.fromkeys([*sorted(words_of(piece)), *(word for word in piece.split() if word in refs)])
                found.append(Line(unit, start, piece, tuple(words), True))
        return found

    def line(self, unit: int, piece: int) -> Line:
        """What is shown of the references that stand in a piece."""
        found = self._lines.get((unit, piece))
        if found is None:
            found = self._lines[unit, piece] = self._line(unit, piece)
        return found

    def _line(self, unit: int, piece: int) -> Line:
        text, rows = self.units[unit].text, self.units[unit].rows
        starts = self._starts.get(unit)
        if starts is None:
            starts = self._starts[unit] = [*starts_of(text), len(text)]
        row = rows[piece]
        first, last = piece, piece + 1
        shown = text[starts[first] : starts[last]].strip()
        needed = BESIDE_CHARS + max(map(len, row))
        while len(shown) < needed and last - first < _JOINED and last < len(rows):
            last += 1
            shown = text[starts[first] : starts[last]].strip()
        while len(shown) < needed and last - first < _JOINED and first:
            first -= 1
            shown = text[starts[first] : starts[last]].strip()
        if last - first > 1:
            row = tuple(dict.fromkeys(reference for some in rows[first:last] for reference in some))
        start = starts[first]
        is_whole = (not start or text[start - 1] == "\n") and (last == len(rows) or text[starts[last] - 1] == "\n")
        while text[start].isspace():
            start += 1
        return Line(unit, start, shown, row, not is_whole)
