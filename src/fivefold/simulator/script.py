"""The model behind the simulator (U4): a script, a recorded conversation, a function, or a structural model that needs neither.

Each is asked with a ``Request`` and answers with a ``Reply``. Summaries asked for by the server's own compaction are requests of the
purpose ``compaction``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from ..core.entries import Entry
from ..core.messages import Text, Thinking, ToolUse
from ..errors import LeftoverStepsError, SimulatorError, UnexpectedRequestError
from .refusal import Object

StopReason: TypeAlias = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"]
_SUMMARY_CHARS = 200
_SUMMARY_TEXTS = 12


class Call(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool call. ``id``: None gets a new one."""

    name: str
    input: dict[str, Any] = {}
    id: str | None = None


class Reply(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the model says: thinking, then text, then calls; or ``blocks``, as Anthropic's API writes them, in their own order.

    ``stop_reason``: None is what follows from the reply. ``output_tokens``: None is what the tokenizer counts.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    blocks: tuple[dict[str, Any], ...] = ()
    stop_reason: StopReason | None = None
    output_tokens: int | None = None

    def parts(self) -> list[Object]:
        """The blocks of the reply, without signatures; calls without an id have none."""
        found: list[Object] = [dict(block) for block in self.blocks]
        if self.thinking:
            found.append({"type": "thinking", "thinking": self.thinking})
        if self.text:
            found.append({"type": "text", "text": self.text})
        return found + [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input} for call in self.calls]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the model is asked. ``messages`` are as the client sent them (Responses: its input items) and shared with the journal:
    they are to be read only. ``number`` counts the requests that reached the model, from 0."""

    api: str
    purpose: Literal["turn", "compaction"]
    model: str
    system: str
    messages: Sequence[Object]
    tools: Sequence[Object]
    max_tokens: int
    input_tokens: int
    number: int
    instructions: str = ""
    """What the client wants of a summary (purpose ``compaction``)."""


Said: TypeAlias = Reply | str
"""A reply; a text alone is a reply of that text."""


@runtime_checkable
class Speaker(Protocol):
    """A model. ``finish`` raises a SimulatorError where something was planned that did not happen."""

    def answer(self, request: Request) -> Said | Awaitable[Said]:
        """The reply to a request; raises UnexpectedRequestError where there is none."""

    def finish(self) -> None:
        """Raises LeftoverStepsError where steps are left."""


Step: TypeAlias = Said | Callable[[Request], Said]
"""One answer; a function is asked when it is its turn."""


def _said(step: Step, request: Request) -> Reply:
    made = step if isinstance(step, Reply | str) else step(request)
    return Reply(made) if isinstance(made, str) else made


class Script:
    """Answers in a fixed order. ``summaries`` answer the server's own compactions, also in order; None: they are extracted from the
    conversation and cost no step."""

    def __init__(self, steps: Iterable[Step], *, summaries: Iterable[Step] | None = None) -> None:
        self._steps = list(steps)
        self._summaries = None if summaries is None else list(summaries)
        self._taken = {"turn": 0, "compaction": 0}

    def answer(self, request: Request) -> Reply:
        """The next step."""
        if request.purpose == "compaction" and self._summaries is None:
            return Reply(extract(request))
        steps = self._steps if request.purpose == "turn" else self._summaries or []
        at = self._taken[request.purpose]
        if at >= len(steps):
            raise UnexpectedRequestError(f"{request.purpose} number {at + 1}, but the script has {len(steps)}: {last_text(request)!r:.200}")
        self._taken[request.purpose] = at + 1
        return _said(steps[at], request)

    def finish(self) -> None:
        """Raises where steps are left."""
        left = self._steps[self._taken["turn"] :] + (self._summaries or [])[self._taken["compaction"] :]
        if left:
            raise LeftoverStepsError(f"{len(left)} steps of the script were not used, the first: {left[0]!r:.200}")


def read_script(path: Path) -> Script:
    """A script from a JSON file: a list of replies, or an object with ``steps`` and ``summaries``. Raises SimulatorError."""
    try:
        data = path.read_bytes()
        if data.lstrip()[:1] == b"[":
            return Script(msgspec.json.decode(data, type=list[Reply | str]))
        given = msgspec.json.decode(data, type=dict[str, list[Reply | str]])
        if given.keys() - {"steps", "summaries"}:
            raise SimulatorError(f"{path}: a script has steps and summaries, not {', '.join(sorted(given))}")
        return Script(given.get("steps", []), summaries=given.get("summaries"))
    except OSError as error:
        raise SimulatorError(f"{path}: cannot be read: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise SimulatorError(f"{path}: no script of replies: {error}") from error


def recorded(entries: Iterable[Entry]) -> Script:
    """A recorded conversation, played back by position: the first request gets its first response, and so on. Entries of one
    response (the same ``api_id``) are one reply; what other sources than the main one said is left out."""
    groups: list[list[Entry]] = []
    for entry in entries:
        if entry.kind != "assistant" or entry.source != "main":
            continue
        if groups and entry.api_id is not None and groups[-1][-1].api_id == entry.api_id:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return Script([reply for group in groups if (reply := _reply_of(group)).blocks])


def _reply_of(group: Iterable[Entry]) -> Reply:
    blocks: list[Object] = []
    for entry in group:
        for block in entry.blocks:
            match block:
                case Thinking(text) if text:
                    blocks.append({"type": "thinking", "thinking": text})
                case Text(text) if text.strip():
                    blocks.append({"type": "text", "text": text})
                case ToolUse(id, name, given):
                    blocks.append({"type": "tool_use", "id": id, "name": name, "input": given if isinstance(given, dict) else {}})
    return Reply(blocks=tuple(blocks))


class Structural:
    """A model without a script: it calls the first tool it is given until ``rounds`` results have come since a person last spoke,
    then says what it was asked. A request whose last message names ``<summary>`` gets an extract of the conversation."""

    def __init__(self, rounds: int = 1, *, thinking: str = "") -> None:
        self._rounds = rounds
        self._thinking = thinking

    def answer(self, request: Request) -> Reply:
        """The same reply to the same request."""
        if request.purpose == "compaction":
            return Reply(extract(request))
        if "<summary>" in last_text(request):
            return Reply(f"<summary>\n{extract(request, leave_out=1)}\n</summary>")
        done = _results_since_a_person(request.messages)
        tools = [tool for tool in map(_tool, request.tools) if tool[0]]
        if tools and done < self._rounds:
            name, schema = tools[0]
            return Reply(thinking=self._thinking, calls=(Call(name, _example(schema, done)),))
        return Reply(f"Done after {done} tool results: {last_person(request)[:_SUMMARY_CHARS]}", thinking=self._thinking)

    def finish(self) -> None:
        """Nothing is planned, so nothing is left."""


class Function:
    """A function from request to reply, as a model; an async one is awaited."""

    def __init__(self, function: Callable[[Request], Said | Awaitable[Said]]) -> None:
        self._function = function

    def answer(self, request: Request) -> Said | Awaitable[Said]:
        """What the function answers."""
        return self._function(request)

    def finish(self) -> None:
        """Nothing is planned, so nothing is left."""


def speaker_of(given: Speaker | Callable[[Request], Said | Awaitable[Said]] | Iterable[Step] | None) -> Speaker:
    """What was given as a model, as one: steps are a script, a function is asked, None is the structural model."""
    if given is None:
        return Structural()
    if isinstance(given, Speaker):
        return given
    return Function(given) if callable(given) else Script(given)


# --- reading a request


def text_of(message: Object) -> str:
    """The text of a message or an item, in any of the three APIs' shapes; results of tools are not text."""
    content = message.get("content")
    if isinstance(content, str):
        return content if message.get("role") != "tool" else ""
    parts = content if isinstance(content, list) else []
    kinds = ("text", "input_text", "output_text")
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict) and part.get("type") in kinds)


