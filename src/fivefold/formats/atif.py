"""ATIF, the Agent Trajectory Interchange Format (``schema_version: ATIF-v1.…``, 1.0 to 1.8).

One step of the agent is one response and what was observed after it, so it becomes two entries: the assistant's, and
a user entry with the results. Results without ``source_call_id`` are what an agent in text mode was shown. Steps that
were copied from an earlier trajectory (``is_copied_context``) keep their text and lose their usage, which was counted there.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core.entries import Entry, Head, Kind, Usage
from ..core.log import Log
from ..core.messages import JSON, Block, Image, Object, Thinking, ToolResult, ToolUse
from ..core.transcript import Conversation, ConversationKind, Transcript
from .common import Ids, count, parse_time, transcript
from .parts import arguments, content_blocks, dig, documents, items_at, numbered_objects, object_at, objects_at, rest_of, text_at, usage_of
from .source import Source

NAME = "atif"


def recognises(source: Source) -> bool:
    """Whether the content is an ATIF trajectory."""
    return source.shape in ("document", "lines") and bool(source.first_objects) and _is_trajectory(source.first_objects[0])


def _is_trajectory(data: Object) -> bool:
    return text_at(data, "schema_version").startswith("ATIF-v") and isinstance(data.get("steps"), list)


def read(source: Source) -> Transcript:
    """Read trajectories. Raises InputError where there is no message in them."""
    found: list[Object] = []
    for number, data in documents(source):
        if _is_trajectory(data):
            found.append(data)
        else:
            source.bad(number, "not an ATIF trajectory: no schema_version ATIF-v… with steps")
    main: ConversationKind = "sample" if len(found) > 1 else "main"
    conversations: list[Conversation] = []
    for data in found:
        callers = dict(_callers(data))
        conversations.append(Conversation(_log(source, data, {}), main))
        for inner in _subagents(data):
            log = _log(source, inner, callers)
            if len(log):
                conversations.append(Conversation(log, "sidechain"))
    return transcript(NAME, source, conversations, meta=rest_of(found[0], "steps", "subagent_trajectories") if len(found) == 1 else None)


def _subagents(data: Object) -> Iterator[Object]:
    """All trajectories inside one, outer before inner."""
    waiting = objects_at(data, "subagent_trajectories")
    while waiting:
        inner = waiting.pop(0)
        yield inner
        waiting[:0] = objects_at(inner, "subagent_trajectories")


def _callers(data: Object) -> Iterator[tuple[str, str]]:
    """For each trajectory that a result refers to, the call that started it."""
    for outer in (data, *_subagents(data)):
        for step in objects_at(outer, "steps"):
            for result in objects_at(step, "observation", "results"):
                for ref in objects_at(result, "subagent_trajectory_ref"):
                    for key in ("trajectory_id", "session_id"):
                        yield text_at(ref, key), text_at(result, "source_call_id")


def _log(source: Source, data: Object, callers: dict[str, str]) -> Log:
    agent = object_at(data, "agent")
    id = text_at(data, "trajectory_id") or text_at(data, "session_id")
    caller = next((callers[key] for key in (id, text_at(data, "session_id")) if callers.get(key)), "")
    extra = rest_of(data, "steps", "agent", "subagent_trajectories")
    head = Head(
        id=id,
        model=text_at(agent, "model_name") or None,
        tools=tuple(objects_at(agent, "tool_definitions")),
        name=text_at(agent, "name"),
        extra={**extra, "agent": rest_of(agent, "tool_definitions"), **({"parent_call": caller} if caller else {})},
    )
    return Log(head, _entries(source, data))


_KINDS: dict[str, Kind] = {"system": "system", "user": "user", "agent": "assistant"}


def _entries(source: Source, data: Object) -> Iterator[Entry]:
    ids = Ids("step-")
    for number, step in numbered_objects(source, items_at(data, "steps"), "step"):
        kind = _KINDS.get(text_at(step, "source"))
        if kind is None:
            source.bad(number, f"step {number} has the source {step.get('source')!r}; known are system, user, agent")
            continue
        id = ids(f"step-{step.get('step_id', number)}")
        yield _said(step, kind, id, number)
        results = _results(step)
        if results:
            answers = isinstance(results[0], ToolResult)
            yield Entry(
                id=ids(f"{id}-results"), kind="user", blocks=results, time=parse_time(step.get("timestamp")), meta=not answers, line=number
            )


def _said(step: Object, kind: Kind, id: str, number: int) -> Entry:
    content, bare = _content(step.get("message"))
    blocks = content
    agent = kind == "assistant"
    if agent:
        reasoning = text_at(step, "reasoning_content")
        thinking: tuple[Block, ...] = (Thinking(reasoning),) if reasoning else ()
        calls = (
            ToolUse(text_at(c, "tool_call_id"), text_at(c, "function_name"), arguments(c.get("arguments")))
            for c in objects_at(step, "tool_calls")
        )
        blocks = (*thinking, *content, *calls)
    return Entry(
        id=id,
        kind=kind,
        blocks=blocks,
        time=parse_time(step.get("timestamp")),
        api_id=id if agent else None,
        usage=_usage(step) if agent and step.get("is_copied_context") is not True else None,
        model=text_at(step, "model_name") or None,
        bare=bare and blocks == content,
        line=number,
    )


def _content(content: JSON) -> tuple[tuple[Block, ...], bool]:
    """Blocks of a message or a result; a medium is named by its path, relative to the recording."""
    blocks, bare = content_blocks(content)
    return tuple(_medium(block) for block in blocks), bare


def _medium(block: Block) -> Block:
    path = text_at(block.source, "path") if isinstance(block, Image) else ""
    if not isinstance(block, Image) or not path:
        return block
    web = path.startswith(("http://", "https://"))
    return Image({"type": "url", "url": path} if web else {"type": "path", **block.source}, block.extra)


def _usage(step: Object) -> Usage | None:
    """ATIF's prompt tokens hold the cached ones and, where a converter tells of them, the cache writes (T2)."""
    metrics = object_at(step, "metrics")
    read, written = count(metrics, "cached_tokens"), count(metrics, "extra", "cache_creation_input_tokens")
    fresh = max(0, count(metrics, "prompt_tokens") - read - written)
    return usage_of(
        fresh, count(metrics, "completion_tokens"), thinking=count(metrics, "extra", "reasoning_tokens"), read=read, written=written
    )


def _results(step: Object) -> tuple[Block, ...]:
    """Answers to calls first (I1), then what was shown without a call."""
    answers: list[Block] = []
    shown: list[Block] = []
    for result in objects_at(step, "observation", "results"):
        call, content = text_at(result, "source_call_id"), result.get("content")
        blocks, bare = _content(content)
        if call:
            answers.append(ToolResult(call, text_at(result, "content") if bare or content is None else blocks, _failed(result)))
        else:
            shown.extend(blocks)
    return (*answers, *shown)


def _failed(result: Object) -> bool:
    return dig(result, "extra", "is_error") is True
