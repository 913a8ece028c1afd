"""From the zones of a conversation to the text of its summary and the shrunk results of its middle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ..core.entries import Entry, Target
from ..core.messages import Block, Text, ToolResult
from ..core.pairing import Round
from . import sections as page
from .calls import SUBJECT_CHARS, Call, calls_of, fixes_of, work_on_files
from .carried import background_of, plan_of
from .frame import escape
from .people import People, people_of
from .pick import REFERENCE_TOKENS, Snippet, pick, pick_prose
from .receipt import Receipt, count_instructions, count_refs, count_unread
from .redact import redact
from .references import Extractor
from .score import Sightings
from .units import Texts, Unit, refs_where, texts_of

NAMES = 12
NAMES_ROUNDS = 3
"""Names the assistant wrote in at least so many rounds are among the key concepts."""
SMALL_RESULT_CHARS = 600
"""A result of the middle zone this small stays as it is."""
GIANT_END_CHARS = 1_500
"""Of a result of the tail that has to shrink, so much of its start and of its end stays."""
FRAME_TOKENS = 250
"""What the frame about a summary costs (``frame.framed``)."""
_FACTS_FLOOR = 400
"""Tokens of the fixed sections that small windows have too."""
_TRIES = 4
_CALL_TOKENS = 22
_LINE_CHARS = 15
"""What a picked line costs beside its text, in characters."""
_LEAST_SHARE = 0.25
"""Where what stays verbatim leaves no room, the digest still takes this share of its parts."""


class Limits(Protocol):
    """The parts of the budget used here, in tokens."""

    @property
    def picked(self) -> float:
        """Picked lines."""

    @property
    def prose(self) -> float:
        """Sentences of the assistant."""

    @property
    def calls(self) -> float:
        """Bare lines of calls."""

    @property
    def facts(self) -> float:
        """Fixed sections."""

    @property
    def people(self) -> float:
        """People's words."""

    @property
    def total(self) -> float:
        """Everything."""


class Zones(NamedTuple):
    """Places among the entries: the head ends at ``start``, the middle begins at ``cut``, the tail at ``tail``."""

    start: int
    cut: int
    tail: int
    rounds: tuple[Round, ...]
    standing: tuple[str, ...]
    giants: frozenset[int]
    """Entries of the tail whose results have to shrink, or there would be no room for anything else."""


class Digest(NamedTuple):
    """What stands for the folded part and for the results of the middle."""

    summary: str
    middle: tuple[tuple[Target, str], ...]
    sections: tuple[page.Section, ...]
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class _Source:
    """All that the sections are made from, in one place."""

    entries: Sequence[Entry]
    zones: Zones
    texts: Texts
    calls: list[Call]
    """Calls of the folded part."""
    sightings: Sightings
    folded: list[int]
    """Units of the folded part."""
    shrinking: list[int]
    """Units of the middle that shrink."""
    persons: list[int]
    """Where the messages of section 6 were said."""
    facts: page.Facts
    short: Callable[[str], str]
    per_char: float

    @property
    def units(self) -> list[Unit]:
        return self.texts.units

    @property
    def extractor(self) -> Extractor:
        return self.texts.extractor


def digest(
    entries: Sequence[Entry],
    zones: Zones,
    estimate: Callable[[str], float],
    limits: Limits,
    kept: float,
    pins: Sequence[str],
    cwd: str | None,
    known: Extractor | None,
) -> Digest:
    """The summary of the entries ``zones.start`` to ``zones.cut``. ``kept``: tokens of all other entries, not shrunk yet."""
    source = _source(entries, zones, estimate, limits, pins, cwd, known)
    room = limits.total - kept + sum(estimate(source.units[i].text) for i in source.shrinking) - FRAME_TOKENS
    allowed = max(min(room, _most(limits)), _LEAST_SHARE * _most(limits))
    parts = _choose(source, limits, allowed)
    made = _assemble(source, parts)
    for _ in range(_TRIES):
        size = estimate(made.summary) + sum(estimate(text) for _, text in made.middle)
        if size <= allowed or not parts.snippets:
            break
        parts = _trimmed(parts, (size - allowed) / source.per_char)
        made = _assemble(source, parts)
    return Digest(made.summary, made.middle, made.sections, _receipt(source, made))


def _most(limits: Limits) -> float:
    return limits.picked + limits.prose + limits.calls + limits.facts + limits.people


