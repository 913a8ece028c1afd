"""The text of a summary's entry: what a model, a memory or the provider wrote, and beside it what code carries over from the log,
never left to prose (C6): people's words, standing instructions, pins, the plan, what runs in the background.

What a summary says that people said is checked against the log: a line that nobody said is taken out (their own words are listed).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from ..core.entries import Entry
from .calls import Call, calls_of, one_line, work_on_files
from .carried import background_of, plan_of
from .frame import framed
from .parse import shortened
from .people import People, people_of
from .receipt import Receipt, count_instructions, count_refs, count_unread
from .redact import redact
from .references import Extractor
from .render import is_reminder, media_names
from .units import Texts, Unit, refs_where, texts_of

Source: TypeAlias = Literal["model", "memory", "native"]

CARRIED = "## From the log, word for word"
NOTES = "Notes that were kept while the work went on:"
_COPIED = re.compile(rf"^{CARRIED}.*?(?=^## |\Z)", re.M | re.S)
BRIEF_TOKENS = 2_000
"""Under this budget for what is carried, an auto threshold of some 8,000 tokens, the frame is the short one."""
TASK_CHARS = 160
ITEM_CHARS = 300
LEAST_ITEM_CHARS = 40
"""However little room there is, so much of each open item stays."""
MOST_ITEMS = 200
_ENDED = frozenset(
    {"finished", "completed", "complete", "done", "failed", "killed", "stopped", "cancelled", "canceled", "exited", "ended", "error"}
)


class Runs(Protocol):
    """A background task or agent, as the program that runs it knows it (``RunningTask``)."""

    @property
    def id(self) -> str:
        """Its name there, word for word."""

    @property
    def task(self) -> str:
        """What it is to do."""

    @property
    def status(self) -> str:
        """One that says that it has ended keeps it out."""


class Shares(Protocol):
    """Tokens for what is carried; ``structural.Budget`` is one."""

    @property
    def people(self) -> float:
        """People's words and standing instructions."""

    @property
    def facts(self) -> float:
        """The plan and what runs."""


class RunningTask(NamedTuple):
    """A ``Runs``."""

    id: str
    task: str
    status: str = "running"


class Composed(NamedTuple):
    """The framed text of the entry and the fold's account of itself. ``removed``: lines of the body that nobody said."""

    text: str
    receipt: Receipt
    removed: tuple[str, ...] = ()


def compose(
    entries: Sequence[Entry],
    start: int,
    cut: int,
    body: str,
    *,
    estimate: Callable[[str], float],
    budget: Shares,
    transcript: str,
    tail_follows: bool,
    unasked: bool,
    cwd: str | None = None,
    source: Source = "model",
    pins: Sequence[str] = (),
    running: Sequence[Runs] | None = None,
    instructions: Sequence[str] | None = None,
    unseen: Sequence[str] = (),
    seen_in_part: int = 0,
    known: Extractor | None = None,
    brief: bool | None = None,
) -> Composed:
    """The entry for ``body``, which stands for the log's entries from ``start`` to ``cut``.

    ``running``: the registry of background tasks; None: there is none, and the log tells. ``instructions``: standing ones, verbatim;
    None: the reminders that the log begins with; an empty list where they are put back otherwise (C5). ``unseen``,
    ``seen_in_part``: what the body was not, or only partly, made from (L13). ``known``: as for ``structural.plan``. ``brief``: the
    short frame; None: where the budget is small.
    """
    texts = texts_of(entries, known=known)
    folded = [unit for unit in texts.units if start <= unit.entry < cut and unit.voice != "system"]
    spoken = [unit for unit in texts.units if unit.voice == "person" and not is_reminder(unit.text)]
    standing = reminders(folded) if instructions is None else list(instructions)
    standing = [_within(redact(text).strip(), budget.people / 2, estimate) for text in dict.fromkeys(standing)]
    room = max(budget.people / 2, budget.people - sum(map(estimate, standing)))
    people = people_of([unit for unit in spoken if start <= unit.entry < cut], lambda i: entries[i].id, room, estimate)
    told, removed = checked(_own(redact(body)), [redact(unit.text) for unit in spoken], [said.text for said in people.said if said.whole])
    calls, short = calls_of(entries, texts.units), _shortener(cwd)
    gone = [call for call in calls if start <= texts.units[call.unit].entry < cut]
    parts = [
        "\n".join(f"Pinned: {redact(pin)}" for pin in pins),
        "\n".join(["Standing instructions:", *standing]) if standing else "",
        _messages(people, any(unit.entry >= cut for unit in spoken)),
        _plan(entries, cut, budget.facts, estimate),
        _background(calls, texts.units, running, short),
        _files(entries[start:cut], gone, told, budget.facts / 2, estimate, short),
    ]
    if source == "memory" and told:
        told = f"{NOTES}\n{told}"
    text = "\n\n".join(filter(None, [told, "\n".join([CARRIED, *filter(None, parts)]) if any(parts) else ""]))
    receipt = _receipt(entries, start, cut, texts, folded, text, people, unseen, seen_in_part, len(removed))
    brief = budget.people + budget.facts < BRIEF_TOKENS if brief is None else brief
    return Composed(framed(text, transcript=transcript, tail_follows=tail_follows, unasked=unasked, brief=brief), receipt, removed)


