"""Signed thinking and the check that it stands where it was thought (facts: API section 1.2).

A signature says which model thought it, under which prefix (system prompt, tools, all earlier blocks but thinking) and which thinking
came before it. So thinking may be taken away from the start, from the end or altogether, but never out of the middle; and nothing in
front of it may be edited. A compaction block carries the prefix that it stands for: what is kept behind it unchanged stays valid.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from .asked import BINDING_BETA, Asked
from .facts import BlockFacts, MessageFacts
from .refusal import Object, invalid
from .seals import Carried, carried_by, chained, opened

_CHAINS: Final = 200_000
_KINDS: Final = ("thinking", "redacted_thinking")


class Checked(NamedTuple):
    """The outcome: blocks that are not shown to the model, what is reported of them, and what new thinking is bound to."""

    dropped: frozenset[tuple[int, int]]
    reports: tuple[Object, ...]
    prefix: str
    """The prefix of the turn that is asked for."""
    end: str
    """The digest of all there is: what a compaction block stands for."""
    last: str
    """The last thinking block of the request."""


def base_of(asked: Asked) -> str:
    """The digest of the system prompt and of the tools that are not loaded on demand."""
    running = blake2b(digest_size=16)
    for block in (*asked.system, *(tool for tool in asked.tools if not tool.value.get("defer_loading"))):
        running.update(block.digest)
    return running.hexdigest()


def check_thinking(asked: Asked, world_is_new: bool, compacted_at: tuple[int, int] | None) -> Checked:
    """Go through the conversation; ``compacted_at`` is where its last compaction block stands. Raises Refused where thinking is
    not what it was."""
    return _Walk(asked, world_is_new, compacted_at).run()


class _Walk:
    def __init__(self, asked: Asked, new_account: bool, compacted_at: tuple[int, int] | None) -> None:
        binding = asked.limits.model.thinking
        given = ((asked.body.get("thinking") or {}).get("block_binding") or {}).get("prefix_mismatch_behavior")
        self.asked = asked
        self.compacted_at = compacted_at
        self.enforced = binding == "bound" or (binding == "bound_by_account" and (new_account or given is not None))
        self.drops = given == "drop_block"
        self.base = base_of(asked)
        self.running = bytes.fromhex(self.base)
        self.turn = self.running
        self.last = ""
        self.broken = False
        self.dropped: set[tuple[int, int]] = set()
        self.reports: list[Object] = []
        self.latest = max((n for n, message in enumerate(asked.messages) if message.role == "assistant"), default=-1)

    def run(self) -> Checked:
        role, start = "", self.compacted_at[0] if self.compacted_at else 0
        for n, message in enumerate(self.asked.messages[start:], start):
            if message.role != role:
                self.turn = self.running
                role = message.role
            if message.plain:
                self._plain(message)
            else:
                self._blocks(n, message.blocks)
        turn = self.turn if role == "assistant" else self.running
        reports = self.reports if BINDING_BETA in self.asked.betas else []
        return Checked(frozenset(self.dropped), tuple(reports), turn.hex(), self.running.hex(), self.last)

    def _plain(self, message: MessageFacts) -> None:
        known = self.asked.limits.chains
        key = self.running + message.key
        found = known.get(key)
        if found is None:
            if len(known) > _CHAINS:
                known.clear()
            found = self.running
            for block in message.blocks:
                found = chained(found, block.digest)
            known[key] = found
        self.running = found

    def _blocks(self, n: int, blocks: Iterable[BlockFacts]) -> None:
        for m, block in enumerate(blocks):
            if self.compacted_at is not None and (n, m) <= self.compacted_at:
                if (n, m) == self.compacted_at:
                    self._restart(n, block)
            elif block.kind in _KINDS:
                self._thinking(n, m, block)
            else:
                self.running = chained(self.running, block.digest)

    def _restart(self, n: int, block: BlockFacts) -> None:
        """Behind a compaction block the prefix is the one that the block stands for."""
        found = carried_by(block.value)
        signed = block.value.get("signature") is not None
        if signed and found is None:
            token = block.value["signature"]
            intact = isinstance(token, str) and opened(token, Carried) is not None
            what = "compaction_content_mismatch" if intact else "compaction_signature_invalid"
            raise invalid(f"messages.{n}.content.0: Invalid `signature` in `compaction` block", what)
        if found is None:
            self.running = chained(bytes.fromhex(self.base), block.digest)
        else:
            same = found.base == self.base and not (signed and self._role_behind(n) in (found.last_role, "system"))
            self.running = bytes.fromhex(found.prefix)
            if not same:
                self.running = chained(self.running, b"edited" + self.base.encode())
        self.turn, self.last = self.running, ""

    def _role_behind(self, n: int) -> str:
        messages = self.asked.messages
        if len(messages[n].blocks) > 1:
            return messages[n].role
        return messages[n + 1].role if n + 1 < len(messages) else ""

    def _thinking(self, n: int, m: int, block: BlockFacts) -> None:
        at = f"messages.{n}.content.{m}"
        seal = block.seal
        if seal is None:
            raise invalid(f"{at}: Invalid `signature` in `{block.kind}` block")
        if not block.whole:
            if n == self.latest:
                raise invalid(
                    f"{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
                    "These blocks must remain as they were in the original response."
                )
            raise invalid(f"{at}: Invalid `signature` in `{block.kind}` block")
        fits = not self.broken and seal.prefix == self.turn.hex() and self.last in ("", seal.before)
        self.last = block.seal_id
        if seal.model != self.asked.limits.model.id:
            self.dropped.add((n, m))
            self._report("thinking_dropped", at, "model_binding_mismatch")
        elif not fits:
            self._misfit(n, m, block, at)

    def _misfit(self, n: int, m: int, block: BlockFacts, at: str) -> None:
        self.broken = True
        binds = self.asked.limits.model.thinking in ("bound", "bound_by_account")
        if self.enforced and not self.drops:
            text = (
                f"{at}: Invalid `signature` in `{block.kind}` block. The block is bound to a different conversation. Remove the block, "
                'or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
            )
            if BINDING_BETA not in self.asked.betas:
                text += f" That setting requires the `{BINDING_BETA}` value in the `anthropic-beta` header."
            raise invalid(text)
        if self.enforced:
            self.dropped.add((n, m))
            self._report("thinking_dropped", at, "prefix_binding_mismatch")
        elif binds:
            self._report("thinking_mismatch_allowed", at, "prefix_binding_mismatch")

    def _report(self, type: str, path: str, reason: str) -> None:
        self.reports.append({"type": type, "path": path, "reason": reason})
