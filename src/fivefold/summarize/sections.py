"""The nine sections of a structural summary (L3, L6), each made of what the log says; one with nothing to say is left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from .calls import Call, Fix, Work, command_core, one_line
from .carried import Item, Task
from .people import People, Said
from .pick import Snippet
from .redact import redact
from .sentences import sentences_of
from .spoken import Unit, Voice

_NO_REQUEST = re.compile(r"\s*(?:/[\w:.-]+|\[Request interrupted[^\]]*\]|<(?:command-(?:name|message)|local-command-).*)\s*", re.S)
"""What a person typed for the harness: a bare command, an interrupt."""
INTENT_CHARS = 700
QUOTE_CHARS = 300
TITLE_CHARS = 110
MESSAGE = "[message]"
"""What stands for a tool's name where a person spoke."""
TITLE_AT_CHARS = 500
_TITLES: dict[Voice, str] = {"call": "a call", "harness": "from the harness", "person": "out of the message"}
_TITLE = re.compile(r"<summary>(?:Tool use: )?([^<>]+)</summary>")
FIXES_FILES = 5
TITLES = (
    "1. Primary request and intent",
    "2. Key technical concepts",
    "3. Files and code",
    "4. Errors and fixes",
    "5. Problem solving and decisions, in the assistant's words",
    "6. All user messages",
    "7. Pending tasks",
    "8. Current work",
    "9. Next step",
)
RECORD_TITLE = "Record of the calls, oldest first, with lines picked from them"


class Section(NamedTuple):
    """A headed part of the summary. Empty ``text``: it is left out."""

    title: str
    text: str


class Facts(NamedTuple):
    """What the fixed sections are made from."""

    people: People
    newest_follows: bool
    """The newest message of a person stands behind the summary."""
    works: Sequence[Work]
    fixes: Sequence[Fix]
    plan: Sequence[Item]
    background: Sequence[Task]
    prose: Sequence[Unit]
    """The assistant's own texts in the folded part, in order."""
    names: Sequence[tuple[str, int]]
    """Names the assistant wrote most, and in how many rounds."""
    calls: Sequence[Call]
    pins: Sequence[str]
    standing: Sequence[str] = ()
    """What the harness told before anything was said: a project's rules."""


def shortener(cwd: str | None) -> Callable[[str], str]:
    """How paths are shown: relative to the working directory where that is known."""
    prefix = "" if not cwd or cwd == "/" else cwd.rstrip("/") + "/"
    return (lambda text: text.replace(prefix, "")) if prefix else (lambda text: text)


def request(facts: Facts) -> str:
    """The first and the newest request, standing pins before them."""
    parts = [f"Pinned: {pin}" for pin in facts.pins]
    parts += [f"From the start, by the harness:\n{text}" for text in facts.standing]
    said = facts.people.said
    first, newest = ends_of(said)
    if said:
        parts.append(f"First request:\n{said[first].text}")
    if facts.newest_follows:
        parts.append("The newest request follows behind this record.")
    elif newest > first:
        parts.append(f"Newest request:\n{said[newest].text}")
    return "\n".join(parts)


def ends_of(said: Sequence[Said]) -> tuple[int, int]:
    """Which message is the first request, and which the newest: no bare command of a harness, no answer to a question."""
    asks = [i for i, one in enumerate(said) if not one.answer and not _NO_REQUEST.fullmatch(one.text)] or [0]
    return asks[0], asks[-1]


def concepts(facts: Facts) -> str:
    """The names that the work turned on, and what was run."""
    parts = []
    if facts.names:
        parts.append("Names the work turned on (rounds): " + ", ".join(f"{name} ({rounds})" for name, rounds in facts.names))
    heads = Counter(" ".join(call.subject.split()[:2]) for call in facts.calls if call.act == "shell" and call.subject)
    often = [(head, count) for head, count in heads.most_common(8) if count > 1]
    if often:
        parts.append("Commands run: " + ", ".join(f"{one_line(head, 40)} ×{count}" for head, count in often))
    return "\n".join(parts)


def files(works: Sequence[Work], room: Room) -> str:
    """Each file with what was done to it, those changed first, then by how lately; paths stand here as they were given."""
    lines = []
    for work in sorted(works, key=lambda work: work.last_change is None):
        done = [times("edited", work.edited), times("read", work.read)]
        lines.append(f"- {work.file}: {', '.join(filter(None, ['created' if work.created else '', *done]))}")
    return room.fit(lines, "files")


def times(what: str, count: int) -> str:
    """``edited``, ``edited ×3``; empty for none."""
    return "" if not count else what if count == 1 else f"{what} ×{count}"


