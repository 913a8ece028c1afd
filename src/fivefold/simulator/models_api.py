"""Anthropic's Models API: what a client asks a model's limits and abilities of at run time (facts: API sections 1.1.4 and 6)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from .asked import CONTEXT_BETA, ON_DEMAND_BETA, check_headers
from .openai_common import check_openai
from .refusal import Object
from .world import Limits, World

_EFFORTS = ("low", "medium", "high", "xhigh", "max")


def list_models(world: World, headers: Mapping[str, str]) -> Object:
    """The list of models, on one page."""
    check_headers(world, headers)
    rows = [_info(world, name, headers) for name in world.names()]
    return {"data": rows, "has_more": False, "first_id": rows[0]["id"], "last_id": rows[-1]["id"]}


def openai_models(world: World, headers: Mapping[str, str]) -> Object:
    """The list as OpenAI's clients read it: the models that were given to the simulator by name, and OpenAI's of the table."""
    check_openai(world, headers)
    rows = [{"id": name, "object": "model", "created": 1_767_225_600, "owned_by": "simulator"} for name in world.names("openai")]
    return {"object": "list", "data": rows}


def get_model(world: World, name: str, headers: Mapping[str, str]) -> Object:
    """One model. Raises Refused (404)."""
    check_headers(world, headers)
    return _info(world, name, headers)


def _info(world: World, name: str, headers: Mapping[str, str]) -> Object:
    limits = world.limits(name)
    model = limits.model
    today = datetime.fromtimestamp(world.clock(), UTC).date().isoformat()
    return {
        "type": "model",
        "id": name,
        "display_name": name.replace("-", " ").title(),
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "retired" if model.retires is not None and model.retires <= today else "active",
        "max_input_tokens": model.prompt_limit,
        "max_tokens": model.max_output,
        "retires_at": None if model.retires is None else f"{model.retires}T00:00:00Z",
        "capabilities": _abilities(limits, headers.get("anthropic-beta", "")),
    }


def _yes(supported: bool) -> Object:
    return {"supported": supported}


def _abilities(limits: Limits, betas: str) -> Object:
    model = limits.model
    thinks = model.thinking != "none"
    kinds = {"adaptive": thinks and limits.adaptive, "enabled": thinks and limits.budget, "disabled": limits.off, "between_tools": False}
    managed = {
        "clear_tool_uses_20250919": "clear_tool_uses" in model.edits,
        "clear_thinking_20251015": "clear_thinking" in model.edits,
        "compact_20260112": "threshold" in model.compaction,
    }
    found: Object = {name: _yes(False) for name in ("batch", "citations", "code_execution")}
    found |= {name: _yes(True) for name in ("image_input", "pdf_input", "structured_outputs")}
    found["thinking"] = {**_yes(thinks), "types": {kind: _yes(there) for kind, there in kinds.items()}}
    found["effort"] = {**_yes(thinks), **{effort: _yes(thinks) for effort in _EFFORTS}}
    found["server_tools"] = {**_yes(False), "code_execution": _yes(False), "web_search": _yes(False)}
    found["context_management"] = _yes(bool(model.edits))
    if CONTEXT_BETA in betas or ON_DEMAND_BETA in betas:
        found["context_management"] |= {name: _yes(there) for name, there in managed.items()}
    if ON_DEMAND_BETA in betas:
        there = "on_demand" in model.compaction
        found["compaction"] = {**_yes(there), "summarize": _yes(there)}
    return found
