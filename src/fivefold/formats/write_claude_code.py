"""A conversation's view as a Claude Code session file, so that it can be resumed there (Z4).

A session that was read from such a file keeps all of its lines as they were. Where fivefold has folded anything, a boundary
is written behind them, and behind it everything that the view shows, each entry as a line of its own with a new uuid,
linked in a row: the summary first, where there is one, then the kept entries. They are listed again rather than pointed at
because a session file has no record for a cleared or shortened result or for hidden thinking, and because readers that
follow parents alone then find the same conversation. Where nothing was folded, only what was said since is appended.

Listed again, a response has a new message id, or readers that gather the lines of a response would fetch its old ones; and
where it came before the last fold no tokens, for its count is of what is no longer shown (T3). Times go on from the last
entry's, a millisecond a line: the newest leaf has to be the last.

From any other source a new session is written: the messages of the view, legal for the provider, a line for each block of
the agent's and each result. System prompt and tools are not in it; Claude Code has its own. The file is found there under
the name of its session id. Uuids are made from the ids in the log, so the same input gives the same bytes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from ..core.entries import Boundary, Entry, Fold, Head, Kind, Usage
from ..core.log import Log, stand_ins
from ..core.messages import JSON, Block, Message, Object, Text, ToolResult, ToolUse, decode_content, encode_message
from ..core.pairing import Reading
from ..core.repair import outgoing
from ..core.view import Shown, View
from .claude_attachments import attachment_blocks
from .claude_lines import BOUNDARY, CHAIN_TYPES
from .fields import object_at, raw_of, text_at, without
from .source import loads
from .write_common import ANTHROPIC_WIRES, to_json

OURS = uuid.UUID("6e9e4ef5-4e13-5d6b-93a4-0f3a5c1b7d20")
"""The namespace of the uuids made here; any constant would do."""
ENVELOPE = ("isSidechain", "agentId", "userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug")
"""Keys that say where and in which session a line was written."""
OF_ITS_REQUEST = ("logicalParentUuid", "requestId", "requestRef", "isCompactSummary", "isVisibleInTranscriptOnly")
"""Keys that do not hold for a line listed again."""
LAST_TIME = 253_402_214_400.0
"""The last day of year 9999: later times cannot be written."""


def render(head: Head, log: Log, view: View, *, source_lines: Iterable[bytes] | None, now: float | None) -> bytes:
    """The file. ``source_lines`` of another format are not looked at; without any, the records that the log keeps are taken.
    ``now``: the time of the first line written here. Raises InputError where a value is nested too deep to write."""
    recorded = _session_lines(source_lines) or _kept_lines(log)
    last = next((record for entry in reversed(list(log.entries())) if (record := record_of(entry))), {})
    if not recorded or not last:
        return b"".join(_fresh(head, log, view, now).lines)
    envelope = {key: last[key] for key in ENVELOPE if key in last}
    writer = _Writer(envelope, _seed(log), _start(log, now))
    if _is_folded_anew(log):
        writer.boundary(text_at(last, "uuid"), _metadata(log))
        for shown in view.shown():
            writer.list_again(shown, fresh=shown.side == 0 and shown.position >= log.changed_at)
    else:
        writer.parent = text_at(last, "uuid")
        for entry in view.sent():
            if not record_of(entry):
                writer.say(entry)
    return b"".join([*recorded, *writer.lines])


# --- what is there already


def record_of(entry: Entry) -> Object:
    """The line of a Claude Code file that an entry was read from; empty where it was not."""
    try:
        record = loads(bytes(entry.raw) or b"null")
    except ValueError:
        return {}
    return record if isinstance(record, dict) and _is_line(record) else {}


def _is_line(record: Object) -> bool:
    return text_at(record, "type") in CHAIN_TYPES and bool(text_at(record, "uuid")) and "parentUuid" in record


def _session_lines(lines: Iterable[bytes] | None) -> list[bytes]:
    """The lines of a Claude Code file, each with its end; of another file, none."""
    whole = [line if line.endswith(b"\n") else line + b"\n" for line in lines or ()]
    return whole if any(map(_reads_as_line, whole)) else []


def _reads_as_line(line: bytes) -> bool:
    if b'"parentUuid"' not in line:
        return False
    try:
        record = loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and _is_line(record)


def _kept_lines(log: Log) -> list[bytes]:
    """The lines that a log of a Claude Code session keeps, in the order of the file: its own, without those that are no part
    of the conversation."""
    found: dict[tuple[int, int], bytes] = {}
    for n, record in enumerate(log.records()):
        entries = [record] if isinstance(record, Entry) else list(stand_ins(record)) if isinstance(record, Fold) else []
        for entry in entries:
            if record_of(entry):
                found.setdefault((entry.line or 0, 0 if entry.line else n), bytes(entry.raw).rstrip(b"\r\n") + b"\n")
    return [found[place] for place in sorted(found)]


def _is_folded_anew(log: Log) -> bool:
    """Whether folds are in force that the file does not record, or one that it records was taken back."""
    recorded = sum(isinstance(record, Fold) and bool(bytes(record.raw)) for record in log.records())
    return len(log.folds) != recorded or any(not bytes(placed.fold.raw) for placed in log.folds)


def _seed(log: Log) -> str:
    """What the uuids are made from: the conversation, how far it has come, and what is folded in it."""
    last = log.entry_at(len(log) - 1).id if len(log) > log.base else ""
    return "\n".join([log.head.id, str(len(log)), last, *(placed.fold.id for placed in log.folds)])


def _start(log: Log, now: float | None) -> int:
    """The time to go on from, in milliseconds: that of the compaction, but not before what was said last."""
    last = max((entry.time for entry in log.entries() if entry.time is not None), default=0.0)
    return int(min(max(last, now or 0.0), LAST_TIME) * 1000)


def _metadata(log: Log) -> Object:
    """What the boundary says of the last fold: tokens only where they are known."""
    fold = log.folds[-1].fold if log.folds else None
    if fold is None:
        return {"trigger": "manual"}
    told = next((entry.boundary for entry in stand_ins(fold) if entry.boundary is not None), None) or Boundary()
    trigger = told.trigger if told.trigger in ("manual", "auto") else "manual" if fold.level in ("manual", "partial") else "auto"
    before = fold.tokens_before if told.tokens_before is None else told.tokens_before
    after = fold.tokens_after if told.tokens_after is None else told.tokens_after
    tokens: Object = {"preTokens": before, "postTokens": after}
    return {"trigger": trigger, **{key: value for key, value in tokens.items() if value is not None}}


# --- what is written


class _Writer:
    """Lines in a row, each the parent of the next."""

    def __init__(self, envelope: Object, seed: str, start: int) -> None:
        self.lines: list[bytes] = []
        self.parent: str | None = None
        self._envelope = envelope
        self._ids = uuid.uuid5(OURS, seed)
        self._start = start
        self._at_boundary = False
        """A boundary is the last line: a summary that comes now is its own."""
        self._reading = Reading()
        self._uuids: dict[str, str] = {}

    def boundary(self, follows: str | None, metadata: Object) -> None:
        """The line of a compaction; ``follows``: the uuid of what was last said before it."""
        self._write(
            "boundary",
            {"logicalParentUuid": follows, **self._envelope},
            {"type": "system", "subtype": BOUNDARY, "content": "Conversation compacted", "isMeta": False, "level": "info"},
            {"compactMetadata": metadata},
        )
        self._at_boundary = True

    def list_again(self, shown: Shown, *, fresh: bool) -> None:
        """An entry as it is shown. ``fresh``: it came after the last fold, so its tokens are those of what is shown."""
        self._entry(shown.entry, record_of(shown.entry), None, counted=fresh)

    def say(self, entry: Entry) -> None:
        """An entry that is in no file yet."""
        self._entry(entry, {}, entry.api_id, counted=True)

    def _entry(self, entry: Entry, record: Object, api_id: str | None, *, counted: bool) -> None:
        if entry.kind in ("note", "boundary") or not entry.blocks:
            return
        self._reading = self._reading.read(entry)
        own = without(record, *OF_ITS_REQUEST, "sessionId", "sourceToolAssistantUUID")
        if entry.kind == "assistant":
            id = api_id or f"msg_{uuid.uuid5(self._ids, f'response {self._reading.number}').hex}"
            self._write(entry.id, self._envelope, own, {"type": "assistant", "message": _response(entry, record, id, counted)})
        elif entry.kind == "attachment" and _is_as_attached(entry, record):
            self._write(entry.id, self._envelope, own)
        else:
            self._user(entry, record, own)
        self._at_boundary = False
        if record:
            self._uuids[text_at(record, "uuid")] = self.parent or ""

    def _user(self, entry: Entry, record: Object, own: Object) -> None:
        of_user = text_at(record, "type") == "user"
        message = object_at(record, "message") if of_user else {}
        more: Object = {"type": "user", "message": {**message, **_message(entry, "user")}}
        if not of_user:
            own = {}
            more |= {"isMeta": True} if entry.meta or entry.kind != "user" else {}
        elif decode_content(message.get("content"))[0] != entry.blocks:
            own = without(own, "toolUseResult")  # the whole of what is not shown any more
        if entry.summary and self._at_boundary:
            more |= {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        caller = self._uuids.get(text_at(record, "sourceToolAssistantUUID"))
        more |= {"sourceToolAssistantUUID": caller} if caller else {}
        self._write(entry.id, self._envelope, own, more)

    def _write(self, id: str, *parts: Object) -> None:
        line: Object = {"parentUuid": self.parent}
        for part in parts:
            line |= part
        line["parentUuid"] = self.parent
        self.parent = str(uuid.uuid5(self._ids, f"{len(self.lines)} {id}"))
        line |= {"uuid": self.parent, "timestamp": _iso(self._start + len(self.lines) + 1)}
        self.lines.append(to_json(line) + b"\n")


def _message(entry: Entry, role: str) -> Object:
    message = encode_message(Message("user", entry.blocks, entry.bare, entry.extra))
    return {**message, "role": role}


def _response(entry: Entry, record: Object, id: str, counted: bool) -> Object:
    """The API message of one line of a response."""
    told = object_at(record, "message")
    usage: JSON = _usage(entry.usage if counted else None)
    if counted and isinstance(told.get("usage"), dict):
        usage = told["usage"]
    made: Object = {"id": id, "type": "message", "role": "assistant", "model": entry.model or "unknown"}
    ended: Object = {"stop_reason": None, "stop_sequence": None}
    return {**made, **ended, **told, "id": id, **_message(entry, "assistant"), "usage": usage}


def _usage(usage: Usage | None) -> Object:
    found = usage or Usage()
    return {
        "input_tokens": found.input,
        "cache_creation_input_tokens": found.cache_write,
        "cache_read_input_tokens": found.cache_read,
        "output_tokens": found.output,
    }


def _is_as_attached(entry: Entry, record: Object) -> bool:
    """Whether the line of an attachment shows what the entry shows."""
    return text_at(record, "type") == "attachment" and attachment_blocks(raw_of(record.get("attachment"))) == entry.blocks


def _iso(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC).replace(microsecond=milliseconds % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- a new session


def _fresh(head: Head, log: Log, view: View, now: float | None) -> _Writer:
    seed = _seed(log)
    envelope: Object = {
        "isSidechain": False,
        "userType": "external",
        "cwd": head.cwd or "",
        "sessionId": _session_id(head.id, seed),
        "version": "",
        "gitBranch": "",
    }
    writer = _Writer(envelope, seed, _start(log, now))
    said = list(_said(head, view))
    if said and said[0].summary:
        writer.boundary(None, _metadata(log))
    for entry in said:
        writer.say(entry)
    return writer


def _session_id(id: str, seed: str) -> str:
    """A session is named by a uuid: the conversation's own where it is one."""
    try:
        return str(uuid.UUID(id))
    except ValueError:
        return str(uuid.uuid5(OURS, seed))