def errors(fixes: Sequence[Fix], short: Callable[[str], str], room: Room) -> str:
    """Failing calls, newest first in the choice, oldest first on the page, and what came of each."""
    lines = []
    for fix in reversed(fixes):
        edited = ", ".join(short(file) for file in fix.edited[:FIXES_FILES])
        if fix.passed:
            outcome = f"passed after edits of {edited}" if edited else "passed later"
        else:
            outcome = f"failed again, otherwise, after edits of {edited}" if edited else "not seen to pass since"
        lines.append(f"- {fix.call.name}: {short(fix.call.subject)}\n  {short(fix.call.failed)}\n  → {outcome}")
    return room.fit(lines, "failing calls", newest_last=True)


def messages(facts: Facts) -> str:
    """All that people said, in order; the first and the newest stand above, and not twice."""
    people = facts.people
    first, newest = ends_of(people.said)
    above = {first} if facts.newest_follows else {first, newest}
    lines = _numbered(people.said, above)
    if people.dropped:
        lines.insert(0, f"[{len(people.dropped)} more, said in between: recall {people.dropped[0]} … {people.dropped[-1]}]")
    if not lines:
        return ""
    rest = "" if facts.newest_follows or newest == first else f" Message {newest + 1}, the newest request, stands there too."
    return "\n".join([f"[{first + 1}] stands above, as the first request.{rest}", *lines])


def _numbered(said: Sequence[Said], above: Container[int]) -> list[str]:
    """Messages with their numbers, those left out that stand ``above``; equal ones in a row (“go on”) come once, with the numbers of
    all."""
    lines: list[str] = []
    at = 0
    while at < len(said):
        stop = at + 1
        while stop < len(said) and said[stop].text == said[at].text and at not in above and stop not in above:
            stop += 1
        if at not in above:
            lines.append(f"[{at + 1}{f'–{stop}' if stop > at + 1 else ''}] {said[at].text}")
        at = stop
    return lines


def pending(plan: Sequence[Item], background: Sequence[Task]) -> str:
    """The last state of the plan, done items in one line, and what still runs."""
    lines = [f"- [{item.state or 'open'}] {item.text}" for item in plan if item.is_open]
    done = [item.text for item in plan if not item.is_open]
    if done and lines:
        lines.append("Done: " + "; ".join(one_line(text, 60) for text in done))
    if background:
        lines.append("Running in the background, not to be started again:")
        lines += [f"- {task.id} [{task.status}] {task.started_by}".rstrip() for task in background]
    return "\n".join(lines)


def current(prose: Sequence[Unit], room: Room) -> str:
    """The assistant's last words in the folded part."""
    return room.fit([f"- {clip(redact(unit.text), INTENT_CHARS)}" for unit in reversed(prose[-2:])], "", newest_last=True)


def next_step(facts: Facts) -> str:
    """What was to be done next, with a verbatim quote."""
    doing = next((item for item in facts.plan if item.is_open and "progress" in item.state), None)
    quote = last_sentence(facts.prose)
    parts = [f"In progress: {doing.text}"] if doing else []
    if quote:
        parts.append(f"The last the assistant said here: “{quote}”")
    return "\n".join(parts)


def last_sentence(prose: Sequence[Unit]) -> str:
    """The last sentence of the last text."""
    found = sentences_of(redact(prose[-1].text)[-4 * QUOTE_CHARS :]) if prose else []
    said = [sentence for _, sentence in found if not sentence.startswith(("<", "|", "```"))]
    return clip(said[-1], QUOTE_CHARS) if said else ""


def clip(text: str, most_chars: int) -> str:
    """The end of a text, at the start of a word."""
    text = text.strip()
    if len(text) <= most_chars:
        return text
    cut = text[-most_chars:]
    return "… " + (cut.partition(" ")[2] or cut)


class Room:
    """Tokens that the fixed sections may take together."""

    def __init__(self, tokens: float, per_char: float) -> None:
        self._chars = tokens / per_char

    def fit(self, lines: Iterable[str], what: str, *, newest_last: bool = False) -> str:
        """As many lines from the front as there is room for, half of what is left at most; what is left out is counted."""
        room, kept, left = self._chars / 2, list[str](), 0
        for line in lines:
            if len(line) + 1 <= room and not left:
                kept.append(line)
                room -= len(line) + 1
            else:
                left += 1
        self._chars -= sum(map(len, kept))
        if newest_last:
            kept.reverse()
        if left and what:
            kept.insert(0 if newest_last else len(kept), f"({left} more {what})")
        return "\n".join(kept)