def _own(body: str) -> str:
    """A body without what code has put beside an earlier one and a model has copied: it is put there anew."""
    return _COPIED.sub("", body).strip().removeprefix(NOTES).strip()


# --- what is carried


def reminders(units: Sequence[Unit]) -> list[str]:
    """The harness's standing text: the reminders beside what people said before the first response."""
    return [unit.text.strip() for unit in units if unit.round == 0 and unit.voice == "person" and is_reminder(unit.text)]


def _within(text: str, most: float, estimate: Callable[[str], float]) -> str:
    size = estimate(text)
    return text if size <= most else shortened(text, int(len(text) * most / size))


def _messages(people: People, newest_follows: bool) -> str:
    """What people said, in order; equal messages in a row once, with the numbers of all."""
    said = people.said
    if not said:
        return ""
    lines = ["What people said, oldest first; the newest follows behind:" if newest_follows else "What people said, the newest last:"]
    at = 0
    while at < len(said):
        stop = at + 1
        while stop < len(said) and said[stop].text == said[at].text:
            stop += 1
        lines.append(f"[{at + 1}{f'–{stop}' if stop > at + 1 else ''}] {said[at].text}")
        at = stop
    if people.dropped:
        lines.insert(2, f"[… {len(people.dropped)} more: recall {people.dropped[0]} … {people.dropped[-1]}]")
    return "\n".join(lines)


def _plan(entries: Sequence[Entry], cut: int, most: float, estimate: Callable[[str], float]) -> str:
    """The open items of the last plan with their states, all of them, shorter where there is little room; nothing where the
    plan stands in what is kept."""
    items = plan_of(entries)
    left = [item for item in items if item.is_open]
    if not left or plan_of(entries[cut:]) == items:
        return ""
    done = len(items) - len(left)
    title = f"Plan ({done} of {len(items)} items done), open:"
    for chars in (ITEM_CHARS, 160, 80, LEAST_ITEM_CHARS):
        lines = [f"- [{item.state or 'open'}] {one_line(item.text, chars)}" for item in left[:MOST_ITEMS]]
        if estimate("\n".join(lines)) <= most:
            break
    rest = [f"({len(left) - MOST_ITEMS} more open items)"] if len(left) > MOST_ITEMS else []
    return "\n".join([title, *lines, *rest])


def _background(calls: Sequence[Call], units: Sequence[Unit], running: Sequence[Runs] | None, short: Callable[[str], str]) -> str:
    """What runs: from the registry word for word, else what the log shows to have started and not to have ended."""
    if running is not None:
        lines = [f"- {task.id} [{task.status}] {task.task}" for task in running if task.status.lower() not in _ENDED]
    else:
        tasks = background_of(calls, units)
        lines = [f"- {task.id} [started] {one_line(short(task.started_by), TASK_CHARS)}".rstrip() for task in tasks]
    return "\n".join(["Running in the background, not to be started again:", *map(redact, lines)]) if lines else ""


