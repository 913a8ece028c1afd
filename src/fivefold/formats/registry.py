"""All readers, in the order in which they are asked, and the one way in: ``read_transcript``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol

import msgspec

from ..core.transcript import Transcript
from ..errors import UnknownFormatError
from . import (
    aider,
    anthropic,
    atif,
    claude_code,
    cline,
    codex,
    copilot_cli,
    gemini_cli,
    inspect_log,
    langchain,
    mini_swe,
    openai_chat,
    opencode,
    openhands,
    pi,
    refused,
    responses,
    session,
    specstory,
    swe_agent,
)
from .fields import is_single_document
from .source import Source

WIRES = {"claude-code": "anthropic", "codex": "openai-responses"}
"""Formats whose messages are another one's; the others have their own."""


class Reader(Protocol):
    """What a format's module has."""

    NAME: str

    def recognises(self, source: Source) -> bool:
        """Whether the content is of this format; cheap, by content only."""

    def read(self, source: Source) -> Transcript:
        """Read it. Raises InputError."""


READERS: tuple[Reader, ...] = (
    session,
    claude_code,
    codex,
    copilot_cli,
    pi,
    gemini_cli,
    opencode,
    openhands,
    atif,
    mini_swe,
    swe_agent,
    inspect_log,
    langchain,
    cline,
    responses,
    openai_chat,
    anthropic,
    specstory,
    aider,
)  # fmt: skip
"""Formats with marks of their own come before those that any list of messages fits."""


def reader_of(source: Source) -> Reader:
    """The reader for a file's content. Raises UnknownFormatError, saying what the file looks like and what is read."""
    if not refused.is_database(source):  # which every reader would call binary
        for reader in READERS:
            if reader.recognises(source):
                return reader
    raise UnknownFormatError(refused.explain(source, [reader.NAME for reader in READERS]), path=source.path)


def read_transcript(path: str | Path, *, strict: bool = False) -> Transcript:
    """Read a transcript of any known format. Bad lines are listed in it; with ``strict`` the first one raises BadLineError.

    Raises InputError for a file that cannot be read, UnknownFormatError for content that no reader knows.
    """
    source = Source(path, strict=strict)
    transcript = reader_of(source).read(source)
    wire = WIRES.get(transcript.format, transcript.format)
    if transcript.format == session.NAME:
        return transcript
    in_messages = source.shape == "zip" or is_single_document(source)
    return _on_wire(replace(transcript, places="message" if in_messages else "line"), wire)


def _on_wire(transcript: Transcript, wire: str) -> Transcript:
    """The transcript with the wire format that its unmodelled keys belong to in every head."""
    heads = [msgspec.structs.replace(conversation.log.head, wire=wire) for conversation in transcript.conversations]
    logs = [conversation.log.with_head(head) for conversation, head in zip(transcript.conversations, heads, strict=True)]
    conversations = tuple(replace(conversation, log=log) for conversation, log in zip(transcript.conversations, logs, strict=True))
    return replace(transcript, conversations=conversations)
