"""A request of Anthropic's Messages API as data (V1, V5, I5, I6, I7, E1, E7).

What needs a beta header, what may stand in a request and what may not are the provider's documents' (facts: API 1.1 to 1.3, 2, 3). Of a
conversation that has not changed the same bytes go out from turn to turn, cache marks aside: content is a list of blocks always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from ..calling import Call
from ..core.fingerprint import MARK
from ..core.levels.server_edits import COMPACT, COMPACTION_BETA, EDITING_BETA, ServerEdits
from ..core.messages import JSON, Block, Compaction, Message, Object, Text, decode_block, encode_block
from ..core.turns import json_text
from ..formats.write_common import tools_of
from . import anthropic_marks as marks
from .anthropic_models import default_thinking, has_mid_system

DROP_BETA = "thinking-binding-controls-2026-08-01"
SIGNED_BETA = "compact-2026-09-04"
CLEAR_AT_BETA = "mid-conversation-system-clear-at-2026-08-21"
SYSTEM_CONFIG_BETA = "mid-conversation-output-config-2026-07-01"
MARK_VALUE: Object = {"type": "ephemeral"}
MAX_TOKENS = 8_192
"""Asked for where neither the loop nor the settings say; the API has no default."""
LEAST_BESIDE_THINKING = 1_024
"""Output that is left beside a fixed budget of thinking, which ``max_tokens`` has to be over."""


class Sent(NamedTuple):
    """Keyword arguments of ``create``, and the beta headers that they need: where there are none the plain endpoint will do."""

    body: Object
    betas: tuple[str, ...]


class Style(NamedTuple):
    """How a model object sends."""

    settings: Mapping[str, JSON] = {}
    """Further arguments of ``create``, as they are."""
    cached: bool = True
    """Put cache marks; else those of the conversation itself stay as they are."""
    ttl: str | None = None
    """Lifetime of the marks; None: the short one."""
    edits: marks.CacheEdits | None = None

    @property
    def marks(self) -> bool:
        """Whether marks are put: not where the settings ask for the provider's own."""
        return self.cached and "cache_control" not in self.settings

    @property
    def mark(self) -> Object:
        """A mark's value."""
        return {**MARK_VALUE, **({"ttl": self.ttl} if self.ttl else {})}


def request(call: Call, style: Style | None = None, memory: marks.Memory | None = None, *, fork: bool = False) -> Sent:
    """The request for a call. ``memory``: of the conversation's earlier requests; it is brought up to date, but for a ``fork``.

    Raises ValueError for edits of the cache that nobody has said how to write (M3).
    """
    style, memory = style or Style(), memory or marks.Memory()
    send, messages = call.send, sendable(call.request.messages, call.model)
    body: Object = {"model": call.model, "max_tokens": MAX_TOKENS, **style.settings}
    if send.max_tokens is not None:
        body["max_tokens"] = send.max_tokens
    _beside_budget(body)
    system: list[JSON] = [_prompt(block) for block in (*call.system, *call.request.system)]
    tools: list[JSON] = list(map(definition, call.tools))
    encoded = [_encoded(message) for message in messages]
    places = marks.places_for(memory, messages, fork=fork) if style.marks else []
    if style.marks:
        _mark_all(system, tools, encoded, places, style.mark)
    if send.cache_edits and style.edits is None:
        raise ValueError("the request has edits of the provider's cache, and `cache_edits` does not say how they are written")
    if not fork:
        marks.remember(memory, messages, places, send.cache_edits)
    if style.edits is not None:
        marks.put_edits(encoded, memory.edits, style.edits)
    body |= {**({"system": system} if system else {}), **({"tools": tools} if tools else {}), "messages": list[JSON](encoded)}
    betas = [*_edited(body, send.edits), *_dropping(body, call), *betas_of(messages)]
    return Sent(body, tuple(dict.fromkeys(betas)))


def _mark_all(system: list[JSON], tools: list[JSON], encoded: list[Object], places: Sequence[marks.Place], mark: Object) -> None:
    """Our marks in place of any others: at most four in all, and none is lost to one that a client has left somewhere."""
    for part in (system, tools):
        part[:] = [marks.without_mark(block) for block in part]
    for i, message in enumerate(encoded):
        content = message["content"]
        if isinstance(content, list) and any(isinstance(block, dict) and MARK in block for block in content):
            encoded[i] = {**message, "content": [marks.without_mark(block) for block in content]}
    head = system or tools
    if head:
        head[-1] = marks.with_mark(head[-1], mark)
    marks.put_marks(encoded, places, mark)


def _beside_budget(body: Object) -> None:
    """Room for an answer beside a fixed budget of thinking: less is refused."""
    match body.get("thinking"):
        case {"type": "enabled", "budget_tokens": int(budget)} if isinstance(most := body["max_tokens"], int):
            body["max_tokens"] = max(most, budget + min(most, LEAST_BESIDE_THINKING))


