"""The sections of a session memory from the log alone, without a model (S2, L6): any language, conversations without code too.

Made anew each time from all that was said, within the limits of the sections, so it never grows and never degrades. A pure function:
the same entries give the same lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TypeAlias

from ..core.entries import Entry
from ..core.pairing import pair, rounds
from ..summarize import sections as page
from ..summarize.calls import Call, Fix, calls_of, fixes_of, one_line, work_on_files
from ..summarize.carried import background_of, plan_of, running_of
from ..summarize.pick import REFERENCE_TOKENS, Candidate, Headers, Snippet, candidates, most_likely, pick
from ..summarize.prose import ANNOUNCING, LEAST_WORDS
from ..summarize.redact import redact
from ..summarize.references import Extractor as References
from ..summarize.render import is_reminder
from ..summarize.sentences import sentences_of
from ..summarize.units import Unit
from .merge import FENCE, inert
from .template import Kind

Lines: TypeAlias = dict[Kind, list[str]]
TITLE_CHARS = 100
SAID_CHARS = 600
"""So much of one message of a person; of the first and of the newest twice that."""
STATE_CHARS = 600
SHORT_CHARS, NEWEST = 16, 3
"""A shorter line (“- ok, go on”) gives way first, but for the newest ones."""
LISTED_SHARE = 0.3
"""So much of the log's limit is for calls from which no line was picked."""
LISTS_SHARE = 0.85
"""Lists of paths have more tokens a character than what a conversation says."""
CALL_TOKENS = 22
ALL_SHARE = 0.7
"""Where all sentences take no more than this share of the room, none is left out."""
SENTENCES_LOOKED_AT = 12
"""So many times what there is room for is looked at, the newest first."""
SAID = "What people said (oldest first):"
"""A heading by which a compaction, which shows people's words itself, knows what it need not show twice (``compose``)."""
_LOOKING = frozenset({"ls", "cat", "head", "tail", "sed", "grep", "rg", "find", "pwd", "wc", "echo", "which", "cd", "tree", "nl", "awk"})
"""Commands that only look at something: they stand in the log, and nobody needs them again."""
_LOOKING_GIT = frozenset({"status", "diff", "log", "show", "blame", "branch", "ls-files", "ls-remote", "rev-parse"})
_COMMAND = re.compile(r"<command-name>([^<]*)</command-name>(?:\s*<command-(?:message|args)>[^<]*</command-(?:message|args)>)*")
_ARGUMENTS = re.compile(r"<command-args>([^<]*)</command-args>")
_BESIDE = re.compile(r"<((?:current|system|environment|ide|user|local)[\w-]*[-_][\w-]+)>.*?</\1>", re.S)
"""What a harness puts into a person's message: the time, its reminders, what is open in an editor."""
_BULLET = re.compile(r"^(?:[-*+•>|]\s+|\d{1,2}[.)]\s+|#{1,6}\s+)+")
ANSWER_WORTH = 2.0
"""A sentence of a text that ends a turn is worth so much of one that was said between calls."""
CALL_CHARS = 200
FAILED_CHARS = 90
_SAMPLES = 24
_SAMPLE_CHARS = 200


@dataclass(frozen=True, slots=True)
class _Material:
    """What the sections are made from."""

    entries: Sequence[Entry]
    memory: References
    units: list[Unit]
    calls: list[Call]
    rounds: int
    said: list[str]
    """What people said, each message on one line."""
    short: Callable[[str], str]
    estimate: Callable[[str], float]
    per_char: float

    @property
    def prose(self) -> list[int]:
        """The units of the assistant's own texts."""
        return [i for i, unit in enumerate(self.units) if unit.voice == "assistant"]

    def room(self, tokens: float) -> page.Room:
        """Room for one list of so many tokens (``Room.fit`` gives half of itself away)."""
        return page.Room(2 * tokens, self.per_char)


