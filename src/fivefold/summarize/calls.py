"""The calls of a conversation: what each did to which file, whether it failed, and what made it pass again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from ..core.entries import Entry
from ..core.messages import Block, ServerToolResult, ServerToolUse, ToolResult, ToolUse
from ..core.pairing import Pairing, Place, pair
from ..core.tools import file_of
from .redact import redact
from .spoken import Unit

Act: TypeAlias = Literal["read", "edit", "create", "shell", "search", "other"]

SUBJECT_CHARS = 110
ERROR_CHARS = 180
_LOOKED_AT = 2_500
"""Characters at each end of a result in which a failure is looked for."""

_READ = frozenset({"read", "view", "readfile", "readfiles", "cat", "open", "viewfile", "notebookread", "readmanyfiles"})
_CREATE = frozenset({"write", "create", "writefile", "createfile", "newfile", "writetofile"})
_EDIT = frozenset(
    {"edit", "multiedit", "strreplace", "applypatch", "editor", "notebookedit", "patch", "editfile", "replace", "insert", "replaceinfile"}
)
_NOT_LETTERS = re.compile(r"[^a-z]")
_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$", re.M)
_WRITTEN = re.compile(r"(?:>>?|\btee(?: -a)?)\s+([\w./~-]+\.\w+)|\bsed -i[^\n;|&]*?\s([\w./~-]+\.\w+)(?:\s|$)")
_FENCE = re.compile(r"^[ \t]*```([^\n`]*)\n(.*?)^[ \t]*```", re.S | re.M)
"""A fenced block, its language and its text. All are read, or the end of one would open the next."""
_SHELLS = re.compile(r"(?:bash|sh|shell|console|zsh|powershell|\w+_bash_command)?\s*")
_CODED = re.compile(r'"?cmd"?: *("(?:[^"\\]|\\.)*")')
"""A shell command inside a program that calls the shell tool."""
_IS_JSON = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_EXIT = re.compile(r"(?:exit(?:ed)?(?: with)?(?: code| status)?|returncode)[>:= ]{1,3}(-?\d+)", re.I)
_TRACE = re.compile(r"Traceback \(most recent|^(?:error(?:\[\w+\])?|fatal|panic|bash|FAILED|--- FAIL|FAIL)\b[:\s]", re.M)
_ERROR_LINE = re.compile(
    r"^.*(?:\w*(?:Error|Exception)\b|\berror\b|\bfatal\b|\bpanic\b|FAIL|not found|[Nn]o such|denied|[Cc]annot|undefined).*$", re.M
)
_LAST_ERROR_LINE = re.compile(r"^(?:E\s+)?[\w.]*(?:Error|Exception): .*$", re.M)
_HEADER = re.compile(r"\s*(?:Output|Chunk ID|Wall time|Command|Process exited|Total output lines|Original token count|Exit code)\b")
"""What a harness writes around an output, which tells no error."""
_AND_THEN = re.compile(r"\|\|?|&&|;")
_QUIET = ("grep", "rg ", "diff", "test ", "[ ", "which", "ls ")
"""Commands whose exit code 1 is an answer."""


class Call(NamedTuple):
    """One call. ``unit`` and ``result`` count in the units; ``failed`` is the error in one line, empty where it passed."""

    unit: int
    result: int | None
    round: int
    name: str
    act: Act
    subject: str
    files: tuple[str, ...]
    failed: str

    @property
    def key(self) -> str:
        """What makes two calls tries of the same: the tool, and the file or the first words of the command."""
        if self.act == "shell":
            return f"{self.name} {' '.join(command_core(self.subject).split()[:3])}"
        return f"{self.name} {self.files[0] if self.files else self.subject}"


def calls_of(
    entries: Sequence[Entry],
    units: Sequence[Unit],
    pairing: Pairing | None = None,
    places: Mapping[tuple[int, int], int] | None = None,
    made: dict[tuple[int, int | None], Call | None] | None = None,
) -> list[Call]:
    """The calls in order; shell commands that stand in the assistant's text are among them where the harness answered.

    What is known already need not be worked out again: ``pairing`` of the entries, ``places`` (which unit a block is), and
    ``made``, the calls of an earlier time by their unit and that of their result.
    """
    if places is None:
        places = {(unit.entry, unit.block): i for i, unit in enumerate(units)}
    made = {} if made is None else made
    results: dict[Place, Place] = {found.call: found.result for found in (pairing or pair(entries)).pairs}
    calls: list[Call] = []
    for i, unit in enumerate(units):
        if unit.voice == "call":
            block = entries[unit.entry].blocks[unit.block]
            answer = results.get(Place(unit.entry, unit.block)) or _server_answer(entries[unit.entry], unit.entry, block)
            result = None if answer is None else places.get(answer)
            key = i, result
        elif unit.voice == "assistant" and "```" in unit.text:
            key = i, i + 1 if i + 1 < len(units) else None
        else:
            continue
        if key not in made:
            made[key] = call_at(entries, units, *key)
        if (call := made[key]) is not None:
            calls.append(call)
    return calls


def call_at(entries: Sequence[Entry], units: Sequence[Unit], i: int, result: int | None) -> Call | None:
    """The call of unit ``i`` with its result, a unit too; None where a text of the assistant holds no command that was answered."""
    unit = units[i]
    block = entries[unit.entry].blocks[unit.block]
    if not isinstance(block, ToolUse | ServerToolUse):
        return _told(i, unit, units)
    error = False
    if result is not None:
        answer = entries[units[result].entry].blocks[units[result].block]
        error = isinstance(answer, ToolResult) and answer.is_error
    return _call(i, unit, block, units, result, error)


def _server_answer(entry: Entry, index: int, call: Block) -> Place | None:
    if not isinstance(call, ServerToolUse):
        return None
    found = (i for i, block in enumerate(entry.blocks) if isinstance(block, ServerToolResult) and block.tool_use_id == call.id)
    return next((Place(index, i) for i in found), None)


def _call(i: int, unit: Unit, block: ToolUse | ServerToolUse, units: Sequence[Unit], result: int | None, error: bool) -> Call:
    act = act_of(block)
    subject = _subject(block, unit.text, act)
    output = "" if result is None else units[result].text
    shell = act == "shell"
    bad = (error or (shell and _has_failed(output))) and not (shell and _is_answer(subject, output))
    heard = result is not None and units[result].voice == "person"  # what a person answered is no failure
    failed = error_line(output) if bad and not heard else ""
    return Call(i, result, unit.round, block.name, act, subject, _files(block, unit.text, act), failed)


def _told(i: int, unit: Unit, units: Sequence[Unit]) -> Call | None:
    """A call of a harness without tools: a fenced command that the next message answers."""
    answer = units[i + 1] if i + 1 < len(units) else None
    if answer is None or answer.voice != "harness":
        return None
    fences = [text for language, text in _FENCE.findall(unit.text) if _SHELLS.fullmatch(language)]
    if not fences:
        return None
    script = str(fences[-1]).strip()
    subject = one_line(command_core(script), SUBJECT_CHARS)
    bad = _has_failed(answer.text) and not _is_answer(subject, answer.text)
    failed = error_line(answer.text) if bad else ""
    return Call(i, i + 1, unit.round, "shell", "shell", subject, _written_by(script), failed)


def act_of(block: ToolUse | ServerToolUse) -> Act:
    """What a call does, by the name of its tool and the keys of its input."""
    given = block.input if isinstance(block.input, dict) else {}
    name = _NOT_LETTERS.sub("", block.name.lower())
    if name == "strreplaceeditor":
        command = given.get("command")
        return "read" if command == "view" else "create" if command == "create" else "edit"
    if name in _READ:
        return "read"
    if name in _CREATE:
        return "create"
    if name in _EDIT:
        return "edit"
    if isinstance(given.get("command", given.get("cmd")), str | list) or name in ("bash", "shell", "exec", "executebash", "terminal"):
        return "edit" if "*** Begin Patch" in _script(block) else "shell"
    return "search" if "pattern" in given or "query" in given else "other"


def _script(block: ToolUse | ServerToolUse) -> str:
    if isinstance(block.input, str):
        coded = _CODED.search(block.input)
        return str(json.loads(coded[1], strict=False)) if coded and _IS_JSON.fullmatch(coded[1]) else block.input
    given = block.input if isinstance(block.input, dict) else {}
    value = given.get("command", given.get("cmd", ""))
    return value if isinstance(value, str) else " ".join(str(part) for part in value) if isinstance(value, list) else ""


def _subject(block: ToolUse | ServerToolUse, text: str, act: Act) -> str:
    if act == "shell":
        return one_line(command_core(_script(block) or text), SUBJECT_CHARS)
    if act == "edit" and (patched := _PATCHED.findall(text)):
        return one_line(", ".join(path for _, path in patched), SUBJECT_CHARS)
    file = file_of(block)
    given = block.input if isinstance(block.input, dict) else {}
    sought = given.get("pattern", given.get("query"))
    if isinstance(sought, str):
        return one_line(f"{sought} in {file}" if file else sought, SUBJECT_CHARS)
    return one_line(file or text, SUBJECT_CHARS)


def _files(block: ToolUse | ServerToolUse, text: str, act: Act) -> tuple[str, ...]:
    if act == "shell":
        return _written_by(_script(block))
    if act == "edit" and (patched := _PATCHED.findall(text)):
        return tuple(dict.fromkeys(str(path).strip() for _, path in patched))
    file = file_of(block)
    return () if file is None or act in ("search", "other") else (file,)


def _written_by(script: str) -> tuple[str, ...]:
    found = (a or b for a, b in _WRITTEN.findall(script))
    return tuple(dict.fromkeys(path for path in found if not path.startswith("/dev/")))


def command_core(script: str) -> str:
    """A shell command without the change of directory in front of it."""
    script = script.strip()
    while script.startswith("cd ") and "&&" in script:
        script = script.split("&&", 1)[1].strip()
    return script


def _ends(output: str) -> str:
    return output if len(output) <= 2 * _LOOKED_AT else output[:_LOOKED_AT] + "\n" + output[-_LOOKED_AT:]


def _is_answer(command: str, output: str) -> bool:
    """Whether a command says with exit code 1 that it found nothing, and not that it failed."""
    code = _EXIT.search(_ends(output))
    return code is not None and code[1] == "1" and _AND_THEN.split(command)[-1].strip().startswith(_QUIET)


def _has_failed(output: str) -> bool:
    """Whether a shell result tells of a failure: by its exit code, where it tells none by a trace or an error at a line's start."""
    ends = _ends(output)
    code = _EXIT.search(ends) if "xit" in ends or "returncode" in ends else None
    return code[1] != "0" if code is not None else _TRACE.search(ends) is not None