def _prompt(block: Block) -> JSON:
    """A block of the system prompt, which holds text only."""
    return encode_block(block if isinstance(block, Text) else Text(json_text(block)))


def _encoded(message: Message) -> Object:
    return {"role": message.role, "content": [encode_block(block) for block in message.blocks], **message.extra}


def definition(tool: Object) -> Object:
    """A tool in this API's shape; one of another provider's client-side tools is rewritten, all others stay."""
    if not isinstance(tool.get("function") or tool.get("custom") or tool.get("parameters"), dict):
        return tool
    found = next(tools_of([tool]), None)
    if found is None:
        return tool
    said: Object = {"description": found.description} if found.description else {}
    return {"name": found.name, **said, "input_schema": found.parameters}


def _edited(body: Object, edits: ServerEdits | None) -> tuple[str, ...]:
    """Put server-side edits into a body (E1); the betas they need."""
    if edits is None:
        return ()
    body["context_management"] = edits.context_management
    return edits.betas


def _dropping(body: Object, call: Call) -> tuple[str, ...]:
    """Ask that thinking be dropped that no longer fits its prefix (I7). A model that does not think in this request is asked nothing."""
    if not call.send.drop_thinking:
        return ()
    given = body.get("thinking")
    thinking = given if isinstance(given, dict) else default_thinking(call.model)
    if thinking.get("type") not in ("adaptive", "enabled"):
        return ()
    body["thinking"] = {**thinking, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    return (DROP_BETA,)


def betas_of(messages: Sequence[Message]) -> list[str]:
    """The headers that blocks and system messages need: a signed block its own, one of the threshold the other."""
    found: list[str] = []
    for message in messages:
        if message.role == "system":
            found += [beta for key, beta in (("clear_at", CLEAR_AT_BETA), ("output_config", SYSTEM_CONFIG_BETA)) if key in message.extra]
        found += [SIGNED_BETA if b.data.get("signature") else COMPACTION_BETA for b in message.blocks if isinstance(b, Compaction)]
    return found


def sendable(messages: Sequence[Message], model: str) -> tuple[Message, ...]:
    """Messages without their marks on how they were written, system messages inside them where the model takes such: behind a user's
    turn, or a server tool's result, and last or in front of the assistant's. Elsewhere they are said on the user's side (V5)."""
    if not any(message.role == "system" for message in messages):
        return tuple(messages)
    allowed = has_mid_system(model)
    found: list[Message] = []
    for i, message in enumerate(messages):
        behind = messages[i + 1].role if i + 1 < len(messages) else "assistant"
        if message.role == "system" and not (allowed and found and found[-1].role == "user" and behind == "assistant"):
            message = Message("user", message.blocks)
        if found and found[-1].role == message.role == "user":
            before = found.pop()
            message = msgspec.structs.replace(before, blocks=(*before.blocks, *message.blocks), bare=False)
        found.append(message)
    return tuple(found)


def without_compaction(edits: ServerEdits | None) -> ServerEdits | None:
    """The edits for a fork: what the provider clears it clears there too, or the prefix would be another; but it does not compact a
    request that asks for a summary."""
    if edits is None:
        return None
    kept = tuple(edit for edit in edits.edits if edit.get("type") != COMPACT)
    return ServerEdits(kept, (EDITING_BETA,)) if kept else None


def fork_settings(settings: Mapping[str, JSON]) -> Object:
    """A conversation's settings for a fork: all that its cached prefix depends on, but nothing that would cut or shape the answer."""
    found: Object = {key: value for key, value in settings.items() if key != "stop_sequences"}
    config = found.get("output_config")
    if isinstance(config, dict) and "format" in config:
        found["output_config"] = {key: value for key, value in config.items() if key != "format"}
    return found


def direct_settings(settings: Mapping[str, JSON], lowest: Object) -> Object:
    """Of a conversation's settings those that a plain request for a text can have, with the least thinking (L1)."""
    own = ("metadata", "service_tier", "inference_geo", "user_profile_id", "workspace_id", "timeout", "extra_headers", "extra_query")
    return {**{key: settings[key] for key in own if key in settings}, **lowest}


def countable(sent: Sent) -> Sent:
    """What of a request count_tokens takes (T5)."""
    keys = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "speed", "timeout", "extra_headers")
    return Sent({key: sent.body[key] for key in keys if key in sent.body}, tuple(b for b in sent.betas if b != EDITING_BETA))


def decoded(content: JSON) -> tuple[Block, ...]:
    """The blocks of a response. A compaction block keeps no key that is null: it may be sent back only without (facts: API 1.1.4)."""
    blocks = [decode_block(part) for part in content] if isinstance(content, list) else []
    return tuple([Compaction(_whole(block.data)) if isinstance(block, Compaction) else block for block in blocks])


def _whole(data: Object) -> Object:
    return {key: value for key, value in data.items() if value is not None or key == "content"}
