"""How much of what the assistant used later is still in view behind a fold, without a model (B2).

A recorded conversation is cut. ``prepare`` finds the references that the assistant used behind the cut and that had been
shown before it; ``judge`` looks which of them stand in what is shown instead of the history. What comes behind the cut is
the same whatever the history became, so a reference counts only where its first mention behind the cut is the assistant's
own: one that a result or a person mentioned first was told again, and is counted apart.

References are found by patterns of this module's own, so that nothing which chooses what to keep is judged by its own
notion of one. Looking is plain: a reference is in view where its characters stand as a whole, white space counted as one
space. Thinking, notes and earlier summaries say nothing in the recording; a summary that is shown is read like any text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from ..core.entries import SHOWN_AS, Entry
from ..core.estimate import measure_entry
from ..core.messages import JSON, Block, ServerToolResult, ServerToolUse, Text, ToolResult, ToolUse, result_text

Kind: TypeAlias = Literal["path", "identifier", "command", "number", "hex", "error", "quoted"]
Voice: TypeAlias = Literal["assistant", "call", "script", "person", "system", "result"]
"""Who says a text; ``call`` and ``script`` are the assistant's, in a call's input. What a harness writes in the user's role
is a ``result``, because some formats put results there."""

CONTEXT_CHARS = 24
"""So many characters beside a reference, on both sides together, make a piece of the text it stood in."""
OLD_SHARE = 0.25
"""What was last seen before the latest such share of the history's tokens is old."""
MOST_CHARS = 120
"""Longer tokens are data, not references."""
MOST_PAIRS = 4_000
"""So many pairs of places of one reference are compared letter by letter."""
SENTENCE_BYTES = 12
"""Shorter sentences of people (yes, go on) tell nothing."""

