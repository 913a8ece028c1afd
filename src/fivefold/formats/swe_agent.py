"""SWE-agent trajectories (``.traj``): one document with the history of messages and the steps of the run.

The history is what the model saw, so it is read where it is there; the steps (``trajectory``) only else. In function
calling mode answers stand in ``tool`` messages with ``tool_call_ids``; in text mode the command is part of the
assistant's text and the observation a user message, so that the conversation has no tool blocks at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core.entries import Entry, Head
from ..core.log import Log
from ..core.messages import Block, Object, ToolResult
from ..core.transcript import Conversation, ConversationKind, Transcript
from .common import Ids, transcript
from .parts import (
    arguments,
    chat_calls,
    content_blocks,
    dig,
    documents,
    items_at,
    numbered_objects,
    object_at,
    objects_at,
    rest_of,
    text_at,
    thinking_blocks,
)
from .source import Source

NAME = "swe-agent"


def recognises(source: Source) -> bool:
    """Whether the content is a SWE-agent trajectory."""
    return source.shape in ("document", "lines") and bool(source.first_objects) and _is_trajectory(source.first_objects[0])


def _is_trajectory(data: Object) -> bool:
    step, message = object_at(data, "trajectory", 0), object_at(data, "history", 0)
    of_history = "role" in message and ("agent" in message or "message_type" in message)
    return of_history or {"action", "observation", "response"} <= step.keys()


def read(source: Source) -> Transcript:
    """Read a trajectory. Raises InputError where there is no message in it."""
    conversations: list[Conversation] = []
    rests: list[Object] = []
    for number, data in documents(source):
        if not _is_trajectory(data):
            source.bad(number, "not a SWE-agent trajectory: neither history nor trajectory steps")
            continue
        conversations.extend(_conversations(source, data))
        rests.append(rest_of(data, "history"))
    several = len(rests) > 1
    if several:
        conversations = [Conversation(c.log, "sample" if c.kind == "main" else c.kind) for c in conversations]
    meta: Object = {"documents": list(rests)} if several else (rests[0] if rests else {})
    return transcript(NAME, source, conversations, meta=meta)


def _conversations(source: Source, data: Object) -> Iterator[Conversation]:
    """The main agent's conversation, then those of further agents that share its history."""
    messages = items_at(data, "history") or _from_steps(objects_at(data, "trajectory"))
    by_agent: dict[str, list[tuple[int, Object]]] = {}
    for number, message in numbered_objects(source, messages, "message"):
        by_agent.setdefault(text_at(message, "agent"), []).append((number, message))
    kind: ConversationKind = "main"
    for agent, its in by_agent.items():
        log = Log(_head(data, agent), _entries(source, its, "main" if kind == "main" else f"agent:{agent}"))
        if len(log):
            yield Conversation(log, kind)
            kind = "sidechain"


def _head(data: Object, agent: str) -> Head:
    replay = arguments(data.get("replay_config"))  # in some versions JSON in a string
    info = object_at(data, "info")
    return Head(
        model=text_at(replay, "agent", "model", "name") or None,
        name=agent,
        extra={key: info[key] for key in ("exit_status", "model_stats", "submission") if key in info},
    )


def _from_steps(steps: list[Object]) -> list[Object]:
    """The history rebuilt from the steps: what the first request held, then each response and its observation."""
    first = objects_at(steps[0], "query") or objects_at(steps[0], "messages") if steps else []
    asked = next(
        (place for place, message in enumerate(first) if message.get("role") == "assistant" and not message.get("is_demo")), len(first)
    )
    messages = first[:asked]
    for step in steps:
        response = step.get("response") or step.get("thought")
        messages.append({"role": "assistant", "content": response, "tool_calls": step.get("tool_calls")})
        ids = step.get("tool_call_ids")
        messages.append({"role": "tool" if ids else "user", "content": step.get("observation"), "tool_call_ids": ids})
    return messages


def _entries(source: Source, messages: list[tuple[int, Object]], query_source: str) -> Iterator[Entry]:
    ids = Ids("m")
    answered = False
    for number, message in messages:
        demo = message.get("is_demo") is True
        role = message.get("role")
        content, bare = content_blocks(message.get("content"))
        if role == "assistant":
            id = ids()
            blocks: tuple[Block, ...] = (*thinking_blocks(message), *content, *chat_calls(message.get("tool_calls")))
            yield Entry(
                id=id,
                kind="assistant",
                blocks=blocks,
                api_id=id,
                source=query_source,
                meta=demo,
                bare=bare and blocks == content,
                line=number,
            )
            answered = answered or not demo
        elif role == "tool":
            yield Entry(id=ids(), kind="user", blocks=_results(message, content, bare), source=query_source, meta=demo, line=number)
        elif role == "user":
            # The first message is the task; what follows the first answer is what the environment printed.
            yield Entry(id=ids(), kind="user", blocks=content, source=query_source, meta=demo or answered, bare=bare, line=number)
        elif role in ("system", "developer"):
            yield Entry(id=ids(), kind="system", blocks=content, source=query_source, bare=bare, line=number)
        else:
            source.bad(number, f"message {number} has the role {role!r}")


def _results(message: Object, content: tuple[Block, ...], bare: bool) -> tuple[Block, ...]:
    """A result for each call that the message answers. One text for several calls goes to the first of them."""
    wanted = items_at(message, "tool_call_ids") or [dig(message, "tool_call_id")]
    whole = text_at(message, "content") if bare else content
    return (
        tuple(ToolResult(id, whole if place == 0 else "") for place, id in enumerate(id for id in wanted if isinstance(id, str))) or content
    )