def _source(
    entries: Sequence[Entry],
    zones: Zones,
    estimate: Callable[[str], float],
    limits: Limits,
    pins: Sequence[str],
    cwd: str | None,
    known: Extractor | None,
) -> _Source:
    texts = texts_of(entries, zones.rounds, known)
    units = texts.units
    folded = [i for i, unit in enumerate(units) if zones.start <= unit.entry < zones.cut and unit.voice != "system"]
    shrinking = [
        i
        for i, unit in enumerate(units)
        if unit.voice in ("result", "harness")
        and len(unit.text) > SMALL_RESULT_CHARS
        and _is_replaceable(entries[unit.entry].blocks[unit.block])
        if zones.cut <= unit.entry < zones.tail or (unit.entry >= zones.tail and unit.entry in zones.giants)
    ]
    all_calls = calls_of(entries, units)
    before = [call for call in all_calls if units[call.unit].entry < zones.cut]
    people = people_of([units[i] for i in folded], lambda entry: entries[entry].id, limits.people, estimate)
    per_char = _tokens_per_char([units[i].text for i in folded], estimate)
    sightings = Sightings(units, len(zones.rounds) - 1)
    facts = _facts(entries, zones, texts, (before, all_calls), folded, people, sightings, pins)
    whole = {said.entry for said in people.said}
    places = {entries[units[i].entry].id: i for i in reversed(folded) if units[i].voice == "person"}
    persons = sorted(i for id, i in places.items() if id in whole)
    return _Source(entries, zones, texts, before, sightings, folded, shrinking, persons, facts, page.shortener(cwd), per_char)


def _is_replaceable(block: Block) -> bool:
    return isinstance(block, ToolResult | Text)


def _facts(
    entries: Sequence[Entry],
    zones: Zones,
    texts: Texts,
    calls: tuple[list[Call], list[Call]],
    folded: Sequence[int],
    people: People,
    sightings: Sightings,
    pins: Sequence[str],
) -> page.Facts:
    units, (before, every) = texts.units, calls
    names = [(sightings.written(name), name) for name, kind in texts.extractor.kinds.items() if kind == "name"]
    names = [(count, name) for count, name in names if count >= NAMES_ROUNDS and len(name) > 4 and not name[0].isdigit()]
    best = sorted(names, key=lambda item: (-item[0], item[1]))
    return page.Facts(
        people=people,
        newest_follows=any(unit.voice == "person" and unit.entry >= zones.cut for unit in units),
        works=work_on_files(before),
        fixes=[fix for fix in fixes_of(every) if units[fix.call.unit].entry < zones.cut],
        plan=plan_of(entries),
        background=background_of(every, units),
        prose=[units[i] for i in folded if units[i].voice == "assistant"],
        names=[(name, count) for count, name in best[:NAMES]],
        calls=before,
        pins=[redact(pin) for pin in pins],
    )


