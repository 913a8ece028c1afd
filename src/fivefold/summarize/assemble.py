"""From what was chosen to how it reads: the sections of the summary, and the shrunk results of the middle zone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..core.entries import Entry, Target
from ..core.messages import Text, ToolResult
from . import sections as page
from .calls import Call
from .frame import escape
from .index import Index
from .pick import Snippet
from .receipt import count_unread
from .redact import redact
from .spoken import Unit
from .zones import Zones


@dataclass(frozen=True, slots=True)
class Material:
    """All that the sections are made from, in one place."""

    entries: Sequence[Entry]
    zones: Zones
    index: Index
    calls: list[Call]
    """Calls of the folded part, and those behind it whose results the view has cleared."""
    heads: Mapping[int, str]
    """The line of each of them, by its unit."""
    folded: Sequence[int]
    """Units of the folded part."""
    kept: Sequence[int]
    """Units that are not folded."""
    shrinking: Mapping[int, float]
    """Units of the middle that shrink, and what each takes now in tokens."""
    changed: Mapping[int, str]
    """Units that are not folded and that the view shows otherwise than they were said, and how; hidden ones as nothing."""
    persons: Sequence[int]
    """Where the messages of section 6 were said."""
    facts: page.Facts
    short: Callable[[str], str]
    per_char: float

    @property
    def units(self) -> list[Unit]:
        """The texts of the conversation."""
        return self.index.units

    def text_now(self, unit: int) -> str:
        """What the view shows of a unit that is not folded."""
        found = self.changed.get(unit)
        return self.index.units[unit].text if found is None else found


class Parts(NamedTuple):
    """What was chosen. ``fixed`` by number of section; ``snippets`` the best first; ``listed``: units of calls with a line."""

    fixed: dict[int, str]
    prose: list[Snippet]
    snippets: list[Snippet]
    listed: set[int]
    giant_chars: int
    """So much of the start and of the end of each giant result of the tail stays."""


class Made(NamedTuple):
    """What the parts look like. ``middle``: by unit, the texts that shrunk results show."""

    summary: str
    middle: dict[int, str]
    sections: tuple[page.Section, ...]
    unlisted: int


def assemble(material: Material, parts: Parts) -> Made:
    """The sections in their order, empty ones left out; the record of the calls behind them."""
    units, zones = material.units, material.zones
    by_unit: dict[int, list[Snippet]] = {}
    for snippet in sorted(parts.snippets):
        by_unit.setdefault(snippet.unit, []).append(snippet)
    middle = _middle(material, by_unit, parts.giant_chars)
    spoken = [snippet for unit, found in by_unit.items() if units[unit].voice == "assistant" for snippet in found]
    quiet = {unit: found for unit, found in by_unit.items() if units[unit].voice != "assistant" and unit not in material.shrinking}
    texts = {**parts.fixed, 5: _spoken(sorted({*parts.prose, *spoken}), units)}
    record = page.record(material.calls, material.heads, quiet, parts.listed, units, material.persons, material.short)
    made = [page.Section(page.TITLES[number - 1], safe(texts[number])) for number in range(1, 10) if texts[number]]
    if record.text:
        made.append(page.Section(page.RECORD_TITLE, safe(record.text)))
    elif not made and (unread := count_unread(material.entries[zones.start : zones.cut])):
        made.append(page.Section(page.RECORD_TITLE, f"(nothing in words: {', '.join(f'{kind} ×{n}' for kind, n in unread.items())})"))
    summary = "\n\n".join(f"## {section.title}\n{section.text}" for section in made)
    return Made(summary, middle, tuple(made), record.unlisted)


def safe(text: str) -> str:
    """A text without secrets and without marks that could pass for ours."""
    return escape(redact(text))


def targets(material: Material, made: Made) -> tuple[tuple[Target, str], ...]:
    """The blocks that shrink and what each then shows."""
    units, entries = material.units, material.entries
    return tuple((Target(entries[units[i].entry].id, units[i].block), text) for i, text in made.middle.items())


def _spoken(snippets: Sequence[Snippet], units: Sequence[Unit]) -> str:
    """Sentences of the assistant, those of one text behind one dash; what overlaps is said once."""
    lines: list[str] = []
    last_unit, stop = -1, 0
    for snippet in snippets:
        end = snippet.start + len(snippet.text)
        whole = units[snippet.unit].text
        if snippet.unit == last_unit and snippet.start < stop:
            if end <= stop:
                continue
            lines[-1] += whole[stop:end]
        elif snippet.unit == last_unit:
            lines[-1] += ("\n" if "\n" in whole[stop : snippet.start] else " ") + snippet.text
        else:
            lines.append(f"- {snippet.text.lstrip()}")
        last_unit, stop = snippet.unit, end
    return "\n".join(page.indented(line)[2:] for line in lines)


def _middle(material: Material, picked: Mapping[int, list[Snippet]], giant_chars: int) -> dict[int, str]:
    """Results as picked lines, where that is shorter than what the view shows of them now."""
    made: dict[int, str] = {}
    for i in material.shrinking:
        unit = material.units[i]
        lines = "\n".join(page.shown(picked.get(i, ()), unit.text))
        text = safe(shrunk(unit.text, lines, giant_chars if unit.entry >= material.zones.tail else 0))
        if len(text) < len(material.text_now(i)):
            made[i] = text
    return made


def shrunk(text: str, lines: str, end_chars: int) -> str:
    """A shrunk result: its size, picked lines, and of one in the tail also its start and end."""
    if not end_chars:
        return f"[{len(text):,} characters; picked lines of it:]\n{lines}" if lines else f"[{len(text):,} characters, left out here]"
    size = len(text)
    text = redact(text)  # a cut would hide what a secret is
    start, end = text[:end_chars].rpartition("\n"), text[-end_chars:].partition("\n")
    middle = f"[… {size:,} characters in all; picked lines of it:]\n{lines}" if lines else f"[… {size:,} characters in all …]"
    return f"{start[0] or start[2]}\n{middle}\n[… the end:]\n{end[2] or end[0]}"


def is_replaceable(block: object) -> bool:
    """Whether a block's text can be shown shorter."""
    return isinstance(block, ToolResult | Text)
