"""What is carried over a compaction by code, never left to a summary's prose (C6): the last plan, background tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..core.entries import Entry
from ..core.messages import JSON, Object, ToolUse
from .calls import Call, one_line
from .spoken import Unit

ITEM_CHARS = 300
_LISTS = ("todos", "plan", "items", "tasks", "todo_list", "todoList", "newTodos")
_TEXTS = ("content", "step", "subject", "title", "text", "description", "task", "name")
_CLOSED = frozenset(["completed", "complete", "done", "cancelled", "canceled", "deleted", "finished", "closed"])
_CHECK_LIST = re.compile(r"^\s*[-*] \[([ xX~-])\] (.+)$", re.M)
_STARTED = re.compile(
    r"(?:running in (?:the )?background|launched|started in (?:the )?background|[Pp]rocess running)[^\n]{0,40}?"
    r"\b(?:session ID|ID|id|agentId)[: ]+([\w-]{2,60})|\bagent launched[^\n]{0,200}\nagentId: ([\w-]{4,60})"
)
_ENDED = re.compile(r"completed|killed|failed|stopped|exited|finished|terminated|Exit code|exit code", re.I)
_OVER = _CLOSED | {"failed", "killed", "stopped", "exited", "ended", "error", "terminated"}
_LOOKED_AT = 2_000


class Item(NamedTuple):
    """One item of a plan; ``state`` in the words of its tool."""

    text: str
    state: str

    @property
    def is_open(self) -> bool:
        """Whether it is still to be done."""
        return self.state.lower() not in _CLOSED


class Task(NamedTuple):
    """A background task or agent that runs, or that was started and not seen to end. ``started_by``: the call, or the task."""

    id: str
    started_by: str
    status: str = "started"


def plan_of(entries: Sequence[Entry]) -> list[Item]:
    """The last state of the plan that the assistant kept with a tool, or as a check list in a call; empty where it kept none."""
    whole: list[Item] = []
    single: dict[str, Item] = {}
    for entry in entries:
        for block in entry.blocks:
            if isinstance(block, ToolUse):
                items = _items(block)
                if items:
                    whole, single = items, {}
                elif isinstance(block.input, dict):
                    _take_single(block.name.lower(), block.input, single)
    return whole + list(single.values())


def _items(call: ToolUse) -> list[Item]:
    name = call.name.lower()
    if not isinstance(call.input, dict):
        return []
    for key in _LISTS:
        value = call.input.get(key)
        if isinstance(value, list):
            items = [item for part in value if (item := _item(part)) is not None]
            if items and ("todo" in name or "plan" in name or "task" in name):
                return items
        elif isinstance(value, str) and ("todo" in name or "plan" in name) and (checked := _checked(value)):
            return checked
    progress = call.input.get("task_progress")
    return _checked(progress) if isinstance(progress, str) else []


def _item(value: JSON) -> Item | None:
    if not isinstance(value, dict):
        return None
    text = next((found for key in _TEXTS if isinstance(found := value.get(key), str) and found), None)
    state = value.get("status", value.get("state", ""))
    return None if text is None else Item(one_line(text, ITEM_CHARS), state if isinstance(state, str) else "")


def _checked(text: str) -> list[Item]:
    states = {" ": "pending", "x": "completed", "X": "completed"}
    return [Item(one_line(item, ITEM_CHARS), states.get(mark, "in progress")) for mark, item in _CHECK_LIST.findall(text)]


def _take_single(name: str, given: Object, single: dict[str, Item]) -> None:
    """Tools that make and change one item a call: they number their items from 1."""
    status = given.get("status")
    if name == "taskcreate" and (item := _item(given)) is not None:
        single[str(len(single) + 1)] = Item(item.text, "pending")
    elif name == "taskupdate" and isinstance(status, str):
        id = str(given.get("taskId", ""))
        if id in single:
            single[id] = Item(single[id].text, status)


def background_of(calls: Sequence[Call], units: Sequence[Unit], made: dict[int, str] | None = None) -> list[Task]:
    """The background tasks and agents that were started and not seen to end, in order. ``made``: ids found in the units at an
    earlier time, which need not be looked for again."""
    made = {} if made is None else made
    running: dict[str, Task] = {}
    by_result = {call.result: call for call in calls if call.result is not None}
    for i, unit in enumerate(units):
        if unit.voice not in ("result", "harness"):
            continue
        text = unit.text[:_LOOKED_AT]
        named = [id for id in running if id in text or _asked(by_result.get(i), units, id)]
        if named and _ENDED.search(text):
            for id in named:
                del running[id]
        id = _started(i, text, made) if unit.voice == "result" else ""
        if id:
            call = by_result.get(i)
            running[id] = Task(id, f"{call.name}: {call.subject}" if call else "")
    return list(running.values())


def _started(unit: int, text: str, made: dict[int, str]) -> str:
    """The id of the task that a result says was started; empty where it says nothing of one."""
    id = made.get(unit)
    if id is None:
        started = _STARTED.search(text) if "ackground" in text or "unning" in text or "gentId" in text else None
        id = made[unit] = "" if started is None else started[1] or started[2]
    return id


def running_of(registry: Sequence[tuple[str, str, str]]) -> list[Task]:
    """The tasks of a registry (id, task, status) that have not ended, word for word."""
    return [Task(id, task, status) for id, task, status in registry if status.lower() not in _OVER]


def _asked(call: Call | None, units: Sequence[Unit], id: str) -> bool:
    """Whether a call's input named a task."""
    return call is not None and id in (text := units[call.unit].text[:_LOOKED_AT]) and id in text.split()
