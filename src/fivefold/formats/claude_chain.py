"""Which lines of a Claude Code file make which conversation.

Lines name their parent. One API response is written as several lines, one a block; parallel calls fork there, and the
answers hang off different ones of them. So lines are first gathered into units: all lines of one response (one
``message.id``), the results that answer it and what the harness attached to these; every other line is a unit of its
own. Between units the links are a tree: the path to the last leaf is the conversation that goes on, what hangs beside it
was left. Nothing here recurses: a chain may be 100,000 lines long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..core.transcript import ConversationKind
from .claude_compact import compaction_of, kept_places
from .claude_lines import Lines, Node

MAX_TRIES = 20
"""How often links on circles are taken back before all that lead down are: each time may close a new circle (H4)."""


class Unit:
    """Lines that belong together: places in ``Lines.nodes``."""

    __slots__ = ("api_id", "children", "members", "parent", "real", "strand")

    def __init__(self, parent: int, first: int, api_id: str | None, strand: str) -> None:
        self.parent = parent
        self.members = [first]
        self.api_id = api_id
        self.strand = strand
        """Empty for the main conversation, else the name of the sub-agent it is of."""
        self.children: list[int] = []
        self.real = False
        """Whether it holds a message that a leaf may be: said by the agent or to it, not by the harness or a team."""


class Path(NamedTuple):
    """A conversation: units in order, and where it left another one."""

    units: list[int]
    kind: ConversationKind
    fork: int
    """The unit that it forked off from; -1 where it begins on its own."""


@dataclass(slots=True)
class Links:
    """Parents by place. ``spare``: what a line would follow if its own link can't be used. -1: none."""

    up: list[int] = field(default_factory=list)
    spare: list[int] = field(default_factory=list)
    forward: list[int] = field(default_factory=list)
    """Lines whose parent stands behind them in the file."""


def link(lines: Lines) -> Links:
    """The parent of each line. A compaction's boundary follows what it compacted, and what names a preserved line
    as its parent follows the summary, so each history is one chain. A link to what is not in the file becomes one to
    the line before (files lose progress lines). The links have no cycle."""
    links = Links()
    place: dict[str, int] = {}
    preserved: dict[str, int] = {}  # uuid of a kept line -> place of the newest boundary or summary that kept it
    last_main = -1
    last_of_agent: dict[str, int] = {}
    newest: list[str] = []
    newest_at = -1
    unresolved: list[int] = []
    for i, node in enumerate(lines.nodes):
        spare = (last_of_agent.get(node.agent_id, -1) if node.agent_id else -1) if node.is_sidechain else last_main
        wanted = node.logical_parent_uuid if node.is_boundary else node.parent_uuid
        parent = -1 if wanted is None else preserved.get(wanted, place.get(wanted, -2))
        if wanted is None:
            parent = spare if node.is_boundary or node.is_compact_summary or node.is_sidechain else -1
        if parent == -2 or (parent >= 0 and bool(lines.nodes[parent].is_sidechain) != bool(node.is_sidechain)):
            unresolved.append(i)
            parent = spare
        links.up.append(parent)
        links.spare.append(spare)
        if node.is_boundary:
            newest = _preserved(node, lines, links.up, place)
            preserved.update(dict.fromkeys(newest, i))
            newest_at = i
        elif node.is_compact_summary and parent >= 0 and parent == newest_at:
            preserved.update(dict.fromkeys(newest, i))
        place[node.uuid or ""] = i
        if not node.is_sidechain:
            last_main = i
        elif node.agent_id:
            last_of_agent[node.agent_id] = i
    _resolve(lines, links, unresolved)
    return links


def _preserved(node: Node, lines: Lines, up: list[int], place: dict[str, int]) -> list[str]:
    """Uuids whose children, in what comes behind, follow the summary of this boundary."""
    compaction = compaction_of(node)
    if not compaction.tail and not compaction.uuids:
        return []
    places = kept_places(node, up, place)
    return [*(lines.nodes[at].uuid or "" for at in places), *compaction.uuids, *(u for u in (compaction.head, compaction.tail) if u)]


def _resolve(lines: Lines, links: Links, unresolved: list[int]) -> None:
    """Links to lines further down, and to nowhere."""
    for i in unresolved:
        node = lines.nodes[i]
        wanted = (node.logical_parent_uuid if node.is_boundary else node.parent_uuid) or ""
        at = lines.place.get(wanted, -1)
        if at > i and bool(lines.nodes[at].is_sidechain) == bool(node.is_sidechain):
            links.up[i] = at
            links.forward.append(i)
        elif not (node.is_sidechain and at >= 0):  # a sub-agent's first line may name the call that started it
            why = "is itself" if at == i else "is a sub-agent's line" if at >= 0 else "is not in the file"
            lines.repair(node.number, f"its parent {wanted} {why}: {_follows(lines, links, i)}")
    _break_circles(lines, links)


def _follows(lines: Lines, links: Links, i: int) -> str:
    return f"taken to follow line {lines.nodes[links.up[i]].number}" if links.up[i] >= 0 else "taken as a beginning"


def _break_circles(lines: Lines, links: Links) -> None:
    """Take back the links to lines further down that a circle goes through; every circle has one."""
    for tries in range(MAX_TRIES, -1, -1):
        on_circle = _on_circles(links.up) if links.forward else set()
        if not on_circle:
            return
        bad = [i for i in links.forward if i in on_circle or not tries]
        for i in bad:
            below = lines.nodes[links.up[i]].number
            links.up[i] = links.spare[i]
            follows = _follows(lines, links, i)
            lines.repair(lines.nodes[i].number, f"its parent, line {below}, stands below it and leads back to it: {follows}")
        taken = set(bad)
        links.forward[:] = [i for i in links.forward if i not in taken]


