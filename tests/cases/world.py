"""The scripted world of a case: who writes summaries, who answers requests, what hooks say, what time it is.

A script is a list of answers in order; the last one is given again when it is through. A guard in it (``refuse_over``,
``refuse_if_input_plus_max_tokens_over``) holds for every request: it is how large a request its owner takes at all.
Sizes are the plain estimate that the cases are written in: four characters a token, CJK 0.9 a character.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import anyio
import msgspec

from fivefold.core.entries import Entry, Usage
from fivefold.core.events import MemoryRead
from fivefold.core.media import image_size
from fivefold.core.messages import Message, encode_block, encode_message
from fivefold.core.rejection import Rejection
from fivefold.core.repair import outgoing
from fivefold.errors import FivefoldError
from fivefold.hooks import Hooks
from fivefold.providers.overflow import classify
from fivefold.summarize.flow import Answer, Ask

Item = Mapping[str, Any]
Json = Any

_CJK = re.compile(r"[⺀-鿿가-힯豈-﫿＀-￯]")
_WORDS = ("bucket", "cursor", "ledger", "parser", "queue", "render", "schema", "shard", "socket", "stream", "window", "worker")
DOCUMENT_TOKENS = 1_500
MESSAGE_TOKENS, TOOL_BLOCK_TOKENS = 4, 8
"""What a message, and a call or a result, takes beside its text."""
GUARDS = ("refuse_over", "refuse_if_input_plus_max_tokens_over")
LONGEST_SLEEP = 0.05
"""No answer is waited for longer where nobody looks at the clock."""


# --- sizes


def plain(text: str) -> float:
    """Tokens of a text by the cases' own estimate."""
    wide = len(_CJK.findall(text))
    return wide * 0.9 + (len(text) - wide) / 4


def _compact_json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def plain_block(block: Json) -> float:
    """Tokens of one block."""
    match block.get("type"):
        case "text":
            return plain(block["text"])
        case "thinking":
            return plain(block["thinking"])
        case "redacted_thinking":
            return plain(block["data"])
        case "tool_use" | "server_tool_use":
            return plain(block["name"] + _compact_json(block["input"])) + TOOL_BLOCK_TOKENS
        case "tool_result":
            content = block.get("content") or ""
            return (plain(content) if isinstance(content, str) else sum(map(plain_block, content))) + TOOL_BLOCK_TOKENS
        case "image":
            size = image_size(block["source"].get("data", ""))
            return 1_500 if size is None else size.width * size.height / 750
        case "document":
            return DOCUMENT_TOKENS
        case _:
            return plain(_compact_json(block))


def blocks_of(message: Json) -> list[Json]:
    """The blocks of a message, its bare text as one."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def plain_tokens(messages: Sequence[Json], system: str = "", tools: Sequence[Json] = ()) -> float:
    """Tokens of a whole request."""
    said = sum(MESSAGE_TOKENS + sum(map(plain_block, blocks_of(message))) for message in messages)
    return said + plain(system) + sum(plain(_compact_json(tool)) for tool in tools)


def body_bytes(messages: Sequence[Json], system: str = "", tools: Sequence[Json] = ()) -> int:
    """Bytes of a request's body."""
    body = {"messages": list(messages), "system": system, "tools": list(tools)}
    return len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


def filler(tokens: float, *, topic: str = "point") -> str:
    """A text of about so many plain tokens. A longer one begins with a shorter one."""
    lines, size, number = [], 0.0, 0
    while size < tokens:
        words = " ".join(_WORDS[(number * 7 + k * (number % 5 + 1)) % len(_WORDS)] for k in range(9))
        line = f"- {topic} {number}: {words}."
        lines.append(line)
        size += plain(line + "\n")
        number += 1
    return "\n".join(lines)[: int(tokens * 4)] if tokens > 0 else ""


