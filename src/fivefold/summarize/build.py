"""From the zones of a conversation to what stands for its folded part: what is known of it, what is chosen, and its receipt."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..core.entries import Entry, Target
from ..core.messages import Block, Text, ToolResult, is_thinking, result_text
from . import sections as page
from .assemble import Made, Material, Parts, assemble, is_replaceable, targets
from .calls import SUBJECT_CHARS, Call, calls_of, fixes_of, work_on_files
from .carried import background_of, plan_of, running_of
from .frame import framed
from .index import Sighting
from .parse import shortened
from .people import People, people_of
from .pick import REFERENCE_TOKENS, Headers, Snippet, candidates, most_likely, pick
from .prose import pick_prose
from .receipt import Receipt, count_instructions, count_refs, count_unread
from .redact import redact
from .references import Extractor
from .spoken import Unit
from .units import refs_where
from .zones import Budget, Zones

NAMES = 12
NAMES_ROUNDS = 3
"""Names the assistant wrote in at least so many rounds are among the key concepts."""
SMALL_RESULT_CHARS = 600
"""A result of the middle zone this small stays as it is."""
_RESULT_FRAME_TOKENS = 40
"""About what an entry takes beside the text of its results."""
_FACTS_FLOOR = 400
"""Tokens of the fixed sections that small windows have too."""
_TRIES = 3
_RULES_CHARS = 200
_ROOMY_SHARE = 0.6
_CALL_TOKENS = 22
_LINE_CHARS = 15
"""What a picked line costs beside its text, in characters."""
_LEAST_SHARE = 0.25
"""Where what stays verbatim leaves no room, the digest still takes this share of its parts, if that fits at all."""
_CLOSE = 1.03
"""A digest this much larger than it may be is taken: sizes are sampled, and ``most`` is far off."""
_FILLED = 1.0
"""So much of its room a digest is planned to fill: what lines cost together is known only nearly."""
_TITLE_TOKENS = 100
"""The headings of the sections."""
_SHRUNK_TOKENS = 14
"""What a shrunk result says of itself beside its lines."""
_SAMPLES = 12
_SAMPLE_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Job:
    """What a plan is asked for (``structural.plan``)."""

    entries: Sequence[Entry]
    memory: Extractor
    estimate: Callable[[str], float]
    target: Budget
    pins: Sequence[str] = ()
    cwd: str | None = None
    running: Sequence[tuple[str, str, str]] | None = None
    shown: Callable[[str], Entry | None] | None = None


class Digest(NamedTuple):
    """What stands for the folded part and for the results of the middle. ``size``: tokens of the view it leaves."""

    summary: str
    middle: tuple[tuple[Target, str], ...]
    sections: tuple[page.Section, ...]
    receipt: Receipt
    size: float


def digest(job: Job, zones: Zones) -> Digest:
    """The summary of the entries ``zones.start`` to ``zones.cut``."""
    material = _material(job, zones)
    target = job.target
    fixed = zones.kept - sum(material.shrinking.values()) + job.estimate(framed("", brief=target.is_small))
    said = sum(job.estimate(said.text) for said in material.facts.people.said)
    extra = max(0.0, said - target.people) if _is_roomy(job, zones, material.shrinking) else 0.0
    room = max(target.total + extra - fixed, min(_LEAST_SHARE * target.digest, target.most - fixed), 0.0)
    allowed = min(room, target.digest + extra)
    parts = _choose(job, material, allowed)
    made = assemble(material, parts)
    size = _size(job, material, made)
    for _ in range(_TRIES):
        if size <= _CLOSE * allowed or not parts.snippets:
            break
        parts = _trimmed(parts, (size - allowed) / material.per_char)
        made = assemble(material, parts)
        size = _size(job, material, made)
    return Digest(made.summary, targets(material, made), made.sections, _receipt(job, material, made), fixed + size)


def _is_roomy(job: Job, zones: Zones, shrinking: Mapping[int, float]) -> bool:
    """Whether what stays verbatim is small enough for people's words to take more than their share."""
    return zones.kept - sum(shrinking.values()) <= _ROOMY_SHARE * job.target.total