def _on_circles(up: list[int]) -> set[int]:
    """The places that their own links lead back to."""
    seen = [0] * len(up)  # 0: not yet, else the number of the walk that came by
    found: set[int] = set()
    for walk in range(1, len(up) + 1):
        i = walk - 1
        while i >= 0 and not seen[i]:
            seen[i] = walk
            i = up[i]
        if i >= 0 and seen[i] == walk:
            while i not in found:
                found.add(i)
                i = up[i]
    return found


def parents_first(links: Links) -> list[int]:
    """The places in an order in which every parent comes before its children; file order where that is one."""
    if not links.forward:
        return list(range(len(links.up)))
    order: list[int] = []
    done = [False] * len(links.up)
    for start in range(len(links.up)):
        walk: list[int] = []
        i = start
        while i >= 0 and not done[i]:
            done[i] = True
            walk.append(i)
            i = links.up[i]
        order.extend(reversed(walk))
    return order


class Tree:
    """The units of a file. ``unit_of``: unit of each line; of a line that makes no entry, that of what it follows."""

    def __init__(self, lines: Lines, makes_entry: list[bool]) -> None:
        self.nodes = lines.nodes
        self.links = link(lines)
        self.units: list[Unit] = []
        self.unit_of = [-1] * len(lines.nodes)
        self._siblings: dict[tuple[int, str], int] = {}
        for i in parents_first(self.links):
            up = self.links.up[i]
            above = self.unit_of[up] if up >= 0 else -1
            self.unit_of[i] = self._place(i, above) if makes_entry[i] else above
        self._live_below = [False] * len(self.units)
        for number in range(len(self.units) - 1, -1, -1):
            unit = self.units[number]
            if unit.parent >= 0:
                self.units[unit.parent].children.append(number)
                self._live_below[unit.parent] |= unit.real or self._live_below[number]

    def _place(self, i: int, above: int) -> int:
        node = self.nodes[i]
        api_id = node.message.id if node.type == "assistant" and node.message is not None else None
        at = self._home(node, api_id, above)
        if at >= 0:
            self.units[at].members.append(i)
        else:
            at = len(self.units)
            self.units.append(Unit(above, i, api_id, self._strand(node, above)))
            if api_id:
                self._siblings[above, api_id] = at
        if node.is_message and not node.is_meta and not node.team_name:
            self.units[at].real = True
        return at

    def _strand(self, node: Node, above: int) -> str:
        if not node.is_sidechain:
            return ""
        if node.agent_id:
            return node.agent_id
        return (self.units[above].strand if above >= 0 else "") or f"line {node.number}"

    def _home(self, node: Node, api_id: str | None, above: int) -> int:
        """The unit that a line joins; -1: it begins one."""
        if above < 0:
            return -1
        owner = self.units[above].api_id
        if api_id:
            return above if owner == api_id else self._siblings.get((above, api_id), -1)
        if owner is None or node.is_boundary or node.is_compact_summary:
            return -1
        if node.type == "user":
            return above if node.source_tool_use_id or answers(node) else -1
        return above if node.type == "attachment" else -1

    def paths(self) -> list[Path]:
        """All conversations, the one that goes on first, then the sub-agents', then what was left, each in the order
        of the file. Every unit is in one of them."""
        strands: dict[str, list[int]] = {"": []}
        for number, unit in enumerate(self.units):
            strands.setdefault(unit.strand, []).append(number)
        taken = [False] * len(self.units)
        found: list[Path] = []
        for strand, numbers in strands.items():
            leaf = self._leaf(numbers)
            if leaf >= 0:
                found.append(self._path(leaf, taken, "sidechain" if strand else "main"))
        rest: list[Path] = []
        for number in range(len(self.units) - 1, -1, -1):
            if not taken[number]:
                rest.append(self._path(number, taken, "branch"))
        return [*found, *reversed(rest)]

    def _leaf(self, strand: list[int]) -> int:
        """The last message of a strand that nothing follows, and on to the end of what the harness wrote behind it."""
        ends = [n for n in strand if self.units[n].real and not self._live_below[n]]
        if not ends:
            ends = [n for n in strand if any(self.nodes[i].is_message for i in self.units[n].members)]
        if not ends:
            return -1
        leaf = max(ends, key=lambda n: max(i for i in self.units[n].members if self.nodes[i].is_message))
        while self.units[leaf].children:
            leaf = max(self.units[leaf].children)
        return leaf

    def _path(self, leaf: int, taken: list[bool], kind: ConversationKind) -> Path:
        """From a leaf up to a beginning or to what is taken."""
        units: list[int] = []
        at = leaf
        while at >= 0 and not taken[at]:
            taken[at] = True
            units.append(at)
            at = self.units[at].parent
        units.reverse()
        return Path(units, kind, at)

    def in_order(self, units: list[int]) -> list[int]:
        """The places of the lines of some units: in each what the agent said, then the results, then the rest (I1, I2)."""
        order: list[int] = []
        for number in units:
            members = self.units[number].members
            order.extend(members if len(members) == 1 else sorted(members, key=self._rank))
        return order

    def _rank(self, i: int) -> tuple[int, int]:
        node = self.nodes[i]
        return (0 if node.type == "assistant" else 1 if node.type == "user" and answers(node) else 2, i)


def answers(node: Node) -> bool:
    """Whether a user line holds a tool result."""
    content = node.message.content if node.message is not None else None
    return isinstance(content, list) and any(isinstance(part, dict) and part.get("type") == "tool_result" for part in content)
