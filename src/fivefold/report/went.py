"""What a compaction took out of view, told by comparing the view before with the view after: so it holds for folds of any kind (L13)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from ..core.entries import SHOWN_AS, Entry
from ..core.levels import auto
from ..core.messages import Text
from ..core.pairing import is_speech, rounds
from ..core.state import State
from ..summarize.frame import unframed
from ..summarize.receipt import Count, count_instructions
from ..summarize.references import Extractor
from ..summarize.spoken import Unit, Voice, spoken
from .breakdown import preview

Fate: TypeAlias = Literal["kept", "shortened", "folded"]


class Receipt(msgspec.Struct, frozen=True):
    """What the texts that went (or became shorter) held: each distinct one once, and how many of them still stand somewhere in
    the new view (L13). ``identifiers``: names and hex ids; ``user_instructions``: sentences that people said, verbatim."""

    paths: Count
    commands: Count
    identifiers: Count
    user_instructions: Count


class RoundRow(msgspec.Struct, frozen=True):
    """One round of the view before, and what became of it: ``kept`` as it was, ``shortened`` (something in it is shown shorter or
    is gone), ``folded`` (nothing of it is shown). Tokens are shares of the size before."""

    round: int
    entry: str
    line: int | None
    entries: int
    tokens_before: int
    tokens_after: int
    fate: Fate
    text: str
    """Its first words."""
    said: str
    """First words of a person in it; empty where none spoke."""


class _Said(NamedTuple):
    """One text of an entry, and who said it."""

    voice: Voice
    text: str


def _said(entry: Entry) -> list[_Said]:
    """The texts of an entry as shown; of a summary what it tells, without our words about it."""
    if entry.summary:
        return [_Said("harness", unframed(block.text) or block.text) for block in entry.blocks if isinstance(block, Text)]
    return [_Said(voice, text) for _, voice, text, _ in spoken(entry)]


def _gone(before: State, after: State) -> Iterator[_Said]:
    """Texts that the view showed and shows no longer in full."""
    shown = {item.entry.id: item.entry for item in after.view.shown()}
    for item in before.view.shown():
        now = shown.get(item.entry.id)
        if now is item.entry:
            continue
        left = [] if now is None else [said.text for said in _said(now)]
        yield from (said for said in _said(item.entry) if said.text not in left)


def receipt_of(before: State, after: State) -> Receipt:
    """The receipt of all that happened between two states."""
    finder = Extractor()
    gone = list(_gone(before, after))
    refs: set[str] = set()
    for voice, text in gone:
        refs |= finder.of_call(text) if voice == "call" else finder.of(text)
    texts = [said.text for item in after.view.shown() for said in _said(item.entry)] if gone else []
    stands = set().union(*map(finder.seen_in, texts)) & refs
    whole = "\n".join(texts)  # a command that stands in a text is there, though only a script's are looked for
    stands |= {ref for ref in refs - stands if finder.kinds[ref] == "command" and ref in whole}

    def count(*kinds: str) -> Count:
        return Count(sum(finder.kinds[ref] in kinds for ref in refs), sum(finder.kinds[ref] in kinds for ref in stands))

    people = [Unit(0, 0, 0, voice, text, frozenset()) for voice, text in gone]
    return Receipt(count("path"), count("command"), count("name", "hex"), count_instructions(people, texts))


def rounds_of(before: State, after: State) -> Iterator[RoundRow]:
    """The rounds of the view before, and what became of them."""
    entries, cwd = list(before.view.entries()), before.log.head.cwd
    sizes = [measure.tokens for measure in before.ledger.measures]
    now = {item.entry.id: (item.entry, measure.tokens) for item, measure in zip(after.view.shown(), after.ledger.measures, strict=True)}
    scale = max(0, before.used - auto.fixed(before).overhead) / max(1, sum(sizes))
    for number, (start, stop, _) in enumerate(rounds(entries), 1):
        own = entries[start:stop]
        left = [now[entry.id] for entry in own if entry.id in now]
        sent = [entry for entry in own if entry.kind in SHOWN_AS]
        yield RoundRow(
            round=number,
            entry=own[0].id,
            line=next((entry.line for entry in own if entry.line is not None), None),
            entries=len(sent),
            tokens_before=round(sum(sizes[start:stop]) * scale),
            tokens_after=round(sum(tokens for _, tokens in left) * scale),
            fate=_fate(sent, [entry for entry, _ in left if entry.kind in SHOWN_AS]),
            text=next((text for entry in sent if (text := preview(entry, cwd))), ""),
            said=next((text for entry in sent if is_speech(entry) and (text := preview(entry, cwd))), ""),
        )


def _fate(entries: Sequence[Entry], left: Sequence[Entry]) -> Fate:
    if entries and not left:
        return "folded"
    return "kept" if list(entries) == list(left) else "shortened"