def extract(
    entries: Sequence[Entry],
    *,
    limits: Mapping[Kind, float],
    estimate: Callable[[str], float],
    known: References | None = None,
    cwd: str | None = None,
    running: Sequence[tuple[str, str, str]] | None = None,
) -> Lines:
    """The lines of each section that ``limits`` names, in tokens. ``known``: a memory of the same conversation, which makes it cheaper
    and changes nothing else; ``cwd`` shortens paths; ``running``: the registry of background tasks, None: the log tells."""
    memory = (known or References()).knowing(entries)
    index, pairing = memory.index, pair(entries)
    calls = calls_of(entries, index.units, pairing, index.places, index.calls)
    per_char = _per_char([unit.text for unit in index.units], estimate)
    short = page.shortener(cwd)
    found = _Material(entries, memory, index.units, calls, max(1, len(rounds(entries))), _said(index.units), short, estimate, per_char)
    made: Lines = {
        "title": _title(found),
        "state": _state(found, limits.get("state", 0)),
        "task": _task(found, limits.get("task", 0)),
        "files": _lines(page.files(work_on_files(calls), found.room(LISTS_SHARE * limits.get("files", 0)))),
        "commands": _commands(found, limits.get("commands", 0)),
        "errors": _errors(found, limits.get("errors", 0)),
        "decisions": _decisions(found, limits.get("decisions", 0)),
        "open": _open(found, running),
    }
    made["log"] = _log(found, limits.get("log", 0), "\n".join(line for lines in made.values() for line in lines))
    return {kind: plain(lines) for kind, lines in made.items() if kind in limits}


def _said(units: Sequence[Unit]) -> list[str]:
    found: dict[int, list[str]] = {}
    for unit in units:
        if unit.voice == "person" and not is_reminder(unit.text):
            found.setdefault(unit.entry, []).append(_BESIDE.sub(" … ", _COMMAND.sub(_command, unit.text)))
    lines = [" ".join(redact("\n".join(texts)).split()).strip("… ") for texts in found.values()]
    return [line for line in lines if line]


def _command(match: re.Match[str]) -> str:
    """What a person typed to run a command of the harness."""
    given = _ARGUMENTS.search(match[0])
    return f"{match[1].strip()} {given[1].strip() if given else ''}".strip()