def last_text(request: Request) -> str:
    """The text of the last message."""
    return text_of(request.messages[-1]) if request.messages else ""


def last_person(request: Request) -> str:
    """What a person said last."""
    return next((text for message in reversed(request.messages) if message.get("role") == "user" and (text := text_of(message))), "")


def extract(request: Request, *, leave_out: int = 0) -> str:
    """A short summary without a model: what people asked, shortened, and the last thing that was answered."""
    messages = request.messages[: len(request.messages) - leave_out]
    said: dict[str, list[str]] = {"user": [], "assistant": []}
    for message in messages:
        text = text_of(message).strip()
        if text:
            said.setdefault(str(message.get("role")), []).append(text[:_SUMMARY_CHARS])
    carried = [
        str(block.get("content"))
        for message in messages[:1]
        for block in (message["content"] if isinstance(message.get("content"), list) else ())
        if isinstance(block, dict) and block.get("type") == "compaction"
    ]
    asked = [*carried, *said["user"][-_SUMMARY_TEXTS:]]
    lines = [
        f"{len(messages)} messages.",
        *(f"- asked: {text}" for text in asked),
        *(f"- answered: {text}" for text in said["assistant"][-1:]),
    ]
    return "\n".join(lines)


def _results_since_a_person(messages: Sequence[Object]) -> int:
    count = 0
    for message in reversed(messages):
        content = message.get("content")
        kinds = [part.get("type") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        if message.get("role") == "tool" or message.get("type") == "function_call_output" or "tool_result" in kinds:
            count += 1
        elif message.get("role") == "user":
            break
    return count


def _tool(tool: Object) -> tuple[str, Object]:
    """Name and schema of a tool in any of the three shapes; no name where it is not one that the client runs."""
    inner = tool.get("function") if isinstance(tool.get("function"), dict) else tool
    schema = inner.get("input_schema") or inner.get("parameters") if isinstance(inner, dict) else None
    return (str(inner.get("name")), schema) if isinstance(schema, dict) and isinstance(inner, dict) else ("", {})


def _example(schema: Object, number: int) -> Object:
    properties = schema.get("properties") or {}
    return {key: _value(properties.get(key) or {}, number) for key in schema.get("required") or properties}


def _value(schema: Object, number: int) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    plain: dict[Any, Any] = {"integer": number + 1, "number": number + 1, "boolean": True, "array": [], "null": None}
    if kind == "object":
        return _example(schema, number)
    return plain.get(kind, f"example {number + 1}") if isinstance(kind, str) else f"example {number + 1}"