_VOICES: dict[str, Voice] = {"assistant": "assistant", "system": "system", "attachment": "result"}
_TOLD_TOOL = "<tool-use "
"""SpecStory's Markdown writes calls and their results as text of the assistant that begins so."""
_SCRIPT_KEYS = frozenset({"command", "cmd", "script"})
_CUTTABLE = Text | ToolUse | ToolResult
_OWN: frozenset[Voice] = frozenset({"assistant", "call", "script"})
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"\n|</?[a-z][^<>\n]*>|(?<=[.!?])\s+|(?<=[。！？])")
_TOKEN = re.compile(
    r"""
    (?P<path> (?<![\w/.@+~-]) (?:[a-z]{2,8}:// | [~.]{0,2}/)? (?:[\w.@+~-]+/)+ (?:[\w.@+~-]*\w)? )
  | (?P<hex> \b (?: [0-9a-f]{7,64} | [0-9a-f]{8} (?:-[0-9a-f]{4}){3} -[0-9a-f]{12} ) \b (?!-) )
  | (?P<number> \b v?\d+ (?:[.,:]\d+)+ \b | \b\d{4}-\d\d-\d\d\b | \b\d{5,}\b )
  | (?P<name> [A-Za-z_][\w-]* (?:\.[A-Za-z_][\w-]*)* )
    """,
    re.VERBOSE,
)
_UNWORDLY = re.compile(r"[\d._@+~]")
_HUMP = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_FILE = re.compile(
    r"[\w.-]+\.(?:py|[jt]sx?|mjs|go|rs|c|h|cpp|java|kt|rb|php|cs|swift|sh|sql|jsonl?|ya?ml|toml|ini|cfg|md|rst|txt|html|css|xml|csv|lock|mod|log)"
)
_FENCED = re.compile(r"```(?:bash|sh|shell|zsh|console)\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(r"(?:^|&&|\|\|?|;|\$\()[ \t]*(?:sudo[ ]+)?([a-z][\w.-]+)[ \t]+([a-z][\w:-]+)", re.MULTILINE)
_CODE = re.compile(r"import|from|return|def|class|if|elif|else|for|while|in|do|then|with|raise|async|await|func|type|var|let|const")
"""Words that begin lines of code, not commands."""
_QUOTED = re.compile(
    r"""(?<!\w)"([^\s"][^"\n]{6,78}[^\s"])"(?!\w) | `([^\s`][^`\n]{6,78}[^\s`])` | [“「]([^“”「」\n]{2,80})[”」]""", re.VERBOSE
)
_ERROR = re.compile(r"(?:[Ee]rror|ERROR|Exception|panic|fatal|FAILED)(?:\[\w+\])?: +([^\n]{8,100})")


class Need(NamedTuple):
    """A reference that the assistant used behind the cut, before anybody had told it again."""

    reference: str
    kind: Kind
    used: int
    """Entry of its first use, counted from 0."""
    last_seen: int
    """Last entry before the cut that showed it."""
    old: bool
    """Last seen before the latest quarter of the history by tokens."""
    found: bool
    """Shown by tool results only."""
    beside: frozenset[tuple[str, str]]
    """What stood before and behind it, at most ``CONTEXT_CHARS`` each, wherever the history showed it."""


class Question(NamedTuple):
    """What a view that stands for ``entries[:cut]`` is asked for."""

    needs: tuple[Need, ...]
    refetched: int
    """References shown before the cut and used behind it, but told again before that use."""
    sentences: tuple[str, ...]
    """What people had said, each sentence once, white space counted as one space."""
    tokens: int
    """Size of the history, unpadded."""


class Retention(NamedTuple):
    """Counts of one view. Shares are ``kept / needed``; they mean nothing without ``tokens``, the view's unpadded size."""

    kept: int
    needed: int
    old_kept: int
    old_needed: int
    found_kept: int
    found_needed: int
    context_kept: int
    """Of ``kept``: beside ``CONTEXT_CHARS`` of the text they had stood in, or in the whole of a shorter one."""
    sentences_kept: int
    sentences: int
    tokens: int


def prepare(entries: Sequence[Entry], cut: int) -> Question:
    """What is used later, of the originals of a log cut before entry ``cut``."""
    history = _Read(entries[:cut])
    later = _Read(entries[cut:], cut)
    recent = _recent(entries[:cut])
    needs: list[Need] = []
    refetched = 0
    for reference, (kind, used) in _first_uses(entries, cut).items():
        seen = list(history.places(reference))
        if not seen or _told_before(later, reference, used):
            refetched += bool(seen)
            continue
        last, _ = history.who(seen[-1])
        beside = frozenset(history.beside(at, len(reference)) for at in seen)
        found = all(history.who(at)[1] == "result" for at in seen)
        needs.append(Need(reference, kind, used, last, last < recent, found, beside))
    return Question(tuple(needs), refetched, tuple(_sentences(entries[:cut])), _tokens(entries[:cut]))


def _told_before(later: _Read, reference: str, used: int) -> bool:
    """Whether somebody else's text behind the cut holds a reference before the entry in which the assistant uses it."""
    for at in later.places(reference):
        entry, voice = later.who(at)
        if entry >= used or voice not in _OWN:
            return entry < used
    return False


def kept(question: Question, shown: Sequence[Entry]) -> list[Need]:
    """What of the needs is in view."""
    view = _Read(shown, summaries=True)
    return [need for need in question.needs if next(view.places(need.reference), None) is not None]


def judge(question: Question, shown: Sequence[Entry]) -> Retention:
    """What is left in ``shown``, the entries that stand for the history."""
    view, in_view = _Read(shown, summaries=True), kept(question, shown)
    return Retention(
        kept=len(in_view),
        needed=len(question.needs),
        old_kept=sum(need.old for need in in_view),
        old_needed=sum(need.old for need in question.needs),
        found_kept=sum(need.found for need in in_view),
        found_needed=sum(need.found for need in question.needs),
        context_kept=sum(_in_context(need, view) for need in in_view),
        sentences_kept=sum(sentence in view.text for sentence in question.sentences),
        sentences=len(question.sentences),
        tokens=_tokens(shown),
    )


def suffix_of(entries: Sequence[Entry], cut: int, tokens: float) -> list[Entry]:
    """The newest entries before ``cut`` that fit into ``tokens``, and of the next older one as much of its end as still does:
    what a plain suffix of that size shows (lift). It is for judging; calls and results in it may lack each other."""
    kept: list[Entry] = []
    for entry in reversed(entries[:cut]):
        part = end_of(entry, tokens)
        if part is not None:
            kept.append(part)
            tokens -= measure_entry(part).tokens
        if any(isinstance(block, _CUTTABLE) and block not in (part.blocks if part else ()) for block in entry.blocks):
            break
    return kept[::-1]


def end_of(entry: Entry, tokens: float) -> Entry | None:
    """An entry, or the end of it that fits into ``tokens``: whole blocks, and the end of one text, call or result. What cannot
    be cut and does not fit (media, thinking) is left out. None where nothing fits."""
    if measure_entry(entry).tokens <= tokens:
        return entry
    blocks: list[Block] = []
    for block in reversed(entry.blocks):
        part: Block | None = block
        if _size(entry, [block, *blocks]) > tokens:
            part = _end_of_block(entry, block, blocks, tokens)
        if part is not None:
            blocks.insert(0, part)
        if part is not block and isinstance(block, _CUTTABLE):
            break
    return msgspec.structs.replace(entry, blocks=tuple(blocks)) if blocks else None


def _end_of_block(entry: Entry, block: Block, behind: list[Block], tokens: float) -> Block | None:
    """The longest end of a block's text that fits beside the blocks behind it; of a call, as a text."""
    if not isinstance(block, _CUTTABLE):
        return None
    text = "\n".join(text for _, text in _said(block, "assistant"))

    def ending(chars: int) -> Block:
        end = text[len(text) - chars :]
        return msgspec.structs.replace(block, content=end) if isinstance(block, ToolResult) else Text(end)

    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(entry, [ending(middle), *behind]) <= tokens else (low, middle - 1)
    return ending(low) if low else None


def _size(entry: Entry, blocks: list[Block]) -> int:
    return measure_entry(msgspec.structs.replace(entry, blocks=tuple(blocks))).tokens


def _tokens(entries: Iterable[Entry]) -> int:
    return sum(measure_entry(entry).tokens for entry in entries)


def _recent(history: Sequence[Entry]) -> int:
    """First entry of the latest quarter of a history."""
    left = OLD_SHARE * _tokens(history)
    at = len(history)
    while at and (left := left - measure_entry(history[at - 1]).tokens) >= 0:
        at -= 1
    return at


# --- texts, in which can be looked


class _Read:
    """The texts of entries as one string: white space made one space, a line each. ``first``: number of the first entry."""

    def __init__(self, entries: Sequence[Entry], first: int = 0, *, summaries: bool = False) -> None:
        self._pieces: list[tuple[int, Voice]] = []
        self._starts: list[int] = []
        lines: list[str] = []
        at = 0
        for number, entry in enumerate(entries, first):
            for voice, text in said(entry, summaries=summaries):
                line = flat(text)
                if line:
                    self._pieces.append((number, voice))
                    self._starts.append(at)
                    lines.append(line)
                    at += len(line) + 1
        self.text = "\n".join(lines)
        self._words = frozenset(_WORD.findall(self.text))

    def places(self, reference: str) -> Iterator[int]:
        """Where a reference stands as a whole: no letter, digit or underscore goes on where it begins and ends with one."""
        if not all(word in self._words for word in _WORD.findall(reference)):
            return
        size = len(reference)
        opens, closes = _WORD.match(reference), _WORD.match(reference[-1])
        at = self.text.find(reference)
        while at >= 0:
            before, behind = self.text[max(0, at - 1) : at], self.text[at + size : at + size + 1]
            if not (opens and _WORD.match(before)) and not (closes and _WORD.match(behind)):
                yield at
            at = self.text.find(reference, at + 1)

    def who(self, place: int) -> tuple[int, Voice]:
        """The entry that a place lies in, and who speaks there."""
        return self._pieces[bisect_right(self._starts, place) - 1]

    def beside(self, place: int, size: int) -> tuple[str, str]:
        """What stands before and behind a place in the same text; a line end in it is the text's own end."""
        before = self.text[max(0, place - CONTEXT_CHARS) : place]
        behind = self.text[place + size : place + size + CONTEXT_CHARS]
        return before[before.rfind("\n") + 1 :] if "\n" in before else before, behind.split("\n", 1)[0]


def said(entry: Entry, *, summaries: bool = False) -> Iterator[tuple[Voice, str]]:
    """Who says what in an entry, a text for each block; ``summaries``: what a summary says counts too."""
    if entry.kind not in SHOWN_AS or (entry.summary and not summaries):
        return
    for block in entry.blocks:
        yield from _said(block, _VOICES.get(entry.kind, "result" if entry.meta else "person"))


def _said(block: Block, own: Voice) -> Iterator[tuple[Voice, str]]:
    match block:
        case Text(text):
            yield ("result" if own == "assistant" and text.startswith(_TOLD_TOOL) else own), text
        case ToolUse(input=input) | ServerToolUse(input=input):
            for key, value in input.items() if isinstance(input, dict) else [("", input)]:
                yield ("script" if key in _SCRIPT_KEYS else "call"), "\n".join(_strings(value))
        case ToolResult():
            yield "result", result_text(block)
        case ServerToolResult(content=content):
            yield "result", "\n".join(_strings(content))
        case _:
            pass


def flat(text: str) -> str:
    """A text with each run of white space made one space."""
    return " ".join(text.split())


def _strings(value: JSON) -> Iterator[str]:
    if isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _in_context(need: Need, view: _Read) -> bool:
    """Whether somewhere in the view enough stands beside a reference that stood beside it in the history."""
    now = {view.beside(at, len(need.reference)) for at in view.places(need.reference)}
    if now & need.beside:
        return True
    pairs = islice(product(sorted(now), sorted(need.beside)), MOST_PAIRS)
    return any(_alike(a[0][::-1], b[0][::-1]) + _alike(a[1], b[1]) >= min(CONTEXT_CHARS, len(b[0]) + len(b[1])) for a, b in pairs)


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _sentences(history: Sequence[Entry]) -> Iterator[str]:
    """The sentences of people, each once, without the tags in which a harness wraps them."""
    texts = (text for entry in history for voice, text in said(entry) if voice == "person")
    sentences = (flat(part) for text in texts for part in _SENTENCE_END.split(text))
    return iter(dict.fromkeys(one for one in sentences if len(one.encode("utf-8", "replace")) >= SENTENCE_BYTES))


# --- references


def _first_uses(entries: Sequence[Entry], cut: int) -> dict[str, tuple[Kind, int]]:
    """Each reference that the assistant uses behind the cut, with its kind and the entry of its first use."""
    found: dict[str, tuple[Kind, int]] = {}
    for number in range(cut, len(entries)):
        for voice, text in said(entries[number]):
            if voice in _OWN:
                for reference, kind in references(text, script=voice == "script"):
                    found.setdefault(reference, (kind, number))
    return found


def references(text: str, *, script: bool = False) -> Iterator[tuple[str, Kind]]:
    """The references of a text, white space in them made one space. ``script``: it is one, and holds commands."""
    for match in _TOKEN.finditer(text):
        token, kind = match[0], match.lastgroup
        if len(token) <= MOST_CHARS:
            yield from _of_token(token.rstrip(".-"), kind or "")
    for code in [text] if script else _FENCED.findall(text):
        for match in _COMMAND.finditer(code):
            if not _CODE.fullmatch(match[1]):
                yield f"{match[1]} {match[2]}", "command"
    for match in _QUOTED.finditer(text):
        quoted = flat(match[match.lastindex or 0])
        if " " in quoted or not quoted.isascii():
            yield quoted, "quoted"
    for match in _ERROR.finditer(text):
        yield flat(match[1]), "error"


def _of_token(token: str, kind: str) -> Iterator[tuple[str, Kind]]:
    match kind:
        case "path":
            if _is_path(token):
                yield token, "path"
        case "hex":
            if token.isdigit():
                yield token, "number"
            elif any(char.isdigit() for char in token):
                yield token, "hex"
        case "number":
            yield token, "number"
        case _:
            if _FILE.fullmatch(token):
                yield token, "path"
            else:
                yield from ((part, "identifier") for part in token.split(".") if _is_identifier(part))


def _is_path(token: str) -> bool:
    """Whether a token with a slash is a path and not two words: it is anchored, deep, or has a sign that words have not."""
    return any(char.isalpha() for char in token) and (token[0] in "/~." or token.count("/") > 1 or bool(_UNWORDLY.search(token)))


def _is_identifier(part: str) -> bool:
    """Inner underscores, inner capitals, or letters together with digits."""
    core = part.strip("_")
    if len(core) < 4 or not any(char.isalpha() for char in core):
        return False
    return "_" in core or bool(_HUMP.search(core)) or (len(core) > 4 and any(char.isdigit() for char in core))
