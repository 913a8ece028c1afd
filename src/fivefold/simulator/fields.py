"""Which keys a request to Anthropic's API may have; every other is refused (source: the parameter types of its SDK, 2.14.0)."""

from __future__ import annotations

from typing import Final

_CACHED = "type cache_control "
BLOCK_KEYS: Final[dict[str, frozenset[str]]] = {
    kind: frozenset(keys.split())
    for kind, keys in {
        "text": _CACHED + "text citations",
        "image": _CACHED + "source transformations",
        "document": _CACHED + "source citations context title",
        "search_result": _CACHED + "content citations source title",
        "thinking": "type thinking signature",
        "redacted_thinking": "type data",
        "tool_use": _CACHED + "id name input caller toolset_name",
        "tool_result": _CACHED + "tool_use_id content is_error toolset_name",
        "server_tool_use": _CACHED + "id name input caller",
        "web_search_tool_result": _CACHED + "tool_use_id content caller",
        "web_fetch_tool_result": _CACHED + "tool_use_id content caller",
        "advisor_tool_result": _CACHED + "tool_use_id content",
        "code_execution_tool_result": _CACHED + "tool_use_id content",
        "bash_code_execution_tool_result": _CACHED + "tool_use_id content",
        "text_editor_code_execution_tool_result": _CACHED + "tool_use_id content",
        "tool_search_tool_result": _CACHED + "tool_use_id content",
        "mcp_tool_use": _CACHED + "id name input server_name",
        "mcp_tool_result": _CACHED + "tool_use_id content is_error",
        "container_upload": _CACHED + "file_id",
        "compaction": _CACHED + "content encrypted_content signature tool_changes",
        "tool_addition": _CACHED + "tool",
        "tool_removal": _CACHED + "tool",
        "mcp_tool_listing": "type mcp_server_name tools",
        "fallback": "type from to trigger",
    }.items()
}
"""Blocks of a message by type."""
BETA_BLOCKS: Final = {
    "tool_addition": ("inline-tools-2026-09-15", "mid-conversation-tool-changes-2026-07-01"),
    "tool_removal": ("inline-tools-2026-09-15", "mid-conversation-tool-changes-2026-07-01"),
    "compaction": ("compact-2026-01-12", "compact-2026-09-04"),
}
"""Blocks that need one of these beta headers."""
BETA_SYSTEM_KEYS: Final = {
    "clear_at": "mid-conversation-system-clear-at-2026-08-21",
    "output_config": "mid-conversation-output-config-2026-07-01",
}
"""Keys of a system message inside the conversation, and the beta header that each needs."""
MESSAGE_KEYS: Final = {
    "user": frozenset(("role", "content")),
    "assistant": frozenset(("role", "content")),
    "system": frozenset(("role", "content", "clear_at", "output_config")),
}
BODY_KEYS: Final = frozenset(
    (
        *("model", "messages", "max_tokens", "system", "tools", "tool_choice", "thinking", "stream", "stop_sequences", "metadata"),
        *("service_tier", "container", "inference_geo", "cache_control", "output_config", "diagnostics", "speed"),
        *("user_profile_id", "workspace_id"),
    )
)
SAMPLING_KEYS: Final = ("temperature", "top_k", "top_p")
"""Gone with API version 2026-10-21."""
COUNT_KEYS: Final = frozenset(
    (
        *("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control", "speed"),
        *("user_profile_id", "workspace_id"),
    )
)
"""What count_tokens takes; beside it the beta keys, of which it ignores ``compaction``."""
BETA_KEYS: Final[dict[str, str]] = {
    "context_management": "context-management-2025-06-27",
    "compaction": "compact-2026-09-04",
    "thread": "message-threads-2026-08-12",
    "mcp_servers": "mcp-client-",
    "fallbacks": "",
    "fallback_credit_token": "",
    "billing_policy": "",
}
"""Keys that need a beta header which starts like this; empty: any."""
EDIT_KEYS: Final[dict[str, frozenset[str]]] = {
    "clear_tool_uses_20250919": frozenset(["type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs"]),
    "clear_thinking_20251015": frozenset(("type", "keep")),
    "compact_20260112": frozenset(["type", "trigger", "pause_after_compaction", "instructions"]),
}
THINKING_KEYS: Final[dict[str, frozenset[str]]] = {
    "adaptive": frozenset(("type", "display", "block_binding")),
    "between_tools": frozenset(("type", "display", "block_binding")),
    "enabled": frozenset(("type", "display", "block_binding", "budget_tokens")),
    "disabled": frozenset(("type",)),
}
RESULT_PARTS: Final = frozenset(("text", "image", "document", "search_result", "tool_reference"))
"""What the content of a tool result may hold."""
VERSION: Final = "2026-10-21"
"""``anthropic-version`` from which sampling parameters, documents in assistant messages and cited user text are refused."""
