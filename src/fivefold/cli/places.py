"""Where the agents keep their sessions, for ``--latest``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import platformdirs

from ..errors import InputError


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


def latest(home: Path | None = None, environment: Mapping[str, str] | None = None) -> Path:
    """The session file changed last. Raises InputError naming the places where there is none."""
    known = places(home or Path.home(), os.environ if environment is None else environment)
    newest = max(_files(known), default=None)
    if newest is None:
        looked = ", ".join(f"{place.agent}: {place.folder}" for place in known)
        raise InputError(f"no session found; looked in {looked}. Name the file instead")
    return newest[1]


def _files(known: list[Place]) -> Iterator[tuple[float, Path]]:
    for place in known:
        for path in place.folder.glob(place.pattern):
            try:
                yield path.stat().st_mtime, path
            except OSError:
                continue  # gone since it was listed