# --- the record


class Record(NamedTuple):
    """One line a call, and the picked lines below. ``unlisted``: calls without a line of their own."""

    text: str
    unlisted: int


def header(call: Call, short: Callable[[str], str]) -> str:
    """A call on one line."""
    line = f"- {call.name}: {short(call.subject)}" if call.subject else f"- {call.name}"
    return f"{line} → failed: {short(call.failed)}" if call.failed else line


def record(
    calls: Sequence[Call],
    heads: Mapping[int, str],
    picked: Mapping[int, Sequence[Snippet]],
    listed: Container[int],
    units: Sequence[Unit],
    persons: Sequence[int],
    short: Callable[[str], str],
) -> Record:
    """Calls and other texts in the order of the conversation. ``heads``: the header of each call, by its unit; ``picked``: snippets
    by unit; ``listed``: units of the calls that have a line without any picked one; ``persons``: units where the numbered
    messages of section 6 were said."""
    owner = {unit: call.unit for call in calls for unit in (call.unit, call.result) if unit is not None}
    blocks: list[_Block] = [_Block(unit, MESSAGE, "", f"- [message {number}]") for number, unit in enumerate(persons, 1)]
    by_call: dict[int, list[str]] = {}
    for unit in sorted(picked):
        lines = shown(picked[unit], units[unit].text)
        call = owner.get(unit)
        if call is None:
            blocks.append(_Block(unit, "", "", "\n".join([f"- {_title(units[unit])}", *lines])))
        else:
            told = heads[call] if unit == call else ""
            by_call.setdefault(call, []).extend(line for line in lines if not told or short(command_core(line)) not in told)
    unlisted = Counter[str]()
    for one in calls:
        lines = by_call.get(one.unit, [])
        if lines or (one.failed and one.unit in listed):
            blocks.append(_Block(one.unit, "", "", "\n".join([heads[one.unit], *lines])))
        elif one.unit in listed:
            blocks.append(_Block(one.unit, one.name, short(one.subject), heads[one.unit]))
        else:
            unlisted[one.name] += 1
    lines = [f"(without a line: {', '.join(f'{name} ×{count}' for name, count in unlisted.most_common(8))})"] if unlisted else []
    return Record("\n".join(lines + _merged(sorted(blocks))), unlisted.total())


class _Block(NamedTuple):
    """A call or another text of the record. ``tool`` and ``subject`` only of a bare line of a call."""

    unit: int
    tool: str
    subject: str
    text: str


def _title(unit: Unit) -> str:
    return _result_title(unit.text) if unit.voice == "result" else _TITLES[unit.voice]


def _result_title(text: str) -> str:
    """How a result without a call is called: by the title that some Markdown formats give it."""
    title = _TITLE.search(text[:TITLE_AT_CHARS])
    return one_line(title[1].replace("*", ""), TITLE_CHARS) if title else "a result"


def _merged(blocks: Sequence[_Block]) -> list[str]:
    """The texts, bare lines of the same tool in a row on one line."""
    lines: list[str] = []
    last = ""
    for i, (_, tool, subject, text) in enumerate(blocks):
        if tool == MESSAGE and (i + 1 == len(blocks) or blocks[i + 1].tool == MESSAGE):
            continue  # only where something follows that it was said about
        if tool and tool == last and subject and len(lines[-1]) + len(subject) < 200:
            lines[-1] += f"; {subject}"
        else:
            lines.append(text)
        last = tool
    return lines


def shown(snippets: Sequence[Snippet], text: str) -> list[str]:
    """Picked pieces of one text in order, two blanks in; what overlaps comes once, and a cut line is marked."""
    lines: list[str] = []
    stop = -1
    for _, start, piece in snippets:
        end = start + len(piece)
        if start < stop:
            if end > stop and "\n" in text[stop:end]:
                lines.append(indented(text[stop:end].partition("\n")[2] if text[stop] != "\n" else text[stop:end]))
            elif end > stop:
                lines[-1] += text[stop:end]
        elif start == stop or (start and not text[text.rfind("\n", 0, start) + 1 : start].isspace() and text[start - 1] != "\n"):
            lines.append(indented(f"…{piece}"))
        else:
            lines.append(indented(piece))
        stop = max(stop, end)
    return [line for line in lines if line]


def indented(text: str) -> str:
    """A text, each of its lines two blanks in, empty ones left out."""
    if "\n" not in text:
        return f"  {text.rstrip()}" if text and not text.isspace() else ""
    return "\n".join(f"  {line.rstrip()}" for line in text.split("\n") if line.strip())