def text_of(message: Json) -> str:
    """All texts of a message, results included, one under the other."""
    found = []
    for block in blocks_of(message):
        if block.get("type") == "text":
            found.append(block["text"])
        elif block.get("type") == "tool_result":
            content = block.get("content") or ""
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            found += [part["text"] for part in parts if part.get("type") == "text"]
    return "\n".join(found)


def texts(messages: Sequence[Json]) -> str:
    """All texts of a list."""
    return "\n".join(map(text_of, messages))


def encoded(messages: Sequence[Message]) -> list[Json]:
    """Messages as they go over the wire, and come back from it: no part of them is shared with the log."""
    return [json.loads(json.dumps(encode_message(message))) for message in messages]


# --- scripts


class Script:
    """Answers in order."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = [item for item in items if not any(key in item for key in GUARDS)]
        self.guards = [item for item in items if any(key in item for key in GUARDS)]
        self.given = 0

    def refuses(self, tokens: float, max_tokens: int) -> Item | None:
        """The guard that a request is over."""
        for item in self.guards:
            if tokens > item.get("refuse_over", tokens):
                return item
            if tokens + max_tokens > item.get("refuse_if_input_plus_max_tokens_over", tokens + max_tokens):
                return item
        return None

    def next(self) -> Item:
        """The next answer; the last one once they are through."""
        if not self.items:
            return {}
        item = self.items[min(self.given, len(self.items) - 1)]
        self.given += 1
        return item


def rejection_of(item: Item) -> Rejection:
    """A scripted error, as the providers' side of the house takes it."""
    error = item["error"]
    return classify(error.get("status"), error.get("message", ""), type=error.get("type", ""))


class Asked(NamedTuple):
    """One summary request: as it went out, and what came back."""

    ask: Ask
    model: str
    system: str
    messages: list[Json]
    tokens: float
    reply: Answer | Rejection
    attempt: int
    """Number of the compaction that it belongs to."""

    @property
    def text(self) -> str:
        """Everything in it."""
        return self.system + "\n" + texts(self.messages)

    @property
    def bytes(self) -> int:
        """Of its body."""
        return body_bytes(self.messages, self.system)

    @property
    def key(self) -> str:
        """What two identical requests share."""
        return _compact_json([self.model, self.system, self.messages, self.ask.max_tokens])


class HookCall(NamedTuple):
    """One call of a hook: what it was told, and how much the conversation and the summariser had done by then."""

    name: str
    payload: dict[str, Any]
    records: int
    asks: int
    attempt: int


