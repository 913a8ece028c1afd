"""The recorded sessions that tests run over: those in tests/data always, and a folder of more beside the project where it is there."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parent / "data"
MORE = Path(os.environ.get("FIVEFOLD_TRANSCRIPTS", Path(__file__).parents[2] / "shared" / "transcripts"))

FORMATS = {
    "aider": "aider",
    "anthropic": "anthropic",
    "anthropic_chat": "anthropic",
    "atif": "atif",
    "claude_code": "claude-code",
    "cline": "cline",
    "codex": "codex",
    "copilot_cli": "copilot-cli",
    "gemini_cli": "gemini-cli",
    "inspect": "inspect",
    "langchain": "langchain",
    "markdown": None,
    "mini_swe": "mini-swe-agent",
    "openai_chat": "openai-chat",
    "opencode": "opencode",
    "openhands": "openhands",
    "pi": "pi",
    "responses": "openai-responses",
    "specstory": "specstory",
    "swe_agent": "swe-agent",
    "tau_bench": "openai-chat",
}
"""Folder → format. Folders not named here hold no transcripts, or kinds that are refused."""
REFUSED = ("console_md", "entire_v1")


class Sample(NamedTuple):
    """A file, the format it has to be read as (None: any), and what an independent reader counted in it."""

    path: Path
    format: str | None
    messages: int | None = None
    tool_calls: int | None = None

    @property
    def slug(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"


def _index() -> dict[str, tuple[int, int]]:
    path = MORE / "index.tsv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as file:
        return {f"{r['format']}/{r['slug']}": (int(r["messages"]), int(r["tool_calls"])) for r in csv.DictReader(file, delimiter="\t")}


def samples() -> list[Sample]:
    """All files that have to be read."""
    counts = _index()
    found = []
    for folder, format in FORMATS.items():
        for base in (DATA, MORE):
            for path in sorted((base / folder).glob("*")):
                slug = f"{folder}/{path.name.removesuffix('.json').removesuffix('.traj').rsplit('.', 1)[0] if base is MORE else ''}"
                known = next(
                    (counts[key] for key in (slug, f"{folder}/{path.stem}", f"{folder}/{path.name.split('.')[0]}") if key in counts), None
                )
                found.append(Sample(path, format, *(known or (None, None))) if base is MORE else Sample(path, format))
    return found


def refused_samples() -> list[Path]:
    """All files that have to be refused."""
    return sorted((DATA / "refused").glob("*")) + [path for folder in REFUSED for path in sorted((MORE / folder).glob("*"))]
