"""New text for some sections of a memory file, with what a person has changed in it by hand kept (S3, S4).

A line that neither code nor a model wrote (``Content.ours`` does not know it) is a person's: it stays, word for word, in its section,
in front of what is made anew; nothing cuts it. A line that a person took out is not written again. A section that a person added
stays behind the one it stood behind. Who wants to begin anew empties the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ..summarize.assemble import safe
from ..summarize.redact import redact
from .file import Content, checksum
from .template import Section, Template, depth_of

FENCE = re.compile(r"\s*(```|~~~)")
LEAST_SHARE = 0.25
"""However much a person has written into a section, what is made anew has this share of its limit."""
_MARKS = re.compile(r"<(?=!--\s*fivefold\b|/?\s*session-memory\b)", re.I)


class Part(NamedTuple):
    """A stretch of a file: its heading (None: what stands before the first), the template's section, and its lines. A section of a
    person's own has a heading and no ``section``."""

    heading: str | None
    section: Section | None
    lines: tuple[str, ...]


def inert(text: str) -> str:
    """A text without secrets and without marks that could pass for ours (H1, H2)."""
    return _MARKS.sub("&lt;", safe(text))


def parts_of(text: str, template: Template) -> list[Part]:
    """The stretches of a file. What looks like a heading inside a fenced block is none, and deeper headings than the template's
    belong to their section."""
    parts: list[Part] = []
    heading: str | None = None
    lines: list[str] = []
    fenced = ""
    for line in text.split("\n"):
        fence = FENCE.match(line)
        if fence and fenced in ("", fence[1]):
            fenced = "" if fenced else fence[1]
        if not fenced and (0 < depth_of(line) <= template.depth or (depth_of(line) and template.find(line))):
            parts.append(_part(heading, lines, template))
            heading, lines = line, []
        else:
            lines.append(line)
    parts.append(_part(heading, lines, template))
    return parts if parts[0].lines else parts[1:]


def _part(heading: str | None, lines: Sequence[str], template: Template) -> Part:
    return Part(heading, None if heading is None else template.find(heading), tuple(trimmed(lines)))


def trimmed(lines: Sequence[str]) -> list[str]:
    """Lines without empty ones at both ends."""
    filled = [i for i, line in enumerate(lines) if line.strip()]
    return list(lines[filled[0] : filled[-1] + 1]) if filled else []


def is_empty(text: str, template: Template) -> bool:
    """Whether nothing stands in a file but headings: that counts as no memory (S4)."""
    asks = {ask for section in template.sections for ask in [section.asks] if ask}
    return all(" ".join(part.lines).strip() in ("", *asks) and part.section is not None for part in parts_of(text, template))


def shown(text: str, template: Template) -> str:
    """A file's text as it is read: sections in which nothing stands are left out."""
    parts = [part for part in parts_of(text, template) if part.lines]
    return "\n\n".join("\n".join([*([part.heading] if part.heading else []), *part.lines]) for part in parts)


def merged(
    old: Content,
    made: Mapping[str, Sequence[str]],
    template: Template,
    covered: str,
    limit: Callable[[Section], float],
    estimate: Callable[[str], float],
) -> Content:
    """A file with the sections of ``made`` (by name) anew, each within its limit; the others stay as they are."""
    before = parts_of(old.text, template)
    ours, removed = _known(old, before)
    texts: list[str] = []
    written: list[str] = []
    done = set[str]()

    def put(section: Section, was: Sequence[str]) -> None:
        done.add(section.name)
        known = ours if section.name in made else frozenset()
        own = _own(was, section, known) if section.name in made else list(was)
        new = _new(made.get(section.name, ()), section, own, removed)
        kept = _within(new, section, max(limit(section) - estimate("\n".join(own)), LEAST_SHARE * limit(section)), estimate)
        mine = kept if section.name in made else [line for line in was if checksum(line, section.name) in ours]
        written.extend(checksum(line, section.name) for line in mine if line.strip())
        texts.append("\n".join([section.heading, *_joined(balanced(own), kept)]))

    def put_missing(until: str | None) -> None:
        """Sections of the template that the file lacks, where they belong."""
        for section in template.sections:
            if section.name == until:
                return
            if section.name not in done and all(part.section != section for part in before):
                put(section, ())

    for part in before:
        if part.section is not None and part.section.name not in done:
            put_missing(part.section.name)
            put(part.section, [line for other in before if other.section == part.section for line in other.lines])
        elif part.section is None:
            texts.append("\n".join([*([part.heading] if part.heading else []), *balanced(list(part.lines))]))
    put_missing(None)
    text = redact("\n\n".join(texts))
    return Content(text, covered, tuple(written), removed)


def _known(old: Content, before: Sequence[Part]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The checksums of lines that no person wrote, and of those that a person took out since."""
    there = {checksum(line, part.section.name if part.section else "") for part in before for line in part.lines if line.strip()}
    if not there:
        return frozenset(), ()
    gone = [found for found in (*old.removed, *old.ours) if found not in there]
    return frozenset(old.ours), tuple(dict.fromkeys(gone))


def _own(lines: Sequence[str], section: Section, ours: frozenset[str]) -> list[str]:
    """A person's lines of a section, the gaps inside a run of them kept."""
    mine = [line for line in lines if not line.strip() or checksum(line, section.name) not in ours]
    packed = [line for i, line in enumerate(mine) if line.strip() or (i and mine[i - 1].strip())]
    return trimmed(packed)


def _new(lines: Iterable[str], section: Section, own: Sequence[str], removed: Sequence[str]) -> list[str]:
    """The lines made anew that a person has neither written already nor taken out."""
    out = {checksum(same, section.name) for line in own if line.strip() for same in (line, inert(line))}.union(removed)
    return trimmed([line for line in lines if not line.strip() or checksum(line, section.name) not in out])


def _joined(own: Sequence[str], new: Sequence[str]) -> list[str]:
    return [*own, *([""] if own and new else []), *new]


def _within(lines: list[str], section: Section, most: float, estimate: Callable[[str], float]) -> list[str]:
    """Lines within a limit, cut at a line and with a note: of a log the newest stay, else the first."""
    if estimate("\n".join(lines)) <= most:
        return balanced(lines)
    newest = section.kind == "log"
    kept, room = list[str](), most - estimate(left_out(len(lines)))
    for line in reversed(lines) if newest else lines:
        room -= estimate(f"{line}\n")
        if room < 0:
            break
        kept.append(line)
    note = left_out(len(lines) - len(kept))
    return balanced([note, *reversed(kept)] if newest else [*kept, note])


def left_out(count: int) -> str:
    """The note where a section was cut."""
    return f"[… {count:,} more lines left out: over the section's limit]"


def is_note(line: str) -> bool:
    """Whether a line is such a note."""
    return line.startswith("[… ") and line.endswith(" more lines left out: over the section's limit]")


def balanced(lines: list[str]) -> list[str]:
    """Lines in which no fenced block is left open: it would take in the sections behind it."""
    fenced = ""
    for line in lines:
        fence = FENCE.match(line)
        if fence and fenced in ("", fence[1]):
            fenced = "" if fenced else fence[1]
    return [*lines, fenced] if fenced else lines