def error_line(output: str) -> str:
    """The line of a failing result that says most."""
    ends = _ends(output)
    named = _LAST_ERROR_LINE.findall(ends)
    if named:
        return one_line(named[-1], ERROR_CHARS)
    found = _ERROR_LINE.search(ends)
    if found:
        return one_line(found[0], ERROR_CHARS)
    lines = (line for line in reversed(ends.splitlines()) if line.strip() and not _HEADER.match(line))
    return one_line(next(lines, "no output"), ERROR_CHARS)


def one_line(text: str, most_chars: int) -> str:
    """A text on one line, its end cut off where it is longer; secrets are replaced before the cut hides what they are."""
    line = " ".join(redact(text[: 4 * most_chars]).split())
    return line if len(line) <= most_chars else line[: most_chars - 1].rstrip() + "…"


class Fix(NamedTuple):
    """A failing call, the files edited after it, and whether the same call passed later."""

    call: Call
    edited: tuple[str, ...]
    passed: bool


def fixes_of(calls: Sequence[Call]) -> list[Fix]:
    """Each failing call with what came after it; of tries in a row of the same call the last."""
    fixes: list[Fix] = []
    keys = [call.key for call in calls] if any(call.failed for call in calls) else []
    nexts: dict[str, int] = {}
    for i in range(len(keys) - 1, -1, -1):
        call, after = calls[i], nexts.get(keys[i])
        nexts[keys[i]] = i
        if not call.failed:
            continue
        if after is None:
            fixes.append(Fix(call, (), False))
            continue
        later = calls[after]
        if not later.failed or later.failed != call.failed:
            between = (one for one in calls[i + 1 : after] if one.act in ("edit", "create") and not one.failed)
            fixes.append(Fix(call, tuple(dict.fromkeys(file for one in between for file in one.files)), not later.failed))
    fixes.reverse()
    return fixes


class Work(NamedTuple):
    """What was done to one file: how often, and the last call that changed it."""

    file: str
    read: int
    edited: int
    created: bool
    last_round: int
    last_change: Call | None


def work_on_files(calls: Sequence[Call]) -> list[Work]:
    """The files of the calls, those touched last first; failing calls count for nothing."""
    found: dict[str, Work] = {}
    for call in calls:
        if call.failed:
            continue
        for file in call.files:
            old = found.pop(file, None) or Work(file, 0, 0, False, 0, None)
            changes = call.act != "read"
            found[file] = Work(
                file,
                old.read + (call.act == "read"),
                old.edited + (call.act in ("edit", "shell") or (call.act == "create" and old.last_change is not None)),
                old.created or (call.act == "create" and not old.read),
                call.round,
                call if changes else old.last_change,
            )
    return list(reversed(found.values()))
