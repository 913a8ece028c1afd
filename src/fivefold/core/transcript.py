"""What a reader makes of a file: conversations, each a log, and what did not belong to any."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .log import Log
from .messages import Object

ConversationKind: TypeAlias = Literal["main", "sidechain", "branch", "sample"]


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line (from 1) that could not be read, and why, in words for a person."""

    line: int
    why: str


@dataclass(frozen=True, slots=True)
class OtherRecord:
    """A record that is no part of a conversation (progress, snapshots, titles), kept as its source bytes."""

    line: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation of a file. ``main``: the one that goes on; ``sidechain``: a sub-agent's; ``branch``: one that
    was rewound and left; ``sample``: one of several equal ones in a results file."""

    log: Log
    kind: ConversationKind = "main"

    @property
    def name(self) -> str:
        """How to call it: the name in its head, else its id."""
        return self.log.head.name or self.log.head.id


@dataclass(frozen=True, slots=True)
class Transcript:
    """A file as read. ``conversations[0]`` is the main one; there is at least one."""

    format: str
    path: str
    conversations: tuple[Conversation, ...]
    bad_lines: tuple[BadLine, ...] = ()
    other: tuple[OtherRecord, ...] = ()
    places: Literal["line", "message"] = "line"
    """What the ``line`` of its entries counts: lines of the file, or, in a whole document, messages."""
    meta: Object = field(default_factory=dict)
    """Keys of a whole-document format that belong to no conversation."""

    @property
    def main(self) -> Conversation:
        """The conversation that goes on, or the first of several."""
        return self.conversations[0]
