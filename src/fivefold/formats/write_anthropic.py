"""A conversation's view as a request of Anthropic's Messages API: ``{"system"?, "tools"?, "messages"}`` (Z4).

The messages are what ``outgoing`` makes of the view, so a provider takes them as they are. Blocks that this API has and
fivefold does not model go out as they came; those of another provider's own kinds are text. Tools of another provider are
written in this one's shape, but for those that it performs itself. Of cache marks at most four stay, those of the tools
giving way first (I5).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.entries import Head
from ..core.limits import MAX_CACHE_MARKS, is_marked
from ..core.messages import JSON, Object, Text, ToolResult, encode_block, encode_message
from ..core.repair import Request, outgoing
from ..core.turns import json_text
from ..core.view import View
from .write_common import ANTHROPIC_WIRES, to_json, tools_of, with_system


def render(head: Head, view: View) -> bytes:
    """The request as one JSON document. Raises InputError where a value in it is nested too deep to write."""
    request = outgoing(with_system(head, view), family="anthropic", foreign=_is_foreign(head))
    room = MAX_CACHE_MARKS - _marks(request)
    system = with_marks([_prompt(request, i) for i in range(len(request.system))], room)
    tools = with_marks(anthropic_tools(head), room - sum("cache_control" in block for block in system))
    out: Object = {}
    if system:
        out["system"] = list[JSON](system)
    if tools:
        out["tools"] = list[JSON](tools)
    out["messages"] = [encode_message(message) for message in request.messages]
    return to_json(out) + b"\n"


def anthropic_tools(head: Head) -> list[Object]:
    """The tools in Anthropic's shape: its own as they came."""
    return [_definition(*tool) for tool in tools_of(head.tools)] if _is_foreign(head) else list(head.tools)


def _definition(name: str, description: str, parameters: Object) -> Object:
    said: Object = {"description": description} if description else {}
    return {"name": name, **said, "input_schema": parameters}


def with_marks(objects: Sequence[Object], room: int) -> list[Object]:
    """The objects with the last ``room`` of their cache marks."""
    marked = [i for i, value in enumerate(objects) if "cache_control" in value]
    bare = set(marked[: max(0, len(marked) - max(0, room))])
    return [{k: v for k, v in value.items() if k != "cache_control"} if i in bare else value for i, value in enumerate(objects)]


def _prompt(request: Request, place: int) -> Object:
    """One block of the system prompt, which holds text only."""
    block = request.system[place]
    data = encode_block(block)
    return data if isinstance(block, Text) and isinstance(data, dict) else {"type": "text", "text": json_text(block)}


def _is_foreign(head: Head) -> bool:
    return head.wire not in ANTHROPIC_WIRES


def _marks(request: Request) -> int:
    """Cache marks in the messages."""
    blocks = [block for message in request.messages for block in message.blocks]
    parts = [part for block in blocks if isinstance(block, ToolResult) and isinstance(block.content, tuple) for part in block.content]
    return sum(is_marked(block) for block in [*blocks, *parts])