def _tokens_per_char(texts: Sequence[str], estimate: Callable[[str], float]) -> float:
    step = max(1, len(texts) // 60)
    sample = "\n".join(text[:300] for text in texts[::step])
    return max(0.05, estimate(sample) / len(sample)) if sample else 0.3


# --- composing


class _Parts(NamedTuple):
    """What was chosen. ``fixed`` by number of section; ``snippets`` the best first; ``listed``: units of calls with a line."""

    fixed: dict[int, str]
    prose: list[Snippet]
    snippets: list[Snippet]
    listed: set[int]


class _Made(NamedTuple):
    """What the parts look like."""

    summary: str
    middle: tuple[tuple[Target, str], ...]
    sections: tuple[page.Section, ...]
    unlisted: int


def _choose(source: _Source, limits: Limits, allowed: float) -> _Parts:
    per_char, units = source.per_char, source.units
    scale = min(1.0, allowed / _most(limits))
    fixed = _fixed(source, page.Room(max(limits.facts * scale, min(_FACTS_FLOOR, allowed / 5)), per_char))
    prose_places = [i for i in source.folded if units[i].voice == "assistant"]
    prose = pick_prose(units, prose_places, len(source.zones.rounds) - 1, limits.prose * scale, per_char)
    listed = {call.unit for call in source.calls[-max(1, int(limits.calls * scale / _CALL_TOKENS)) :]}
    bare = page.record(source.calls, {}, listed, units, (), source.short).text
    said = "\n".join([*fixed.values(), bare, *(snippet.text for snippet in prose)])
    told = [text for unit in listed if len(text := units[unit].text) <= SUBJECT_CHARS]
    budget = max(0.0, min(limits.picked, allowed - len(said) * per_char))
    known = source.extractor.once(said).union(*map(source.extractor.of_call, told))
    return _Parts(fixed, prose, _pick(source, known, budget), listed)


def _trimmed(parts: _Parts, chars: float) -> _Parts:
    """Without the least of the picked lines, of at least so many characters."""
    snippets = parts.snippets[:]
    while snippets and chars > 0:
        chars -= len(snippets.pop().text) + _LINE_CHARS
    return parts._replace(snippets=snippets)


def _fixed(source: _Source, room: page.Room) -> dict[int, str]:
    """The sections that are made from facts alone, by number."""
    facts, short = source.facts, source.short
    return {
        1: page.request(facts),
        2: page.concepts(facts),
        4: page.errors(facts.fixes, short, room),
        8: page.current(facts.prose, room),
        3: page.files(facts.works, room),
        9: page.next_step(facts),
        6: page.messages(facts),
        7: page.pending(facts.plan, facts.background),
    }


def _pick(source: _Source, said: set[str], budget: float) -> list[Snippet]:
    units, zones = source.units, source.zones
    sources = [i for i in source.folded if units[i].voice != "person"] + source.shrinking
    shrinking = set(source.shrinking)
    in_view = refs_where((u for i, u in enumerate(units) if i not in shrinking), lambda u: not zones.start <= u.entry < zones.cut)
    hidden = refs_where((units[i] for i in sources), lambda unit: True) - in_view - said
    wanted = source.sightings.most_likely(hidden, source.extractor.kinds, int(budget / REFERENCE_TOKENS))
    return pick(units, sources, wanted, budget, source.per_char)


def _assemble(source: _Source, parts: _Parts) -> _Made:
    units, zones = source.units, source.zones
    by_unit: dict[int, list[Snippet]] = {}
    for snippet in sorted(parts.snippets):
        by_unit.setdefault(snippet.unit, []).append(snippet)
    middle = _middle(source, by_unit)
    folded = {unit: found for unit, found in by_unit.items() if units[unit].entry < zones.cut}
    spoken = [snippet for unit, found in folded.items() if units[unit].voice == "assistant" for snippet in found]
    quiet = {unit: found for unit, found in folded.items() if units[unit].voice != "assistant"}
    texts = {**parts.fixed, 5: _spoken(sorted({*parts.prose, *spoken}), units)}
    record = page.record(source.calls, quiet, parts.listed, units, source.persons, source.short)
    made = [page.Section(page.TITLES[number - 1], _safe(texts[number])) for number in range(1, 10) if texts[number]]
    unread = count_unread(source.entries[zones.start : zones.cut])
    if record.text:
        made.append(page.Section(page.RECORD_TITLE, _safe(record.text)))
    elif not made and unread:
        made.append(page.Section(page.RECORD_TITLE, f"(nothing in words: {', '.join(f'{kind} ×{n}' for kind, n in unread.items())})"))
    summary = "\n\n".join(f"## {section.title}\n{section.text}" for section in made)
    return _Made(summary, middle, tuple(made), record.unlisted)


def _safe(text: str) -> str:
    return escape(redact(text))


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


def _middle(source: _Source, picked: dict[int, list[Snippet]]) -> tuple[tuple[Target, str], ...]:
    """Results of the middle zone as picked lines, where that is shorter."""
    made = []
    for i in source.shrinking:
        unit = source.units[i]
        entry = source.entries[unit.entry]
        block = entry.blocks[unit.block]
        lines = "\n".join(page.shown(picked.get(i, ()), unit.text))
        text = _safe(_shown(unit.text, lines, GIANT_END_CHARS if unit.entry >= source.zones.tail else 0))
        if isinstance(block, ToolResult | Text) and len(text) < len(unit.text):
            made.append((Target(entry.id, unit.block), text))
    return tuple(made)


def _shown(text: str, lines: str, end_chars: int) -> str:
    """A shrunk result: its size, picked lines, and of one in the tail also its start and end."""
    if end_chars:
        text = redact(text)  # a cut would hide what a secret is
    if not end_chars:
        return f"[{len(text):,} characters; picked lines of it:]\n{lines}" if lines else f"[{len(text):,} characters, left out here]"
    start, end = text[:end_chars].rpartition("\n"), text[-end_chars:].partition("\n")
    middle = f"[… {len(text):,} characters in all; picked lines of it:]\n{lines}" if lines else f"[… {len(text):,} characters in all …]"
    return f"{start[0] or start[2]}\n{middle}\n[… the end:]\n{end[2] or end[0]}"


def _receipt(source: _Source, made: _Made) -> Receipt:
    units, zones, kinds = source.units, source.zones, source.extractor.kinds
    shrunk = {(target.entry, target.block) for target, _ in made.middle}
    ids = [entry.id for entry in source.entries]
    kept = [unit for unit in units if not zones.start <= unit.entry < zones.cut and (ids[unit.entry], unit.block) not in shrunk]
    texts = [made.summary, *(text for _, text in made.middle)]
    in_view = refs_where(kept, lambda unit: True).union(*map(source.extractor.once, texts))
    folded = [units[i] for i in source.folded]
    refs = refs_where(folded, lambda unit: True)
    in_view.update(ref for ref in refs - in_view if kinds[ref] == "command" and ref in made.summary)
    counts = count_refs(refs, in_view, kinds)
    people = source.facts.people
    left_out = {
        "messages shortened": sum(not said.whole for said in people.said),
        "messages": len(people.dropped),
        "call lines": made.unlisted,
    }
    return Receipt(
        entries=zones.cut - zones.start,
        results_shortened=len(made.middle),
        references=counts,
        user_instructions=count_instructions(folded, [*texts, *(unit.text for unit in kept)]),
        never_saw=count_unread(source.entries[zones.start : zones.cut]),
        left_out={what: number for what, number in left_out.items() if number},
    )
