"""What is known and not read, each by name with the way out, and the words for what is not known at all (Z3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..core.messages import JSON, Object
from .fields import is_list, is_single_document, list_at, object_at
from .foreign_messages import is_converse_message, is_sdk_message, is_thread_message
from .source import Source

_SQLITE = b"SQLite format 3\x00"
_HEAD_BYTES = 65_536
_KEYS_SHOWN = 8
_CHARS_SHOWN = 60
_CONSOLE = re.compile(r"^\s*[⏺⎿✻]", re.MULTILINE)
_SETTINGS = frozenset({"permissions", "hooks", "mcpServers", "enabledPlugins", "statusLine", "apiKeyHelper", "includeCoAuthoredBy"})
_SESSION_FILES = "use its session files (Claude Code: ~/.claude/projects, Codex: ~/.codex/sessions)"


class Refused(NamedTuple):
    """A known kind that is not read: its name, how it is recognised, and the sentence with the way out."""

    name: str
    recognises: Callable[[Source], bool]
    sentence: str


def is_database(source: Source) -> bool:
    """Whether the file is an SQLite database. To be asked before ``source.shape``, which refuses all binary files."""
    with source.open() as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _objects(source: Source) -> tuple[Object, ...]:
    return source.first_objects if source.shape in ("lines", "document") else ()


def _is_entire_compact(source: Source) -> bool:
    return source.shape == "lines" and any(
        item.get("v") == 1 and isinstance(item.get("agent"), str) and "cli_version" in item for item in source.first_objects
    )


def _is_prompt_history(source: Source) -> bool:
    keys = [set(item) for item in _objects(source)]
    return any({"display", "timestamp", "project"} <= key or key == {"session_id", "ts", "text"} for key in keys)


def _is_interface_log(source: Source) -> bool:
    return any(item.get("type") in ("say", "ask") and "ts" in item for item in _objects(source))


def _is_editor_chat(source: Source) -> bool:
    return any("requests" in item and ("responderUsername" in item or "requesterUsername" in item) for item in _objects(source))


def _is_settings(source: Source) -> bool:
    items = _objects(source)
    return len(items) == 1 and "messages" not in items[0] and bool(_SETTINGS & items[0].keys()) and is_single_document(source)


def _is_list_of_lines(source: Source) -> bool:
    """Whether the file is a list of what would be the lines of a session file."""
    return is_list(source) and any(
        {"uuid", "parentUuid"} <= item.keys()
        or {"parentId", "timestamp"} <= item.keys()
        or ({"type", "timestamp"} <= item.keys() and bool(object_at(item, "payload")))
        for item in _objects(source)
    )


def _messages(source: Source) -> Iterator[Object]:
    """The objects at the start, and those in a list that they hold."""
    for item in _objects(source):
        yield item
        for key in ("messages", "data"):
            yield from (message for message in list_at(item, key)[:20] if isinstance(message, dict))


def _is_converse(source: Source) -> bool:
    return any(map(is_converse_message, _messages(source)))


def _is_thread(source: Source) -> bool:
    return any(map(is_thread_message, _messages(source)))


def _is_sdk(source: Source) -> bool:
    return any(map(is_sdk_message, _messages(source)))


def _is_console(source: Source) -> bool:
    return source.shape == "text" and len(_CONSOLE.findall(_start(source))) >= 3


REFUSED: tuple[Refused, ...] = (
    Refused(
        "SQLite database",
        is_database,
        "an SQLite database, which is not read: export the session from the agent that keeps it "
        "(for OpenCode: `opencode export SESSION > FILE`)",
    ),
    Refused(
        "Entire compact transcript",
        _is_entire_compact,
        "Entire's compact transcript (v1), which leaves out part of what the model saw: use the full.jsonl beside it",
    ),
    Refused(
        "prompt history",
        _is_prompt_history,
        f"an agent's history of prompts, without answers: {_SESSION_FILES}",
    ),
    Refused(
        "Cline interface log", _is_interface_log, "what Cline or Roo Code showed on screen: use api_conversation_history.json beside it"
    ),
    Refused("editor chat", _is_editor_chat, "an editor's chat session with its own view of the messages: it is not read"),
    Refused("settings", _is_settings, f"settings of an agent, not a session: {_SESSION_FILES}"),
    Refused(
        "list of session lines",
        _is_list_of_lines,
        "a list of what are lines in a session file: write one a line with `jq -c '.[]' FILE > FILE.jsonl`",
    ),
    Refused(
        "Bedrock Converse",
        _is_converse,
        "messages of Amazon Bedrock's Converse API, which are not read: save them as Anthropic or OpenAI Chat messages, "
        "whose content parts name their type",
    ),
    Refused(
        "OpenAI Assistants",
        _is_thread,
        "messages of an OpenAI Assistants thread, which leave the tool calls out and are not read: record the same agent's "
        "Responses or Chat requests",
    ),
    Refused(
        "Vercel AI SDK",
        _is_sdk,
        "messages of Vercel's AI SDK, which are not read: record the request that the SDK sends to the provider (its request.body)",
    ),
    Refused(
        "terminal log",
        _is_console,
        "a log copied from a terminal, in which speakers, and what was cut off on screen, can't be told: use the agent's own session file",
    ),
)
"""In the order in which they are tried."""


def refusal(source: Source) -> Refused | None:
    """The known kind that the content is of; None where it is of none. Raises InputError for an empty, binary or damaged file."""
    return next((kind for kind in REFUSED if kind.recognises(source)), None)


def explain(source: Source, formats: Iterable[str]) -> str:
    """Why no reader takes this file, in words for a person: what it looks like, the way out, what is read.

    ``formats`` are the names of what is read. Raises InputError for an empty, binary or damaged file, naming the fault.
    """
    kind = refusal(source)
    what = kind.sentence if kind is not None else _looks_like(source)
    return f"this is {what}. Read are: {', '.join(formats)}"


def _looks_like(source: Source) -> str:
    match source.shape:
        case "zip":
            return "a zip archive with no log in it that is known"
        case "text":
            words = " ".join(_start(source).split())
            return f"text that begins {_short(words)}, and no known transcript"
        case "lines":
            return f"JSON lines that are no known transcript, {_keys_of(source.first_objects)}"
        case "document":
            return f"JSON that is no known transcript, {_document(source)}"


def _document(source: Source) -> str:
    document: JSON = source.document
    if isinstance(document, dict):
        return _keys_of((document,))
    items = document if isinstance(document, list) else []
    return f"a list of {len(items)}, {_keys_of(tuple(item for item in items[:1] if isinstance(item, dict)))}"


def _keys_of(items: tuple[Object, ...]) -> str:
    if not items or not items[0]:
        return "without objects that have keys"
    keys = list(items[0])
    shown = ", ".join(_short(key) for key in keys[:_KEYS_SHOWN])
    more = f" and {len(keys) - _KEYS_SHOWN} more" if len(keys) > _KEYS_SHOWN else ""
    return f"with the keys {shown}{more}"


def _short(text: str) -> str:
    """A text in quotes, short, with nothing in it that a terminal would obey."""
    shown = text[:_CHARS_SHOWN] + ("…" if len(text) > _CHARS_SHOWN else "")
    return "'" + "".join(ch if ch.isprintable() else "�" for ch in shown) + "'"


def _start(source: Source) -> str:
    with source.open() as file:
        return file.read(_HEAD_BYTES).decode("utf-8", "replace")
