"""What several readers need: unique ids, times, usage, and a builder for one conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from ..core.entries import Entry, Head, Iteration, Record, Usage
from ..core.log import Log
from ..core.messages import JSON, Object
from ..core.transcript import Conversation, OtherRecord, Transcript
from ..errors import InputError
from .source import Source


class Ids:
    """Unique ids by a stable rule: the first holder of an id keeps it, the next get ``~2``, ``~3`` … (I10);
    where there is none it is the running number after a prefix."""

    def __init__(self, prefix: str = "e") -> None:
        self.prefix = prefix
        self.repeats: list[str] = []
        """Ids that came again, in order."""
        self._seen: dict[str, int] = {}
        self._made = 0

    def __call__(self, wanted: JSON = None) -> str:
        """An id that was not given before."""
        if not isinstance(wanted, str) or not wanted:
            self._made += 1
            wanted = f"{self.prefix}{self._made}"
        count = self._seen.get(wanted, 0) + 1
        self._seen[wanted] = count
        if count == 1:
            return wanted
        self.repeats.append(wanted)
        return self(f"{wanted}~{count}")


def parse_time(value: JSON) -> float | None:
    """Seconds since the epoch from ISO 8601 text, seconds or milliseconds; None where it is none of these."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return None if not abs(value) < 1e15 else value / 1000 if value > 1e11 else float(value)
    if not isinstance(value, str) or len(value) < 10:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (ValueError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def count(data: Mapping[str, JSON], *path: str) -> int:
    """A whole number at a path of keys; 0 where there is none, or one beyond all measure."""
    value: JSON | Mapping[str, JSON] = data
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e15 else 0


def anthropic_usage(data: JSON) -> Usage | None:
    """Anthropic's usage object: its four parts are disjoint already. With ``iterations`` (T8) the size is the last
    message iteration; the parts of all of them are kept for the cost."""
    if not isinstance(data, dict):
        return None
    iterations = data.get("iterations")
    parts = tuple(
        Iteration(str(item.get("type", "message")), *_anthropic_parts(item))
        for item in (iterations if isinstance(iterations, list) else [])
        if isinstance(item, dict)
    )
    last = next((part for part in reversed(parts) if part.kind == "message"), None)
    fresh, written, read, output = _anthropic_parts(data) if last is None else (last.input, last.cache_write, last.cache_read, last.output)
    return Usage(
        input=fresh,
        cache_write=written,
        cache_read=read,
        output=output,
        thinking=count(data, "output_tokens_details", "thinking_tokens"),
        cache_write_1h=count(data, "cache_creation", "ephemeral_1h_input_tokens"),
        iterations=parts if len(parts) > 1 else (),
    )


def _anthropic_parts(data: Mapping[str, JSON]) -> tuple[int, int, int, int]:
    return (
        count(data, "input_tokens"),
        count(data, "cache_creation_input_tokens"),
        count(data, "cache_read_input_tokens"),
        count(data, "output_tokens"),
    )


def openai_usage(data: JSON) -> Usage | None:
    """OpenAI's usage, Chat or Responses: its input holds the cached part, which is taken out here (T2)."""
    if not isinstance(data, dict):
        return None
    details = "prompt_tokens_details" if "prompt_tokens" in data else "input_tokens_details"
    whole = count(data, "prompt_tokens") or count(data, "input_tokens")
    read = count(data, details, "cached_tokens") or count(data, "cached_input_tokens")
    written = count(data, details, "cache_write_tokens")
    thinking = max(
        count(data, "completion_tokens_details", "reasoning_tokens"),
        count(data, "output_tokens_details", "reasoning_tokens"),
        count(data, "reasoning_output_tokens"),
    )
    return Usage(
        input=max(0, whole - read - written),
        cache_write=written,
        cache_read=read,
        output=count(data, "completion_tokens") or count(data, "output_tokens"),
        thinking=thinking,
    )


def conversation_of(entries: Iterable[Record], head: Head | None = None) -> Conversation:
    """A main conversation of these records."""
    return Conversation(Log(head, entries))


def transcript(
    name: str, source: Source, conversations: Iterable[Conversation], other: Iterable[OtherRecord] = (), meta: Object | None = None
) -> Transcript:
    """A transcript of what a reader found. Raises InputError where there is no message in it at all."""
    found = tuple(conversations)
    if not any(len(c.log) for c in found):
        bad = source.bad_lines[0] if source.bad_lines else None
        why = f"; line {bad.line}: {bad.why}" if bad else ""
        raise InputError(f"no message in it that can be read (as {name}){why}", path=source.path)
    return Transcript(name, source.path, found, tuple(source.bad_lines), tuple(other), meta=meta or {})


def is_message_entry(entry: Entry) -> bool:
    """Whether an entry is a message of somebody, as against a note or a boundary."""
    return entry.kind in ("user", "assistant", "system", "attachment")
