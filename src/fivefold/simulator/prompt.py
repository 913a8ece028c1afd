"""What the model is shown of a request: the blocks left after dropped thinking, compaction and the server's own edits (facts: 1.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from .asked import Asked
from .facts import BlockFacts
from .refusal import Object
from .thinking import Checked

PLACEHOLDER: Final = "[tool result cleared]"
"""What stands where a result was. The server's own text is not published."""
_TRIGGER: Final = 100_000
_KEEP: Final = 3
_THINKING: Final = ("thinking", "redacted_thinking")

Line = list[list[BlockFacts]]
"""The blocks of each message, those that are not shown left out."""


class Prompt(NamedTuple):
    """What is shown: tools, system prompt and the blocks of all messages."""

    tools: tuple[BlockFacts, ...]
    system: tuple[BlockFacts, ...]
    blocks: list[BlockFacts]
    tokens: int
    original_tokens: int
    """Before the server's edits."""
    applied: tuple[Object, ...]
    images: bool


def prompt_of(asked: Asked, checked: Checked, compacted_at: tuple[int, int] | None) -> Prompt:
    """The prompt after all edits that the request asks for, and the edits that were applied."""
    line = _shown(asked, checked, compacted_at)
    _clear_reminders(asked, line)
    edits = asked.edits
    if asked.limits.strips_thinking and not any(edit["type"] == "clear_thinking_20251015" for edit in edits):
        _keep_last_turn(asked, line)
    fixed = _sum(asked.tools) + _sum(asked.system)
    original = fixed + sum(map(_sum, line))
    tokens, applied = original, []
    for edit in edits:
        if edit["type"] == "clear_thinking_20251015":
            done = _clear_thinking(asked, line, edit.get("keep"))
        elif edit["type"] == "clear_tool_uses_20250919":
            done = _clear_tools(asked, line, edit, tokens)
        else:
            continue
        if done is not None:
            applied.append(done)
            tokens -= done["cleared_input_tokens"]
    images = any(item.kind == "image" for message in asked.messages if message.media for item in message.media)
    return Prompt(asked.tools, asked.system, [block for blocks in line for block in blocks], tokens, original, tuple(applied), images)


def _sum(blocks: tuple[BlockFacts, ...] | list[BlockFacts]) -> int:
    return sum([block.tokens for block in blocks])


def _shown(asked: Asked, checked: Checked, compacted_at: tuple[int, int] | None) -> Line:
    line: Line = []
    for n, message in enumerate(asked.messages):
        if compacted_at is not None and n < compacted_at[0]:
            line.append([])
        elif message.plain:
            line.append(list(message.blocks))
        else:
            first = compacted_at[1] if compacted_at is not None and n == compacted_at[0] else 0
            line.append(
                [
                    block
                    for m, block in enumerate(message.blocks)
                    if m >= first
                    and (n, m) not in checked.dropped
                    and not (block.kind == "compaction" and block.value.get("content") is None)
                ]
            )
    return line


def _clear_reminders(asked: Asked, line: Line) -> None:
    """A system message that is cleared at the next user message is not shown once a person has spoken behind it."""
    reminders = [
        n for n, message in enumerate(asked.messages) if message.role == "system" and message.value.get("clear_at") == "next_user_message"
    ]
    for n in reminders:
        if n < _last_person(asked):
            line[n] = []


def _last_person(asked: Asked) -> int:
    """The last user message that holds more than tool results."""
    for n in range(len(asked.messages) - 1, 0, -1):
        message = asked.messages[n]
        if message.role == "user" and message.leading < len(message.blocks):
            return n
    return 0


def _keep_last_turn(asked: Asked, line: Line) -> None:
    """Thinking before the last message of a person is not shown."""
    for n in range(_last_person(asked)):
        if not asked.messages[n].plain:
            line[n] = [block for block in line[n] if block.kind not in _THINKING]


def _clear_thinking(asked: Asked, line: Line, keep: object) -> Object | None:
    if keep == "all" or (isinstance(keep, dict) and keep.get("type") == "all"):
        return None
    if keep is None and not asked.limits.strips_thinking:
        return None
    count = int(keep.get("value") or 1) if isinstance(keep, dict) else 1
    turns = [turn for turn in _turns(asked) if any(block.kind in _THINKING for n in turn for block in line[n])]
    cleared = 0
    gone = turns[: max(0, len(turns) - count)]
    for n in (n for turn in gone for n in turn):
        cleared += sum(block.tokens for block in line[n] if block.kind in _THINKING)
        line[n] = [block for block in line[n] if block.kind not in _THINKING]
    if not gone:
        return None
    return {"type": "clear_thinking_20251015", "cleared_thinking_turns": len(gone), "cleared_input_tokens": cleared}


def _turns(asked: Asked) -> Iterator[list[int]]:
    """Runs of assistant messages."""
    turn: list[int] = []
    for n, message in enumerate(asked.messages):
        if message.role == "assistant":
            turn.append(n)
        elif turn:
            yield turn
            turn = []
    if turn:
        yield turn


def _clear_tools(asked: Asked, line: Line, edit: Object, tokens: int) -> Object | None:
    uses = [(n, block) for n, blocks in enumerate(line) for block in blocks if block.kind == "tool_use"]
    trigger = edit.get("trigger") or {"type": "input_tokens", "value": _TRIGGER}
    size = tokens if trigger["type"] == "input_tokens" else len(uses)
    if size <= trigger["value"]:
        return None
    keep = (edit.get("keep") or {}).get("value", _KEEP)
    excluded = edit.get("exclude_tools") or ()
    ids = {block.use_id for _, block in uses[: max(0, len(uses) - keep)] if block.value["name"] not in excluded}
    inputs = edit.get("clear_tool_inputs") or False
    if not isinstance(inputs, bool):
        inputs = {block.use_id for _, block in uses if block.value["name"] in inputs}
    changes, cleared, count = [], 0, 0
    for n, blocks in enumerate(line):
        for m, block in enumerate(blocks):
            if block.use_id in ids and (new := _cleared(asked, block, inputs)) is not None and new.digest != block.digest:
                changes.append((n, m, new))
                cleared += block.tokens - new.tokens
                count += block.kind == "tool_result"
    least = (edit.get("clear_at_least") or {}).get("value", 0)
    if not changes or cleared < least:
        return None
    for n, m, new in changes:
        line[n][m] = new
    return {"type": "clear_tool_uses_20250919", "cleared_tool_uses": count, "cleared_input_tokens": cleared}


def _cleared(asked: Asked, block: BlockFacts, inputs: bool | set[str]) -> BlockFacts | None:
    """A block with the placeholder in it; None where it stays."""
    if block.kind == "tool_result":
        value = {**block.value, "content": PLACEHOLDER}
    elif block.kind == "tool_use" and (inputs is True or (isinstance(inputs, set) and block.use_id in inputs)):
        value = {**block.value, "input": {}}
    else:
        return None
    key = b"cleared" + block.digest
    known = asked.limits.parts
    if key not in known:
        new = asked.limits.reader.block(value, "cleared")
        # The frame of its message is counted with the first block of a message.
        frame = block.tokens - asked.limits.reader.tokens_of(block.value)
        known[key] = (new._replace(tokens=new.tokens + frame, mark=block.mark, marks=block.marks),)
    return known[key][0]
