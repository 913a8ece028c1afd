"""aider's chat history in Markdown: what the user typed as ``#### `` headings, what aider printed as ``> `` quotes,
and the model's answers in between, with a ``# aider chat started at`` heading for every start of the program.

Every start is a conversation of its own, as aider begins with nothing; it is named by its time, which is a note in it. The
last one in which something was said is the main one. Inputs that follow one another with no output between them are one
entry of several blocks. What aider printed was mostly not sent to the model: it is user-role text of the harness
(``meta``). The file says nothing of an output's lines behind its first where aider left their ``> `` out; these read as an
answer, as they do for aider.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..core.entries import Entry, Head
from ..core.log import Log
from ..core.messages import Text
from ..core.transcript import Conversation, ConversationKind, Transcript
from .common import Ids, is_message_entry, parse_time, transcript
from .source import Source
from .specstory import is_specstory

NAME = "aider"

_HEAD_BYTES = 262_144
_STARTED = "# aider chat started at "
_START_LINE = re.compile(r"^# aider chat started at \d{4}-\d\d-\d\d", re.MULTILINE)
_INPUT_LINE = re.compile(r"^#### \S", re.MULTILINE)
_LOG_LINE = re.compile(r"^> (?:\$ aider\b|Aider v\d|Applied edit to |Tokens: [\d.,]+k? sent|Added \S+ to the chat)", re.MULTILINE)
_MODEL = re.compile(r"^(?:Main model|Models?): ([^\s,]+)", re.MULTILINE)

_Kind: TypeAlias = Literal["start", "input", "output", "answer"]


@dataclass
class _Part:
    """A run of lines of one kind, from line ``line``; an input part has a run of its own for each input."""

    kind: _Kind
    line: int
    runs: list[list[str]] = field(default_factory=list)


def recognises(source: Source) -> bool:
    """A text with aider's start heading, or with typed headings and lines that only aider prints."""
    if source.shape != "text":
        return False
    with source.open() as file:
        start = file.read(_HEAD_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
    if is_specstory(start):
        return False
    return bool(_START_LINE.search(start)) or bool(_INPUT_LINE.search(start) and _LOG_LINE.search(start))


@dataclass
class _Session:
    """What came of one start of the program."""

    name: str = ""
    entries: list[Entry] = field(default_factory=list)
    model: str | None = None

    @property
    def rank(self) -> int:
        """2: a person or the model said something; 1: aider printed something; 0: there are notes only."""
        said = [not entry.meta for entry in self.entries if is_message_entry(entry)]
        return 1 + any(said) if said else 0


def read(source: Source) -> Transcript:
    """A conversation for each start, the last one with a message first. Raises InputError where nothing was said in any."""
    sessions = _sessions(source.text())
    best = max((session.rank for session in sessions), default=0)
    main = next((session for session in reversed(sessions) if session.rank == best), None)
    found = [_conversation(session, "main" if session is main else "sample") for session in sessions]
    return transcript(NAME, source, sorted(found, key=lambda conversation: conversation.kind != "main"))


def _conversation(session: _Session, kind: ConversationKind) -> Conversation:
    return Conversation(Log(Head(model=session.model, name=session.name), session.entries), kind)


def _sessions(text: str) -> list[_Session]:
    """The sessions in order. Notes in front of the first start (a title, a mode line) belong to it; more than notes there
    is the end of an earlier session that was cut off."""
    sessions = [_Session()]
    names = Ids()
    for part in _parts(text):
        session = sessions[-1]
        preface = len(sessions) == 1 and not session.entries and not session.name
        entry = _entry(part, f"line{part.line}", preface=preface)
        if part.kind == "start":
            if session.name or session.rank:
                session.name = session.name or names("before the first start")
                session = _Session()
                sessions.append(session)
            session.name = names(_text_of(entry).removeprefix(_STARTED[2:]).strip())
        elif part.kind == "output" and (named := _MODEL.search(_text_of(entry))):
            session.model = named[1]
        session.entries.append(entry)
    return sessions


def _parts(text: str) -> Iterator[_Part]:
    """The parts in order. Blank lines end an input, and belong to whatever they stand in otherwise."""
    part: _Part | None = None
    after_blank = False
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        kind = _kind(line)
        if kind == "answer" and not line.strip():
            after_blank = True
            if part is not None and part.kind == "answer":
                part.runs[-1].append("")
            continue
        if part is None or part.kind != kind or kind == "start":
            if part is not None:
                yield part
            part = _Part(kind, number, [[]])
        elif after_blank and kind == "input":
            part.runs.append([])
        elif after_blank and kind == "output":
            part.runs[-1].append("")
        part.runs[-1].append(_said(line, kind))
        after_blank = False
    if part is not None:
        yield part


def _kind(line: str) -> _Kind:
    first = line[:1]
    if first == "#":
        if line.startswith("#### ") or line == "####":
            return "input"
        if line.startswith(_STARTED):
            return "start"
    elif first == ">" and line[1:2] in ("", " "):
        return "output"
    return "answer"


def _said(line: str, kind: _Kind) -> str:
    """A line without its marker and without the two spaces that make it a line of its own in Markdown."""
    if kind == "answer":
        return line
    bare = line[5:] if kind == "input" else line[2:]
    return bare.removesuffix("  ")


def _entry(part: _Part, id: str, *, preface: bool) -> Entry:
    texts = ["\n".join(run).strip("\n") for run in part.runs]
    blocks = tuple(Text(text) for text in texts if text.strip())
    match part.kind:
        case "start":
            time = parse_time(texts[0].removeprefix(_STARTED[2:]).strip())
            return Entry(id=id, kind="note", blocks=blocks, time=time, line=part.line)
        case "input":
            return Entry(id=id, kind="user", blocks=blocks, line=part.line)
        case "output":
            return Entry(id=id, kind="user", blocks=blocks, meta=True, line=part.line)
        case "answer":
            # Nothing can be an answer before something was said: a title, front matter, an editor's mode line.
            return Entry(id=id, kind="note" if preface else "assistant", blocks=blocks, line=part.line)


def _text_of(entry: Entry) -> str:
    return "\n".join(block.text for block in entry.blocks if isinstance(block, Text))
