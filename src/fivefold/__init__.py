"""fivefold: keep an LLM agent's conversation inside its context window.

The public names, each loaded when it is first asked for, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core.entries import (
        Boundary,
        Entry,
        Fold,
        Head,
        HideEntries,
        HideSpan,
        HideThinking,
        ReplaceBlocks,
        Target,
        Unfold,
        Usage,
    )
    from .core.estimate import Measure, estimate_text, measure_blocks, measure_entry, pad
    from .core.log import Log
    from .core.messages import (
        Compaction,
        Document,
        Image,
        Message,
        Opaque,
        RedactedThinking,
        ServerToolResult,
        ServerToolUse,
        Text,
        Thinking,
        ToolResult,
        ToolUse,
    )
    from .core.pairing import legal_cuts, pair, rounds
    from .core.policy import Policy
    from .core.repair import Request, outgoing, violations
    from .core.tokens import Ledger, Size
    from .core.transcript import Conversation, Transcript
    from .core.turns import Finding
    from .core.view import View, view_of
    from .core.window import Window, WindowState, state_of, window_of
    from .errors import FivefoldError
    from .formats.registry import read_transcript
    from .providers.models import lookup
    from .report.build import Options, inspect
    from .report.html import write_page
    from .report.model import Report
    from .store.jsonl import read_session, write_session
    from .store.search import read_back, recall
    from .store.session import Session

__version__ = "0.1.0"

_HOMES = {
    "core.entries": "Boundary Entry Fold Head HideEntries HideSpan HideThinking ReplaceBlocks Target Unfold Usage",
    "core.estimate": "Measure estimate_text measure_blocks measure_entry pad",
    "core.log": "Log",
    "core.messages": (
        "Compaction Document Image Message Opaque RedactedThinking ServerToolResult ServerToolUse Text Thinking ToolResult ToolUse"
    ),
    "core.pairing": "legal_cuts pair rounds",
    "core.policy": "Policy",
    "core.repair": "Request outgoing violations",
    "core.tokens": "Ledger Size",
    "core.transcript": "Conversation Transcript",
    "core.turns": "Finding",
    "core.view": "View view_of",
    "core.window": "Window WindowState state_of window_of",
    "errors": "FivefoldError",
    "formats.registry": "read_transcript",
    "providers.models": "lookup",
    "report.build": "Options inspect",
    "report.html": "write_page",
    "report.model": "Report",
    "store.jsonl": "read_session write_session",
    "store.search": "read_back recall",
    "store.session": "Session",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Boundary",
    "Compaction",
    "Conversation",
    "Document",
    "Entry",
    "Finding",
    "FivefoldError",
    "Fold",
    "Head",
    "HideEntries",
    "HideSpan",
    "HideThinking",
    "Image",
    "Ledger",
    "Log",
    "Measure",
    "Message",
    "Opaque",
    "Options",
    "Policy",
    "RedactedThinking",
    "ReplaceBlocks",
    "Report",
    "Request",
    "ServerToolResult",
    "ServerToolUse",
    "Session",
    "Size",
    "Target",
    "Text",
    "Thinking",
    "ToolResult",
    "ToolUse",
    "Transcript",
    "Unfold",
    "Usage",
    "View",
    "Window",
    "WindowState",
    "estimate_text",
    "inspect",
    "legal_cuts",
    "lookup",
    "measure_blocks",
    "measure_entry",
    "outgoing",
    "pad",
    "pair",
    "read_back",
    "read_session",
    "read_transcript",
    "recall",
    "rounds",
    "state_of",
    "view_of",
    "violations",
    "window_of",
    "write_page",
    "write_session",
]


def __getattr__(name: str) -> object:
    """Load a public name from its home."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'fivefold' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