def _per_char(texts: Sequence[str], estimate: Callable[[str], float]) -> float:
    sample = "\n".join([text[:_SAMPLE_CHARS] for text in texts[:: max(1, len(texts) // _SAMPLES)]])
    return max(0.05, estimate(sample) / len(sample)) if sample else 0.3


def plain(lines: Iterable[str]) -> list[str]:
    """Lines as they can stand in a section: without secrets and marks that could pass for ours, without fences, of which a section
    may hold only one end, and none that could pass for a heading."""
    whole = inert("\n".join(lines)).split("\n")
    return [f"  {line}" if line.startswith("#") else line.rstrip() for line in whole if line.strip() and not FENCE.match(line)]


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


# --- the sections


def _title(found: _Material) -> list[str]:
    """The first sentence of the first request; a command of the harness is none."""
    said = next((text for text in found.said if not text.startswith("/")), found.said[0] if found.said else "")
    sentences = sentences_of(said[: 4 * TITLE_CHARS])
    return [one_line(sentences[0][1] if sentences else said, TITLE_CHARS)] if said else []


def _state(found: _Material, most: float) -> list[str]:
    """The newest request, the item in progress, the last call, and the assistant's last words."""
    said, prose, calls = found.said, found.prose, found.calls
    lines = [f"- Newest request: {clipped(said[-1], STATE_CHARS)}"] if said else []
    doing = next((item for item in plan_of(found.entries) if item.is_open and "progress" in item.state), None)
    if doing is not None:
        lines.append(f"- In progress: {doing.text}")
    last = [f"- Last call: {one_line(page.header(calls[-1], found.short)[2:], CALL_CHARS)}"] if calls else []
    words = [f"- The assistant: {page.clip(' '.join(redact(found.units[i].text).split()), STATE_CHARS)}" for i in prose[-2:]]
    if len(words) > 1 and found.estimate("\n".join([*lines, *words, *last])) > most:
        words = words[1:]
    return [*lines, *words, *last]


def clipped(text: str, most_chars: int) -> str:
    """The start and the end of a text on one line, cut at words, about so many characters together."""
    if len(text) <= most_chars:
        return text
    head, tail = text[: most_chars * 3 // 4], text[-(most_chars // 4) :]
    return f"{head.rpartition(' ')[0] or head} … {tail.partition(' ')[2] or tail}"


def _task(found: _Material, most: float) -> list[str]:
    """What people said, each once: where there is no room for all the long ones shorter, then just the first and the newest."""
    said = list(dict.fromkeys(found.said))
    if not said:
        return []
    for chars in (SAID_CHARS, SAID_CHARS // 2, SAID_CHARS // 4):
        lines = [f"- {clipped(text, 2 * chars if i in (0, len(said) - 1) else chars)}" for i, text in enumerate(said)]
        if found.estimate("\n".join(lines)) <= most:
            return [SAID, *lines]
    room = most - CALL_TOKENS - found.estimate(SAID) - found.estimate(lines[0])
    kept: list[str] = []
    for i, line in reversed([*enumerate(lines)][1:]):
        if len(line) > SHORT_CHARS or i >= len(lines) - NEWEST or not line.isascii():
            room -= found.estimate(f"{line}\n")
            if room < 0:
                break
            kept.append(line)
    return [SAID, lines[0], f"({len(lines) - 1 - len(kept)} more, older or very short)", *reversed(kept)]


def _commands(found: _Material, most: float) -> list[str]:
    """The commands that do something, each once with how its last run ended: those that were run again, then the newest."""
    runs = [call for call in found.calls if call.act == "shell" and call.subject and not _only_looks(call.subject)]
    counts = Counter(call.subject for call in runs)
    last = {call.subject: call for call in runs}
    lines = []
    for subject, call in sorted(last.items(), key=lambda item: (counts[item[0]] == 1, -item[1].unit)):
        times = f" ×{counts[subject]}" if counts[subject] > 1 else ""
        failed = f" → failed: {one_line(found.short(call.failed), FAILED_CHARS)}" if call.failed else ""
        lines.append(f"- `{found.short(subject)}`{times}{failed}")
    return _fit(found, lines, most, "commands")


def _only_looks(command: str) -> bool:
    words = command.split()
    return words[0] in _LOOKING or (words[0] == "git" and len(words) > 1 and words[1] in _LOOKING_GIT)


def _fit(found: _Material, lines: Sequence[str], most: float, what: str) -> list[str]:
    """As many lines from the front as there is room for; those left out are counted."""
    kept = sum(size <= most - CALL_TOKENS for size in accumulate(found.estimate(f"{line}\n") for line in lines))
    return list(lines) if kept == len(lines) else [*lines[:kept], f"({len(lines) - kept} more {what})"]


def _errors(found: _Material, most: float) -> list[str]:
    """Failing calls, the newest where there is no room for all, and what came of each; a search that found nothing is none."""
    fixes = [fix for fix in fixes_of(found.calls) if not (fix.call.act == "shell" and _looked(fix))]
    return _lines(page.errors(fixes, found.short, found.room(LISTS_SHARE * most)))


def _looked(fix: Fix) -> bool:
    return not fix.call.subject or _only_looks(fix.call.subject)


def _decisions(found: _Material, most: float) -> list[str]:
    """The assistant's sentences that say most that is not said yet, in order: those of its answers rather than those between calls, and
    those that only announce the call behind them last."""
    offered = list(_sentences(found, most))
    if sum(len(candidate.line.text) for candidate in offered) * found.per_char <= ALL_SHARE * most:
        picked = [Snippet(line.unit, line.start, redact(line.text)) for line, _, _ in offered]
    else:
        counts = Counter(chain.from_iterable(candidate.line.refs for candidate in offered))
        weights = {word: count**-0.5 for word, count in counts.items()}
        picked = pick(found.memory.index, offered, weights, most, found.per_char, least=LEAST_WORDS)
    lines = [(snippet, f"- {_BULLET.sub('', ' '.join(snippet.text.split()).strip('| '), count=1)}") for snippet in picked]
    kept = sum(size <= most for size in accumulate(found.estimate(f"{line}\n") for _, line in lines))
    return list(dict.fromkeys(line for _, line in sorted(lines[:kept])))


def _sentences(found: _Material, most: float) -> Iterator[Candidate]:
    """The sentences that may be picked, the newest texts first."""
    units, index, room = found.units, found.memory.index, SENTENCES_LOOKED_AT * most / found.per_char
    for i in reversed(found.prose):
        calls = i + 1 < len(units) and units[i + 1].voice == "call"
        recency = (1 + max(0, found.rounds - 1 - units[i].round)) ** -0.45
        sentences = index.sentences(i)
        for line in sentences:
            announces = line.text[-1] in ":：" or (calls and line is sentences[-1] and units[i].refs.isdisjoint(line.refs))
            if line.text[0] not in "<(" and (" " in line.text or not line.text.isascii()):
                yield Candidate(line, recency * (1.0 if calls else ANSWER_WORTH) * (ANNOUNCING if announces else 1.0))
        room -= len(units[i].text)
        if room < 0:
            return


def _open(found: _Material, running: Sequence[tuple[str, str, str]] | None) -> list[str]:
    """What the plan holds that is not done, what runs, and a question that nobody has answered."""
    tasks = background_of(found.calls, found.units, found.memory.index.started) if running is None else running_of(running)
    lines = _lines(page.pending(plan_of(found.entries), tasks))
    if found.units and found.units[-1].voice == "assistant":
        asked = [text for _, text in sentences_of(redact(found.units[-1].text)) if text.rstrip().endswith(("?", "？", "؟"))]
        lines += [f"- Asked, not answered yet: {one_line(asked[-1], SAID_CHARS)}"] if asked else []
    return lines


def _log(found: _Material, most: float, told: str) -> list[str]:
    """The calls, oldest first, and below them the lines of what they showed that are most likely to be needed again."""
    heads = {call.unit: page.header(call, found.short) for call in found.calls}
    listed = _listed(found, heads, LISTED_SHARE * most)
    picked = _picked(found, heads, listed, (1 - LISTED_SHARE) * most, told)
    for _ in range(len(picked) + 1):
        by_unit: dict[int, list[Snippet]] = {}
        for snippet in sorted(picked):
            by_unit.setdefault(snippet.unit, []).append(snippet)
        text = page.record(found.calls, heads, by_unit, listed, found.units, (), found.short).text
        over = found.estimate(text) - most
        if over <= 0 or not picked:
            break
        picked = picked[: max(0, min(len(picked) - 1, int(len(picked) * most / (most + over))))]
    return _lines(text)


def _listed(found: _Material, heads: Mapping[int, str], most: float) -> set[int]:
    """The newest calls, as many as there is room for."""
    listed = set[int]()
    for call in reversed(found.calls):
        most -= found.per_char * (len(heads[call.unit]) + 1)
        if most < 0 and listed:
            break
        listed.add(call.unit)
    return listed


def _picked(found: _Material, heads: Mapping[int, str], listed: set[int], budget: float, told: str) -> list[Snippet]:
    index, units = found.memory.index, found.units
    told = "\n".join([told, *(heads[unit] for unit in listed)])
    wanted = most_likely(index.seen, found.memory.seen_in(told), found.rounds - 1, int(budget / REFERENCE_TOKENS))
    changing = {call.unit for call in found.calls if call.act in ("edit", "create")}
    is_source = [unit.voice in ("result", "harness") or i in changing for i, unit in enumerate(units)]
    offered = candidates(index, wanted, is_source, heads)
    owners = {call.result: call.unit for call in found.calls if call.result is not None}
    tokens = {unit: 0.0 if unit in listed else len(head) * found.per_char for unit, head in heads.items()}
    return pick(index, offered, wanted, budget, found.per_char, Headers(owners, tokens))