def _files(
    folded: Sequence[Entry],
    calls: Sequence[Call],
    told: str,
    most: float,
    estimate: Callable[[str], float],
    short: Callable[[str], str],
) -> str:
    """The documents and files that the body does not name, the last ones first, as many as there is room for."""
    works = work_on_files(calls)
    names = [*reversed(media_names(folded)), *(short(work.file) for work in sorted(works, key=lambda work: work.last_change is None))]
    line = "Files:"
    for name in dict.fromkeys(one_line(name, TASK_CHARS) for name in names if name not in told):
        longer = f"{line}{',' if line[-1] != ':' else ''} {name}"
        if estimate(longer) > most:
            break
        line = longer
    return line if line != "Files:" else ""


def _shortener(cwd: str | None) -> Callable[[str], str]:
    prefix = "" if not cwd or cwd == "/" else cwd.rstrip("/") + "/"
    return (lambda text: text.replace(prefix, "")) if prefix else (lambda text: text)


# --- what the body says that people said

_PERSON = r"(?:users?|people|persons?|humans?)(?:['’]s?)?"
_REST = r"(?: \(.{0,80}\)| (?:that|which|so far|in order|verbatim|word for word|excluding|except|other than|not|—|–|-).{0,80})?"
_USERS_SECTION = re.compile(
    "|".join(
        (
            rf"(?:all |the |verbatim )*{_PERSON}(?: \w+)? (?:messages?|words|requests|instructions|quotes){_REST}",
            rf"(?:what|all|everything)(?: that)? (?:the )?{_PERSON} (?:said|asked|wrote)(?: for)?{_REST}",
            r"(?:所有|全部)?(?:的)?(?:用户(?:消息|信息|的话)|用戶(?:訊息|消息)).{0,20}",
            ".{0,10}ユーザー(?:の)?(?:メッセージ|発言)|.{0,6}사용자(?:의)? ?메시지",
            "(?:все )?сообщени[яй] пользовател.{0,20}|(?:todos )?(?:los )?mensajes del usuario|(?:todas )?(?:as )?mensagens do usu[áa]rio",
            "(?:tous )?(?:les )?messages de l['’]utilisateur|(?:alle )?(?:(?:be)?nutzer-?nachrichten|nachrichten des (?:be)?nutzers)",
        )
    ),
    re.I,
)
_OTHER_SECTION = re.compile(
    r"(?:primary request|key technical|files? and|errors? and|problem solving|pending|current work|completed|decided|decisions|limits|"
    r"open (?:items|tasks)|(?:optional )?next (?:step|action|concrete))\b",
    re.I,
)
_MARKUP = re.compile(r"\s*(?:#{1,6}\s*)?(?:[-*+•>]\s+)*(?:[(\[]?\d{1,3}[.)\]:]\s*)?")
_LISTED = re.compile(r"\s*(?:[-*+•>]\s|[(\[]?\d{1,3}[.)\]:]\s|[“\"])")
_SPEAKER = re.compile(r"^(?:the )?(?:user|person|human)(?: \d+)?(?: said)?\s*:\s*", re.I)
_ELLIPSIS = re.compile(r"\[?(?:…|\.{3})\]?")
_ATTRIBUTED = re.compile(
    rf"\b{_PERSON}(?:(?: \w+){{0,2}}? (?:said|says|wrote|asked|asks|told|requested|instructed|words?|messages?|instructions?)|(?=\s*:))"
    r"(?: (?:that|this|is|was|reads|were))?\s*[:,]?\s*[“\"]([^”\"\n]{12,400})[”\"]",
    re.I,
)
_LEAST_WORDS = 3
"""A quote of fewer words is a name, not a sentence."""
UNSAID = "(a quote that no message holds, left out)"


