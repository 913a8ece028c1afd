"""A request to Anthropic's Messages API, read: headers, body, and the facts of its tools, system prompt and messages."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from .facts import HERE, BlockFacts, MessageFacts, block_fault, mark_of
from .fields import BETA_KEYS, BODY_KEYS, COUNT_KEYS, EDIT_KEYS, SAMPLING_KEYS, THINKING_KEYS, VERSION
from .refusal import Object, Refused, extra_inputs, invalid, too_large
from .shapes import MessagesBody, misfit
from .world import Limits, World

MAX_MESSAGES = 100_000
CONTEXT_BETA = "context-management-2025-06-27"
THRESHOLD_BETA = "compact-2026-01-12"
ON_DEMAND_BETA = "compact-2026-09-04"
BINDING_BETA = "thinking-binding-controls-2026-08-01"
_TOOL_KEYS = frozenset(
    [
        "type",
        "name",
        "description",
        "input_schema",
        "cache_control",
        "strict",
        "defer_loading",
        "allowed_callers",
        "eager_input_streaming",
        "input_examples",
    ]
)


class Asked(msgspec.Struct, kw_only=True):
    """A request whose fields have the right names and types. ``body`` holds all of it but messages."""

    body: Object
    betas: frozenset[str]
    version: str
    limits: Limits
    tools: tuple[BlockFacts, ...]
    system: tuple[BlockFacts, ...]
    messages: list[MessageFacts]
    counting: bool
    system_is_text: bool

    @property
    def sent(self) -> Object:
        """The body as it was sent, without messages."""
        sent = dict(self.body)
        if self.tools:
            sent["tools"] = [tool.value for tool in self.tools]
        if self.system:
            sent["system"] = self.system[0].value["text"] if self.system_is_text else [block.value for block in self.system]
        return sent

    @property
    def new_version(self) -> bool:
        """Whether the API version is the one that took sampling parameters away, or a later one."""
        return self.version >= VERSION

    @property
    def edits(self) -> list[Object]:
        """The server-side edits asked for, in their order."""
        managed = self.body.get("context_management") or {}
        return list(managed.get("edits") or ())

    @property
    def on_demand(self) -> Object | None:
        """What is asked of an on-demand compaction; None where the request is an ordinary one."""
        return None if self.counting else self.body.get("compaction")

    @property
    def max_tokens(self) -> int:
        """The most that may be answered."""
        return int(self.body.get("max_tokens") or 0)


def check_headers(world: World, headers: Mapping[str, str]) -> None:
    """Raises Refused where no key, or one that is not taken, or no version is named."""
    key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not key:
        raise Refused(401, "authentication_error", "x-api-key header is required")
    if world.keys and key not in world.keys:
        raise Refused(401, "authentication_error", "invalid x-api-key")
    if "anthropic-version" not in headers:
        raise invalid("anthropic-version: header is required")


def read_asked(world: World, headers: Mapping[str, str], data: bytes, *, counting: bool = False) -> Asked:
    """The request, its names and types checked. Raises Refused."""
    raw = _decode(data)
    model = _required(raw, "model", str)
    limits = world.limits(model)
    if len(data) > limits.body_limit:
        raise too_large()
    betas = frozenset(beta.strip() for beta in headers.get("anthropic-beta", "").split(",") if beta.strip())
    version = headers.get("anthropic-version", "")
    messages = _messages(raw, limits)
    body = {key: msgspec.json.decode(part) for key, part in raw.items() if key not in ("messages", "tools", "system")}
    asked = Asked(
        body=body,
        betas=betas,
        version=version,
        limits=limits,
        tools=_part(limits, raw.get("tools"), "tools"),
        system=_part(limits, raw.get("system"), "system"),
        messages=messages,
        counting=counting,
        system_is_text=bytes(memoryview(raw.get("system", b""))[:1]) == b'"',
    )
    _check_keys(asked)
    if wrong := misfit(body, MessagesBody):
        raise invalid(f"{wrong[0]}: {wrong[1]}")
    _check_sizes(asked)
    _check_thinking(asked)
    _check_choice(asked)
    _check_edits(asked)
    _check_on_demand(asked)
    return asked


def _decode(data: bytes) -> dict[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise invalid(f"The request body is not valid JSON: {error}") from error


def _required(raw: Mapping[str, msgspec.Raw], key: str, type: type[Any]) -> Any:
    if key not in raw:
        raise invalid(f"{key}: Field required")
    try:
        return msgspec.json.decode(raw[key], type=type)
    except msgspec.DecodeError as error:
        raise invalid(f"{key}: Input should be a valid {'string' if type is str else 'list'}") from error


def _messages(raw: Mapping[str, msgspec.Raw], limits: Limits) -> list[MessageFacts]:
    found: list[msgspec.Raw] = _required(raw, "messages", list[msgspec.Raw])
    if not found:
        raise invalid("messages: at least one message is required")
    if len(found) > MAX_MESSAGES:
        raise invalid(f"messages: List should have at most {MAX_MESSAGES} items after validation, not {len(found)}")
    messages = list(map(limits.reader.read, found))
    for i, message in enumerate(messages):
        if message.fault is not None:
            raise invalid(message.fault.replace(HERE, f"messages.{i}"))
    return messages


def _part(limits: Limits, raw: msgspec.Raw | None, name: str) -> tuple[BlockFacts, ...]:
    """Tools, or the blocks of the system prompt; known by their bytes."""
    if raw is None:
        return ()
    parts = limits.parts
    key = name.encode() + blake2b(memoryview(raw), digest_size=16).digest()
    if key not in parts:
        if len(parts) > 1_000:
            parts.clear()
        parts[key] = _read_part(limits, msgspec.json.decode(raw), name)
    return parts[key]


def _read_part(limits: Limits, value: Any, name: str) -> tuple[BlockFacts, ...]:
    if isinstance(value, str) and name == "system":
        value = [{"type": "text", "text": value}] if value else []
    if not isinstance(value, list):
        raise invalid(f"{name}: Input should be a valid list")
    blocks = []
    for i, part in enumerate(value):
        if not isinstance(part, dict):
            raise invalid(f"{name}.{i}: Input should be a valid dictionary or object to extract fields from")
        if name == "system":
            if part.get("type") != "text":
                raise invalid(f"system.{i}.type: Input should be 'text'")
            if fault := block_fault(part, "system", f"system.{i}"):
                raise invalid(fault.replace("messages: text", "system: text"))
            blocks.append(limits.reader.block(part, "system"))
        else:
            _check_tool(part, i)
            fact = limits.reader.block(part, "tool")
            bare = {key: item for key, item in part.items() if key != "cache_control"}
            blocks.append(fact._replace(kind="tool", tokens=limits.reader.counter.count_json(bare), mark=mark_of(part), use_id=""))
    return tuple(blocks)


def _check_tool(tool: Object, i: int) -> None:
    kind = tool.get("type", "custom")
    if not isinstance(tool.get("name"), str) and not str(kind).startswith("mcp"):
        raise invalid(f"tools.{i}.name: Field required")
    if kind == "custom":
        if not isinstance(tool.get("input_schema"), dict):
            raise invalid(f"tools.{i}.custom.input_schema: Field required")
        unknown = next((key for key in tool if key not in _TOOL_KEYS), None)
        if unknown:
            raise extra_inputs(f"tools.{i}.custom.{unknown}")


def _check_keys(asked: Asked) -> None:
    known = COUNT_KEYS if asked.counting else BODY_KEYS
    for key in asked.body:
        if key in known or (key in SAMPLING_KEYS and not asked.new_version and not asked.counting):
            continue
        if asked.counting and key == "compaction":
            continue  # "count_tokens ignores it"
        beta = BETA_KEYS.get(key)
        if key == "context_management" and (THRESHOLD_BETA in asked.betas or CONTEXT_BETA in asked.betas):
            continue
        if key == "compaction" and ON_DEMAND_BETA not in asked.betas:
            raise invalid(f"compaction: the `compaction` parameter requires anthropic-beta: {ON_DEMAND_BETA}")
        if key == "thread":
            raise invalid("thread: message threads are not part of this simulator")
        if beta is None or not any(found.startswith(beta) for found in asked.betas):
            raise extra_inputs(key)


def _check_sizes(asked: Asked) -> None:
    model = asked.limits.model
    if asked.counting:
        return
    given = asked.body.get("max_tokens")
    if given is None:
        raise invalid("max_tokens: Field required")
    if not isinstance(given, int) or isinstance(given, bool):
        raise invalid("max_tokens: Input should be a valid integer")
    if given < 0:
        raise invalid("max_tokens: Input should be greater than or equal to 0")
    if given > model.max_output:
        raise invalid(
            f"max_tokens: {given} > {model.max_output}, which is the maximum allowed number of output tokens for {asked.body['model']}"
        )
    thinks = (asked.body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    format = (asked.body.get("output_config") or {}).get("format")
    if given == 0 and (asked.body.get("stream") or thinks or format or _forced(asked)):
        raise invalid("max_tokens: 0 is not supported with stream, thinking, output_config.format or a forced tool_choice")


def _check_thinking(asked: Asked) -> None:
    thinking = asked.body.get("thinking")
    if thinking is None:
        return
    limits = asked.limits
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in THINKING_KEYS:
        raise invalid("thinking.type: Input should be 'enabled', 'disabled' or 'adaptive'")
    for key in thinking:
        if key not in THINKING_KEYS[kind] or (key == "block_binding" and BINDING_BETA not in asked.betas):
            raise extra_inputs(f"thinking.{kind}.{key}")
    allowed = {"enabled": limits.budget, "disabled": limits.off, "adaptive": limits.adaptive}.get(kind, True)
    if not allowed and kind == "adaptive":
        raise invalid("adaptive thinking is not supported on this model")
    if not allowed:
        raise invalid(
            f'"thinking.type.{kind}" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" '
            "to control thinking behavior."
        )


def _forced(asked: Asked) -> bool:
    choice = asked.body.get("tool_choice")
    return isinstance(choice, dict) and choice.get("type") in ("any", "tool")


def _check_choice(asked: Asked) -> None:
    if _forced(asked) and not asked.limits.forced_choice:
        raise invalid('tool_choice: type "tool" and "any" are not supported for this model.')


def _check_edits(asked: Asked) -> None:
    managed = asked.body.get("context_management")
    if managed is None:
        return
    if not isinstance(managed, dict) or not isinstance(managed.get("edits", []), list):
        raise invalid("context_management.edits: Input should be a valid list")
    for i, edit in enumerate(asked.edits):
        at = f"context_management.edits.{i}"
        kind = edit.get("type") if isinstance(edit, dict) else None
        if kind not in EDIT_KEYS or (kind == "compact_20260112" and THRESHOLD_BETA not in asked.betas):
            known = ", ".join(f"'{tag}'" for tag in EDIT_KEYS if tag != "compact_20260112" or THRESHOLD_BETA in asked.betas)
            raise invalid(f"{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {known}")
        unknown = next((key for key in edit if key not in EDIT_KEYS[kind]), None)
        if unknown:
            raise extra_inputs(f"{at}.{kind}.{unknown}")
        if kind == "clear_thinking_20251015" and i:
            raise invalid("context_management.edits: `clear_thinking_20251015` must be the first edit")
        if kind == "compact_20260112":
            _check_threshold(asked, edit, f"{at}.{kind}")


def _check_threshold(asked: Asked, edit: Object, at: str) -> None:
    trigger = edit.get("trigger") or {}
    if trigger and trigger.get("type") != "input_tokens":
        raise invalid(f"{at}.trigger.type: Input should be 'input_tokens'")
    if trigger and (not isinstance(trigger.get("value"), int) or trigger["value"] < 50_000):
        raise invalid(f"{at}.trigger.value: Input should be greater than or equal to 50000")
    if "threshold" not in asked.limits.model.compaction:
        raise invalid("context_management: compact_20260112 is not supported on this model")


def _check_on_demand(asked: Asked) -> None:
    wanted = asked.on_demand
    if wanted is None:
        return
    if not isinstance(wanted, dict) or wanted.get("type") != "summarize":
        raise invalid("compaction.type: Input should be 'summarize'")
    unknown = next((key for key in wanted if key not in ("type", "instructions")), None)
    if unknown:
        raise extra_inputs(f"compaction.{unknown}")
    if len(wanted.get("instructions") or "") > 16_384:
        raise invalid("compaction.instructions: String should have at most 16384 characters")
    if "on_demand" not in asked.limits.model.compaction:
        raise invalid("compaction: on-demand compaction is not supported on this model")
    config = asked.body.get("output_config") or {}
    beside = {
        "context_management": asked.body.get("context_management") is not None,
        "stop_sequences": bool(asked.body.get("stop_sequences")),
        "output_config.format": config.get("format") is not None,
        "tool_choice": _forced(asked),
        "output_config.task_budget.remaining": (config.get("task_budget") or {}).get("remaining") is not None,
    }
    if found := next((key for key, there in beside.items() if there), None):
        raise invalid(f"{found}: not supported together with `compaction`")
