"""Where the agents keep their sessions, for ``--latest``."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import platformdirs

from ..errors import InputError

SUB_AGENT = "agent-"
"""How Claude Code names the files of sub-agents, which are no sessions of their own."""


class Place(NamedTuple):
    """A folder of one agent's sessions and the pattern of its files."""

    agent: str
    folder: Path
    pattern: str


def places(home: Path, environment: Mapping[str, str]) -> list[Place]:
    """The known places, those that the agents' own variables name included."""
    claude = Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(environment.get("CODEX_HOME") or home / ".codex")
    return [
        Place("Claude Code", claude / "projects", "*/*.jsonl"),
        Place("Codex", codex / "sessions", "*/*/*/rollout-*.jsonl"),
        Place("Gemini CLI", home / ".gemini" / "tmp", "*/chats/session-*.json*"),
        Place("pi", home / ".pi" / "agent" / "sessions", "*/*.jsonl"),
        Place("Copilot CLI", home / ".copilot" / "session-state", "**/*.jsonl"),
        Place("Cline", home / ".cline" / "data" / "sessions", "*/*.messages.json"),
        Place("fivefold", sessions_folder(), "*.jsonl"),
    ]


def sessions_folder() -> Path:
    """Where fivefold keeps its own sessions."""
    return Path(platformdirs.user_data_dir("fivefold")) / "sessions"


def newest_first(home: Path | None = None, environment: Mapping[str, str] | None = None) -> Iterator[Path]:
    """The session files, the one changed last first. Raises InputError naming the places where there is none."""
    known = places(home or Path.home(), os.environ if environment is None else environment)
    found = sorted(_files(known), reverse=True)
    if not found:
        looked = ", ".join(f"{place.agent}: {place.folder}" for place in known)
        raise InputError(f"no session found; looked in {looked}. Name the file instead")
    return (path for _, path in found)


def _files(known: list[Place]) -> Iterator[tuple[float, Path]]:
    for place in known:
        for path in place.folder.glob(place.pattern):
            if path.name.startswith(SUB_AGENT):
                continue
            try:
                status = path.stat()
            except OSError:
                continue  # gone since it was listed
            if stat.S_ISREG(status.st_mode):
                yield status.st_mtime, path