def _size(job: Job, material: Material, made: Made) -> float:
    """Tokens of the summary and of what was to shrink."""
    left = sum(tokens for unit, tokens in material.shrinking.items() if unit not in made.middle)
    return left + sum(_tokens(text, job.estimate) for text in (made.summary, "\n".join(made.middle.values())))


def _tokens(text: str, estimate: Callable[[str], float]) -> float:
    """Tokens of a text, by samples where it is long."""
    if len(text) <= 2 * _SAMPLES * _SAMPLE_CHARS:
        return estimate(text)
    step = len(text) // _SAMPLES
    sample = "".join([text[at : at + _SAMPLE_CHARS] for at in range(step // 2, len(text) - _SAMPLE_CHARS, step)])
    return estimate(sample) * len(text) / len(sample)


# --- what is known


def _material(job: Job, zones: Zones) -> Material:
    index, entries = job.memory.index, job.entries
    units = index.units
    start, stop = (bisect_left(units, place, key=_entry_of) for place in (zones.start, zones.cut))
    folded = [i for i in range(start, stop) if units[i].voice != "system"]
    kept = [*range(start), *range(stop, len(units))]
    changed = _changed(job, kept)
    shrinking = _shrinking(job, zones, range(stop, len(units)), changed)
    calls = calls_of(entries, units, zones.pairing, index.places, index.calls)
    roomy = _is_roomy(job, zones, shrinking)
    most = job.target.people_most if roomy else job.target.people
    people = people_of([units[i] for i in folded], lambda entry: entries[entry].id, most, job.estimate)
    facts = _facts(job, zones, calls, folded, kept, people)
    facts = facts._replace(standing=_standing(job, folded) if roomy else ())
    persons = _said_at(entries, units, folded, people)
    per_char = _tokens_per_char([units[i].text for i in folded], job.estimate)
    before = [call for call in calls if units[call.unit].entry < zones.cut or call.result in changed]
    short = page.shortener(job.cwd)
    heads = {call.unit: page.header(call, short) for call in before}
    return Material(entries, zones, index, before, heads, folded, kept, shrinking, changed, persons, facts, short, per_char)


def _entry_of(unit: Unit) -> int:
    return unit.entry


def _changed(job: Job, kept: Sequence[int]) -> dict[int, str]:
    """What the view shows of kept units that it shows otherwise than they were said."""
    changed: dict[int, str] = {}
    if job.shown is None:
        return changed
    units = job.memory.index.units
    for i in kept:
        entry = job.entries[units[i].entry]
        now = job.shown(entry.id)
        if now is not entry:
            text = "" if now is None else _text_of(_block_of(entry, now, units[i].block))
            if text is not None and text != units[i].text:
                changed[i] = text
    return changed


def _block_of(entry: Entry, now: Entry, block: int) -> Block | None:
    """A block as an edited entry shows it; hidden thinking moves those behind it up."""
    gone = 0 if len(now.blocks) == len(entry.blocks) else sum(map(is_thinking, entry.blocks[:block]))
    return now.blocks[block - gone] if block - gone < len(now.blocks) else None


def _text_of(block: Block | None) -> str | None:
    """The text of a block that can be replaced; None of another."""
    if isinstance(block, ToolResult):
        return result_text(block)
    return block.text if isinstance(block, Text) else None


def _shrinking(job: Job, zones: Zones, behind: range, changed: dict[int, str]) -> dict[int, float]:
    """The units behind the cut that shrink, and about how many tokens each takes now."""
    units, entries = job.memory.index.units, job.entries
    found: dict[int, float] = {}
    for i in behind:
        unit = units[i]
        if unit.voice in ("result", "harness") and (unit.entry < zones.tail or unit.entry in zones.giants):
            text = changed.get(i, unit.text)
            if len(text) > SMALL_RESULT_CHARS and is_replaceable(entries[unit.entry].blocks[unit.block]):
                found[i] = float(len(text))
    chars: dict[int, int] = {}
    for i in behind:
        chars[units[i].entry] = chars.get(units[i].entry, 0) + len(changed.get(i, units[i].text))
    for i in found:
        entry = units[i].entry
        found[i] *= max(0.0, zones.sizes[entry] - _RESULT_FRAME_TOKENS) / chars[entry]
    return found


def _said_at(entries: Sequence[Entry], units: Sequence[Unit], folded: Sequence[int], people: People) -> list[int]:
    """The first unit of each message that is shown."""
    whole = {said.entry for said in people.said}
    places = {entries[units[i].entry].id: i for i in reversed(folded) if units[i].voice == "person"}
    return sorted(i for id, i in places.items() if id in whole)


def _facts(job: Job, zones: Zones, calls: Sequence[Call], folded: Sequence[int], kept: Sequence[int], people: People) -> page.Facts:
    units = job.memory.index.units
    before = [call for call in calls if units[call.unit].entry < zones.cut]
    running = background_of(calls, units, job.memory.index.started) if job.running is None else running_of(job.running)
    return page.Facts(
        people=people,
        newest_follows=any(units[i].voice == "person" for i in kept if units[i].entry >= zones.cut),
        works=work_on_files(before),
        fixes=[fix for fix in fixes_of(calls) if units[fix.call.unit].entry < zones.cut],
        plan=plan_of(job.entries),
        background=running,
        prose=[units[i] for i in folded if units[i].voice == "assistant"],
        names=_names(job.memory.index.seen),
        calls=before,
        pins=[redact(pin) for pin in job.pins],
    )


def _standing(job: Job, folded: Sequence[int]) -> list[str]:
    """What the harness told before the first response, and is folded: the project's rules keep their place (C5, C6). Short ones are its
    housekeeping; long ones keep their start and end."""
    units = job.memory.index.units
    texts = [units[i].text.strip() for i in folded if units[i].voice == "harness" and units[i].round == 0]
    texts = [redact(text) for text in dict.fromkeys(texts) if len(text) >= _RULES_CHARS]
    room = job.target.people / 2 / max(1, len(texts))
    return [shortened(text, int(len(text) * min(1.0, room / max(1.0, job.estimate(text))))) for text in texts]


def _names(seen: dict[str, Sighting]) -> list[tuple[str, int]]:
    """The names that the assistant wrote in most rounds."""
    often = [(sighting.written, name) for name, sighting in seen.items() if sighting.written >= NAMES_ROUNDS and sighting.kind == "name"]
    often = [(count, name) for count, name in often if len(name) > 4 and not name[0].isdigit()]
    return [(name, count) for count, name in sorted(often, key=lambda item: (-item[0], item[1]))[:NAMES]]


def _tokens_per_char(texts: Sequence[str], estimate: Callable[[str], float]) -> float:
    sample = "\n".join([text[:200] for text in texts[:: max(1, len(texts) // (2 * _SAMPLES))]])
    return max(0.05, estimate(sample) / len(sample)) if sample else 0.3


# --- what is chosen


def _choose(job: Job, material: Material, allowed: float) -> Parts:
    limits, units, per_char = job.target, material.units, material.per_char
    scale = min(1.0, allowed / limits.digest) if limits.digest else 1.0
    fixed = _fixed(material, page.Room(max(limits.facts * scale, min(_FACTS_FLOOR, allowed / 5)), per_char))
    prose_places = [i for i in material.folded if units[i].voice == "assistant"]
    prose = pick_prose(material.index, prose_places, material.zones.rounds - 1, limits.prose * scale, per_char)
    listed = {call.unit for call in material.calls[-max(1, int(limits.calls * scale / _CALL_TOKENS)) :]}
    said = "\n".join([*fixed.values(), *(material.heads[unit] for unit in listed), *(snippet.text for snippet in prose)])
    giants = sum(units[i].entry >= material.zones.tail for i in material.shrinking)
    giant_chars = int(material.zones.giant_tokens / per_char / 2)
    shrunk = _SHRUNK_TOKENS * len(material.shrinking) + 2 * giants * giant_chars * per_char
    budget = _FILLED * (allowed - _TITLE_TOKENS) - _tokens(said, job.estimate) - shrunk
    known = job.memory.seen_in(said).union(*(units[unit].refs for unit in listed if len(units[unit].text) <= SUBJECT_CHARS))
    return Parts(fixed, prose, _pick(job, material, known, listed, max(0.0, budget)), listed, giant_chars)


def _trimmed(parts: Parts, chars: float) -> Parts:
    """Without the least of the picked lines, of at least so many characters."""
    snippets = parts.snippets[:]
    while snippets and chars > 0:
        chars -= len(snippets.pop().text) + _LINE_CHARS
    return parts._replace(snippets=snippets)


def _fixed(material: Material, room: page.Room) -> dict[int, str]:
    """The sections that are made from facts alone, by number."""
    facts, short = material.facts, material.short
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


def _pick(job: Job, material: Material, said: set[str], listed: Collection[int], budget: float) -> list[Snippet]:
    index, units = material.index, material.units
    is_source = [False] * len(units)
    cut_short = {one.entry for one in material.facts.people.said if not one.whole}.union(material.facts.people.dropped)
    for i in material.folded:
        is_source[i] = units[i].voice != "person" or job.entries[units[i].entry].id in cut_short
    for i in [*material.shrinking, *material.changed]:
        is_source[i] = True
    known = _in_view(job, material, material.shrinking.keys()) | said
    wanted = most_likely(index.seen, known, material.zones.rounds - 1, int(budget / REFERENCE_TOKENS))
    offered = candidates(index, wanted, is_source, material.heads)
    per_char = _tokens_per_char([line.text for line, _, _ in offered], job.estimate)
    return pick(index, offered, wanted, budget, per_char, _headers(material, listed))


def _headers(material: Material, listed: Collection[int]) -> Headers:
    """What the header of each call costs where one of its lines is picked: nothing where it has a line anyway."""
    owners = {call.result: call.unit for call in material.calls if call.result is not None}
    tokens = {unit: len(head) * material.per_char for unit, head in material.heads.items()}
    tokens.update(dict.fromkeys(listed, 0.0))
    return Headers(owners, tokens)


def _in_view(job: Job, material: Material, gone: Container[int]) -> set[str]:
    """The references of what is not folded, without those of the units that are ``gone``."""
    units, changed = material.units, material.changed
    refs = refs_where((units[i] for i in material.kept if i not in gone and i not in changed), lambda unit: True)
    return refs.union(*(job.memory.seen_in(text) for i, text in changed.items() if text and i not in gone))


# --- the receipt


def _receipt(job: Job, material: Material, made: Made) -> Receipt:
    units, zones, kinds, people = material.units, material.zones, job.memory.kinds, material.facts.people
    texts = [made.summary, *made.middle.values()]
    in_view = _in_view(job, material, made.middle).union(*map(job.memory.seen_in, texts))
    folded = [units[i] for i in material.folded]
    refs = refs_where(folded, lambda unit: True)
    left_out = {
        "messages shortened": sum(not said.whole for said in people.said),
        "messages": len(people.dropped),
        "call lines": made.unlisted,
    }
    kept = [material.text_now(i) for i in material.kept if i not in made.middle]
    return Receipt(
        entries=zones.cut - zones.start,
        results_shortened=len(made.middle),
        references=count_refs(refs, in_view, kinds),
        user_instructions=count_instructions(folded, [*texts, *kept]),
        never_saw=count_unread(job.entries[zones.start : zones.cut]),
        left_out={what: number for what, number in left_out.items() if number},
    )