def _said(head: Head, view: View) -> Iterator[Entry]:
    """The messages of a view as entries, a summary in front apart from what follows it."""
    foreign = head.wire not in ANTHROPIC_WIRES
    sent = [entry for entry in view.sent() if entry.kind != "system"]
    leads = 0
    if sent and sent[0].summary:
        alone = outgoing(sent[:1], foreign=foreign).messages
        leads = len(alone[0].blocks) if alone else 0
    model = head.model or next((entry.model for entry in reversed(sent) if entry.model), None)
    for n, message in enumerate(_renumbered(outgoing(list(view.sent()), foreign=foreign).messages)):
        kind: Kind = "assistant" if message.role == "assistant" else "user"
        for k, blocks in enumerate(_parts(message, leads if n == 0 else 0)):
            bare = kind == "user" and len(blocks) == 1 and isinstance(blocks[0], Text) and not blocks[0].extra
            extra = message.extra if k == 0 else {}
            summary = n == 0 and k == 0 and leads > 0
            yield Entry(id=f"{n} {k}", kind=kind, blocks=blocks, model=model, bare=bare, extra=extra, summary=summary)


def _renumbered(messages: Sequence[Message]) -> list[Message]:
    """Messages whose repeated tool ids have another mark than ``_2``: Claude Code gives repeats that one itself while it reads,
    and takes the answer of an ``x_2`` behind an ``x`` for lost."""
    ids = {block.id for message in messages for block in message.blocks if isinstance(block, ToolUse)}
    new: dict[str, str] = {}
    for id in sorted(ids):
        base, _, number = id.rpartition("_")
        if base in ids and number.isdecimal():
            wanted = f"{base}-{number}"
            while wanted in ids or wanted in new.values():
                wanted += "-"
            new[id] = wanted
    return [msgspec.structs.replace(message, blocks=tuple([_with_id(block, new) for block in message.blocks])) for message in messages]


def _with_id(block: Block, new: Mapping[str, str]) -> Block:
    if isinstance(block, ToolUse) and block.id in new:
        return msgspec.structs.replace(block, id=new[block.id])
    if isinstance(block, ToolResult) and block.tool_use_id in new:
        return msgspec.structs.replace(block, tool_use_id=new[block.tool_use_id])
    return block


def _parts(message: Message, leads: int) -> Iterator[tuple[Block, ...]]:
    """What makes a line each: every block of the agent's; the first ``leads`` blocks of the user's, each result, and the rest."""
    if leads:
        yield message.blocks[:leads]
    rest = message.blocks[leads:]
    if message.role == "assistant":
        yield from ((block,) for block in rest)
        return
    yield from ((block,) for block in rest if isinstance(block, ToolResult))
    if others := tuple([block for block in rest if not isinstance(block, ToolResult)]):
        yield others