@dataclass
class World:
    """Everything outside of the engine. ``now`` is the time; only a turn, a pause and a step move it."""

    event: Mapping[str, Any]
    system: str = ""
    tools: Sequence[Json] = ()
    own_model: str = ""
    now: float = 1_700_000_000.0
    asks: list[Asked] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    extractions: list[tuple[list[str], str | None, str]] = field(default_factory=list)
    """Entries given, what was covered before, what became of it."""
    hook_calls: list[HookCall] = field(default_factory=list)
    attempt: int = 0
    records: Callable[[], int] = lambda: 0
    facts: list[str] = field(default_factory=list)
    patient: bool = False
    """Delays are waited for as they are scripted."""
    executed_tools: int = 0

    def __post_init__(self) -> None:
        self.summaries = Script(self.event.get("summarizer", ()))
        self.provider = Script(self.event.get("provider", ()))
        self.extractor = Script(self.event.get("extractor", ()))

    def clock(self) -> float:
        """Seconds since the epoch."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """A pause that takes no time."""
        self.slept.append(seconds)
        self.now += seconds

    # --- summaries

    def ask(self, ask: Ask) -> Answer | Rejection:
        """Perform a summary request."""
        item, asked = self._answered(ask)
        time.sleep(min(item.get("delay_s", 0), LONGEST_SLEEP))
        self.asks.append(asked)
        return asked.reply

    async def ask_async(self, ask: Ask) -> Answer | Rejection:
        """The same, where a cancel can come in between: then nothing was answered."""
        item, asked = self._answered(ask)
        delay = item.get("delay_s", 0)
        await anyio.sleep(delay if self.patient else min(delay, LONGEST_SLEEP))
        self.asks.append(asked)
        return asked.reply

    def _answered(self, ask: Ask) -> tuple[Item, Asked]:
        request = outgoing(list(ask.entries))
        messages = encoded(request.messages)
        system = self.system if ask.kind == "fork" else ask.system
        tools = self.tools if ask.kind == "fork" else ()
        tokens = plain_tokens(messages, system, tools)
        item = self.summaries.refuses(tokens, ask.max_tokens)
        too_large = self.event.get("body_limit_bytes")
        if item is None and too_large is not None and body_bytes(messages, system, tools) > too_large:
            item = {"error": {"status": 413, "type": "request_too_large", "message": "Request exceeds the maximum size"}}
        if item is None:
            item = self.summaries.next()
        reply = self._reply(item, texts(messages), tokens)
        model = ask.model or self.own_model
        return item, Asked(ask, model, system, messages, tokens, reply, self.attempt)

    def _reply(self, item: Item, given: str, tokens: float) -> Answer | Rejection:
        if "error" in item:
            return rejection_of(item)
        if "echo_facts" in item:
            text = "\n".join(fact for fact in item["echo_facts"] if fact in given) or "Nothing new was found out."
        elif "text_tokens" in item:
            text = filler(item["text_tokens"])
        else:
            text = item.get("text", "")
        called = "tool_use" in item
        usage = Usage(input=round(tokens), output=round(plain(text)))
        stop = item.get("stop_reason", "tool_use" if called else "end_turn")
        return Answer(text=text, called_tool=called, stop_reason=stop, usage=usage, model=item.get("model"))

    # --- the memory

    def extract(self, entries: Sequence[Entry], covered: str | None) -> str | None:
        """One run of the extractor: what it found is kept, and it covers all that it was given, be it nothing."""
        item = self.extractor.next()
        time.sleep(min(item.get("delay_s", 0), LONGEST_SLEEP))
        given = [entry.id for entry in entries]
        if "error" in item:
            self.extractions.append((given, covered, "failed"))
            raise FivefoldError(str(item["error"]))
        self.facts += item.get("facts", ())
        self.extractions.append((given, covered, "done"))
        return given[-1]

    def read(self, wait_seconds: float, stale_seconds: float) -> MemoryRead:
        """The memory, empty where no facts were found."""
        return MemoryRead(text="\n".join(f"- {fact}" for fact in self.facts) or None)

    # --- hooks

    def hooks(self) -> Hooks | None:
        """The hooks of the case, each call noted."""
        found = self.event.get("hooks", ())
        if not found:
            return None
        hooks = Hooks()
        for hook in found:
            named = {hook: {}} if isinstance(hook, str) else hook
            for name, says in named.items():
                hooks.add(name, self._hook(name, says))
        return hooks

    def _hook(self, name: str, says: Item) -> Callable[[dict[str, Any]], dict[str, Any] | None]:
        unknown = set(says) - {"additional_context", "additional_context_tokens", "raise", "delay_s", "veto", "block", "instructions"}
        assert not unknown, f"a hook of the case says {sorted(unknown)}, which this runner does not know"

        def hook(payload: dict[str, Any]) -> dict[str, Any] | None:
            self.hook_calls.append(HookCall(name, payload, self.records(), len(self.asks), self.attempt))
            time.sleep(min(says.get("delay_s", 0), LONGEST_SLEEP))
            if says.get("raise"):
                raise RuntimeError("a hook that fails")
            answer = {key: says[key] for key in ("additional_context", "veto", "block", "instructions") if key in says}
            if "additional_context_tokens" in says:
                answer["additional_context"] = filler(says["additional_context_tokens"], topic="rule")
            return answer or None

        return hook


def block_json(block: Any) -> Json:
    """A block as it goes over the wire."""
    return json.loads(json.dumps(encode_block(block)))


def builtins(value: Any) -> Json:
    """A value of the engine as plain data."""
    return msgspec.to_builtins(value)
