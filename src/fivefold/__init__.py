"""fivefold: keep an LLM agent's conversation inside its context window.

The public names, each loaded when it is first asked for, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent import Agent, AsyncAgent
    from .agent_tools import schemas
    from .calling import Call, Part, Reply, Tool
    from .cleanup import Cleanup
    from .core.actions import Emit, Send
    from .core.entries import Boundary, Entry, Fold, Head, HideEntries, HideSpan, HideThinking, ReplaceBlocks, Target, Unfold, Usage
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
    from .core.rejection import Rejection
    from .core.repair import Request, outgoing, violations
    from .core.state import Setup, Tracking
    from .core.tokens import Ledger, Size
    from .core.transcript import Conversation, Transcript
    from .core.turns import Finding
    from .core.view import View, view_of
    from .core.window import Window, WindowState, state_of, window_of
    from .drive import AsyncDriver, Driver
    from .driving import Outgoing
    from .errors import (
        CannotFitError,
        CompactionError,
        FivefoldError,
        MediaRejectedError,
        PinError,
        PlanError,
        PromptTooLongError,
        RejectedError,
        SummaryError,
        VetoedError,
    )
    from .files import FileReader
    from .formats.registry import read_transcript
    from .formats.write import render
    from .hooks import Hooks
    from .loop_events import Ended, Responded, ToolEnded
    from .memory.background import SessionMemory
    from .perform import Ports
    from .plan import LevelRow, Plan
    from .ports import RunningTask
    from .providers.models import lookup
    from .providers.overflow import classify, classify_stop
    from .report.build import Options, inspect
    from .report.compaction import CompactReport, report_of
    from .report.html import write_page
    from .report.model import Report
    from .setup import make_setup
    from .store.jsonl import read_session, write_session
    from .store.search import read_back, recall
    from .store.session import Session
    from .summarize.flow import Answer, Ask
    from .warn import WarningStore

__version__ = "0.1.0"

_HOMES = {
    "agent": "Agent AsyncAgent",
    "agent_tools": "schemas",
    "calling": "Call Part Reply Tool",
    "cleanup": "Cleanup",
    "core.actions": "Emit Send",
    "core.entries": "Boundary Entry Fold Head HideEntries HideSpan HideThinking ReplaceBlocks Target Unfold Usage",
    "core.estimate": "Measure estimate_text measure_blocks measure_entry pad",
    "core.log": "Log",
    "core.messages": (
        "Compaction Document Image Message Opaque RedactedThinking ServerToolResult ServerToolUse Text Thinking ToolResult ToolUse"
    ),
    "core.pairing": "legal_cuts pair rounds",
    "core.policy": "Policy",
    "core.rejection": "Rejection",
    "core.repair": "Request outgoing violations",
    "core.state": "Setup Tracking",
    "core.tokens": "Ledger Size",
    "core.transcript": "Conversation Transcript",
    "core.turns": "Finding",
    "core.view": "View view_of",
    "core.window": "Window WindowState state_of window_of",
    "drive": "AsyncDriver Driver",
    "driving": "Outgoing",
    "errors": (
        "CannotFitError CompactionError FivefoldError MediaRejectedError PinError "
        "PlanError PromptTooLongError RejectedError SummaryError VetoedError"
    ),
    "files": "FileReader",
    "formats.registry": "read_transcript",
    "formats.write": "render",
    "hooks": "Hooks",
    "loop_events": "Ended Responded ToolEnded",
    "memory.background": "SessionMemory",
    "perform": "Ports",
    "plan": "LevelRow Plan",
    "ports": "RunningTask",
    "providers.models": "lookup",
    "providers.overflow": "classify classify_stop",
    "report.build": "Options inspect",
    "report.compaction": "CompactReport report_of",
    "report.html": "write_page",
    "report.model": "Report",
    "setup": "make_setup",
    "store.jsonl": "read_session write_session",
    "store.search": "read_back recall",
    "store.session": "Session",
    "summarize.flow": "Answer Ask",
    "warn": "WarningStore",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Agent",
    "Answer",
    "Ask",
    "AsyncAgent",
    "AsyncDriver",
    "Boundary",
    "Call",
    "CannotFitError",
    "Cleanup",
    "CompactReport",
    "Compaction",
    "CompactionError",
    "Conversation",
    "Document",
    "Driver",
    "Emit",
    "Ended",
    "Entry",
    "FileReader",
    "Finding",
    "FivefoldError",
    "Fold",
    "Head",
    "HideEntries",
    "HideSpan",
    "HideThinking",
    "Hooks",
    "Image",
    "Ledger",
    "LevelRow",
    "Log",
    "Measure",
    "MediaRejectedError",
    "Message",
    "Opaque",
    "Options",
    "Outgoing",
    "Part",
    "PinError",
    "Plan",
    "PlanError",
    "Policy",
    "Ports",
    "PromptTooLongError",
    "RedactedThinking",
    "RejectedError",
    "Rejection",
    "ReplaceBlocks",
    "Reply",
    "Report",
    "Request",
    "Responded",
    "RunningTask",
    "Send",
    "ServerToolResult",
    "ServerToolUse",
    "Session",
    "SessionMemory",
    "Setup",
    "Size",
    "SummaryError",
    "Target",
    "Text",
    "Thinking",
    "Tool",
    "ToolEnded",
    "ToolResult",
    "ToolUse",
    "Tracking",
    "Transcript",
    "Unfold",
    "Usage",
    "VetoedError",
    "View",
    "WarningStore",
    "Window",
    "WindowState",
    "classify",
    "classify_stop",
    "estimate_text",
    "inspect",
    "legal_cuts",
    "lookup",
    "make_setup",
    "measure_blocks",
    "measure_entry",
    "outgoing",
    "pad",
    "pair",
    "read_back",
    "read_session",
    "read_transcript",
    "recall",
    "render",
    "report_of",
    "rounds",
    "schemas",
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