def checked(body: str, said: Sequence[str], listed: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A body without what nobody said, and what was taken out of it: lines of its section of people's messages that are no part
    of any message, and quotes that it gives to a user elsewhere. ``said``: all messages; ``listed``: those that stand whole
    beside the body, whose lines need not be there twice."""
    messages = "\n".join(map(_plain, said))
    doubled = {_plain(line) for text in listed for line in [text, *text.split("\n")]}
    kept, removed, heads = list[str](), list[str](), list[tuple[int, int]]()
    section = _Section()
    for line in body.split("\n"):
        bare = _bare(line)
        if _USERS_SECTION.fullmatch(bare):
            section = _Section(inside=True)
            heads.append((len(kept), 0))
            kept.append(line)
        elif section.goes_on(line, bare):
            piece = _SPEAKER.sub("", bare).strip(" \"“”'‘’`")
            parts = [part for part in map(_plain, _ELLIPSIS.split(piece)) if part]
            if not all(part in messages for part in parts):
                removed.append(line.strip())
            elif parts and _plain(piece) not in doubled:
                kept.append(line)
                heads[-1] = heads[-1][0], heads[-1][1] + 1
        else:
            kept.append(line)
    empty = {at for at, count in heads if not count}
    text = "\n".join(line for i, line in enumerate(kept) if i not in empty)
    return _unquoted(text, messages, removed), tuple(removed)


@dataclass(slots=True)
class _Section:
    """Where a body lists people's messages: up to the next heading, or to prose behind the end of a list."""

    inside: bool = False
    listed: bool = False
    gap: bool = False

    def goes_on(self, line: str, bare: str) -> bool:
        """Whether a line is one of the messages listed."""
        if not self.inside or not line.strip():
            self.gap = True
            return False
        marked = _LISTED.match(line) is not None
        if _is_heading(line, bare) or (self.listed and self.gap and not marked):
            self.inside = False
        self.listed, self.gap = self.listed or marked, False
        return self.inside


def _unquoted(text: str, messages: str, removed: list[str]) -> str:
    def replaced(match: re.Match[str]) -> str:
        quote = match[1]
        parts = [part for part in map(_plain, _ELLIPSIS.split(quote)) if part]
        if len(quote.split()) < _LEAST_WORDS or all(part in messages for part in parts):
            return match[0]
        removed.append(quote)
        return match[0][: match.start(1) - match.start() - 1] + UNSAID

    return _ATTRIBUTED.sub(replaced, text).strip()


def _bare(line: str) -> str:
    """A line without bullets, numbers and emphasis."""
    return _MARKUP.sub("", line.replace("**", ""), count=1).strip().rstrip(": ")


def _is_heading(line: str, bare: str) -> bool:
    return line.startswith("#") or (line.startswith("**") and line.rstrip(": ").endswith("**")) or _OTHER_SECTION.match(bare) is not None


def _plain(text: str) -> str:
    """A text to be compared: white space, kinds of quotes, emphasis and case do not count."""
    text = " ".join(text.casefold().split())
    for mark, plain in (("“", '"'), ("”", '"'), ("’", "'"), ("‘", "'"), ("**", ""), ("`", "")):
        text = text.replace(mark, plain)
    return text.strip(" .,;:!?\"'。！？")


def _receipt(
    entries: Sequence[Entry],
    start: int,
    cut: int,
    texts: Texts,
    folded: Sequence[Unit],
    text: str,
    people: People,
    unseen: Sequence[str],
    seen_in_part: int,
    removed: int,
) -> Receipt:
    kinds = texts.extractor.kinds
    kept = [unit for unit in texts.units if not start <= unit.entry < cut]
    refs = refs_where(folded, lambda unit: True)
    in_view = refs_where(kept, lambda unit: True) | texts.extractor.once(text)
    in_view.update(ref for ref in refs - in_view if kinds[ref] == "command" and ref in text)
    never_saw = {**count_unread(entries[start:cut]), **({"entries, for their size": len(unseen)} if unseen else {})}
    left_out = {
        "messages shortened": sum(not said.whole for said in people.said),
        "messages": len(people.dropped),
        "texts seen in part": seen_in_part,
        "lines that nobody said": removed,
    }
    return Receipt(
        entries=cut - start,
        results_shortened=0,
        references=count_refs(refs, in_view, kinds),
        user_instructions=count_instructions(folded, [text, *(unit.text for unit in kept)]),
        never_saw=never_saw,
        left_out={what: count for what, count in left_out.items() if count},
    )
