"""Anthropic's Messages API: create, count_tokens and models (facts: API sections 1 to 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .accounts import Iteration, Record, price_of
from .asked import BINDING_BETA, ON_DEMAND_BETA, THRESHOLD_BETA, Asked, check_headers, read_asked
from .cache import Looked, PromptCache, Used, line_of
from .compose import Composed, compose
from .engine import Engine
from .prompt import Prompt, prompt_of
from .refusal import Object, invalid, too_long
from .script import Reply
from .seals import Carried, digest_of, sealed
from .structure import check_compaction_blocks, check_countable, check_structure
from .thinking import Checked, base_of, check_thinking
from .world import World

TRUNCATION_BETA = "model-context-window-exceeded-2025-08-26"
DEFAULT_TRIGGER = 150_000
_NOTHING = Used(0, 0, 0, 0)


class Read(NamedTuple):
    """A request that is legal, and the prompt it makes."""

    asked: Asked
    checked: Checked
    prompt: Prompt


class MessagesApi:
    """The endpoints of one simulator."""

    def __init__(self, world: World, engine: Engine) -> None:
        self._world = world
        self._engine = engine
        self._cache = PromptCache(world.clock)

    def read(self, record: Record, headers: Mapping[str, str], data: bytes, *, counting: bool = False) -> Read:
        """The request with every rule checked that needs no model. Raises Refused."""
        check_headers(self._world, headers)
        asked = read_asked(self._world, headers, data, counting=counting)
        record.model, record.body, record.betas = asked.body["model"], asked.sent, tuple(sorted(asked.betas))
        record.messages = [message.value for message in asked.messages]
        check_structure(asked)
        if counting:
            check_countable(asked)
        compacted_at = check_compaction_blocks(asked)
        checked = check_thinking(asked, self._world.new_account, compacted_at)
        return Read(asked, checked, prompt_of(asked, checked, compacted_at))

    def count(self, record: Record, headers: Mapping[str, str], data: bytes) -> Object:
        """The answer of count_tokens."""
        read = self.read(record, headers, data, counting=True)
        answer: Object = {"input_tokens": read.prompt.tokens}
        if read.asked.edits:
            answer["context_management"] = {"original_input_tokens": read.prompt.original_tokens}
        return answer

    async def create(self, record: Record, headers: Mapping[str, str], data: bytes, *, refuse: bool) -> Object:
        """The message that answers a request, its accounts written into ``record``. ``refuse``: the model refuses. Raises Refused."""
        read = self.read(record, headers, data)
        asked = read.asked
        _check_window(asked, read.prompt.tokens)
        if asked.on_demand is not None:
            return await self._summarize(record, read, refuse)
        edit = next((edit for edit in asked.edits if edit["type"] == "compact_20260112"), None)
        if edit is not None and read.prompt.tokens >= (edit.get("trigger") or {}).get("value", DEFAULT_TRIGGER):
            return await self._compact_and_go_on(record, read, edit, refuse)
        line = line_of(asked, read.prompt)
        looked = self._cache.look(line, asked.limits.model.cache)
        reply = await self._ask(read, record.messages, read.prompt.tokens, refuse)
        composed = compose(self._world, asked, read.checked, reply, read.prompt.tokens)
        self._cache.write(looked)
        parts = (Iteration("message", looked.used, composed.output),)
        message = self._message(read, composed, parts)
        wanted = asked.body.get("diagnostics")
        if isinstance(wanted, dict):
            message["diagnostics"] = self._cache.diagnose(line, asked.body["model"], wanted)
        self._cache.remember(message["id"], line, asked.body["model"])
        return self._account(record, read, message, composed, parts)

    async def _ask(self, read: Read, messages: Sequence[Object], tokens: int, refuse: bool, *, instructions: str | None = None) -> Reply:
        """What the model says. ``instructions``: what is wanted of a summary; None where it is an ordinary turn."""
        if refuse:
            return Reply(stop_reason="refusal")
        if read.asked.max_tokens == 0:
            return Reply(stop_reason="max_tokens")
        return await self._engine.ask(
            api="messages",
            purpose="turn" if instructions is None else "compaction",
            instructions=instructions or "",
            model=read.asked.body["model"],
            system="\n".join(str(block.value["text"]) for block in read.asked.system),
            messages=messages,
            tools=[tool.value for tool in read.asked.tools],
            max_tokens=read.asked.max_tokens,
            input_tokens=tokens,
        )

    # --- the server's own compaction

    async def _summarize(self, record: Record, read: Read, refuse: bool) -> Object:
        """On demand: one signed block, or nothing."""
        asked = read.asked
        said = [block for message in asked.messages for block in message.blocks if block.kind != "compaction"]
        if not said:
            raise invalid("messages: there is nothing to summarize", "compaction_nothing_to_summarize")
        looked = self._look(read, read.prompt)
        wanted = str((asked.on_demand or {}).get("instructions") or "")
        reply = await self._ask(read, record.messages, read.prompt.tokens, refuse, instructions=wanted)
        composed = compose(self._world, asked, read.checked, reply, read.prompt.tokens)
        self._cache.write(looked)
        text = _summary_in(composed)
        if text is None:
            composed = composed._replace(content=[])
        else:
            carried = Carried(digest_of(text), read.checked.end, base_of(asked), asked.messages[-1].role)
            block = {"type": "compaction", "content": text, "signature": sealed(carried)}
            composed = composed._replace(content=[block], stop_reason="compaction")
        parts = (Iteration("compaction", looked.used, composed.output),)
        return self._account(record, read, self._message(read, composed, parts), composed, parts)

    async def _compact_and_go_on(self, record: Record, read: Read, edit: Object, refuse: bool) -> Object:
        """Over the threshold: a summary of everything, and the answer behind it; a failed summary is a block without content."""
        asked = read.asked
        looked = self._look(read, read.prompt)
        wanted = str(edit.get("instructions") or "")
        said = await self._ask(read, record.messages, read.prompt.tokens, refuse, instructions=wanted)
        summary = compose(self._world, asked, read.checked, said, read.prompt.tokens)
        self._cache.write(looked)
        first = Iteration("compaction", looked.used, summary.output)
        text = _summary_in(summary)
        if text is None:
            block: Object = {"type": "compaction", "content": None}
            prompt, prefix = read.prompt, None
        else:
            prefix = digest_of(text + base_of(asked))
            carried = Carried(digest_of(text), prefix, base_of(asked), "assistant")
            block = {"type": "compaction", "content": text, "encrypted_content": sealed(carried)}
            facts = asked.limits.reader.block(block, "assistant")
            fixed = sum(part.tokens for part in (*asked.tools, *asked.system))
            prompt = read.prompt._replace(blocks=[facts], tokens=fixed + facts.tokens, images=False)
        if edit.get("pause_after_compaction") and text is not None:
            composed = Composed([block], "compaction", None, 0, 0)
            parts: tuple[Iteration, ...] = (first,)
        else:
            left = record.messages if text is None else [{"role": "assistant", "content": [block]}]
            again = self._look(read, prompt)
            reply = await self._ask(read, left, prompt.tokens, refuse)
            composed = compose(self._world, asked, read.checked, reply, prompt.tokens, prefix)
            self._cache.write(again)
            composed = composed._replace(content=[block, *composed.content])
            parts = (first, Iteration("message", again.used, composed.output))
        return self._account(record, read, self._message(read, composed, parts), composed, parts)

    def _look(self, read: Read, prompt: Prompt) -> Looked:
        return self._cache.look(line_of(read.asked, prompt), read.asked.limits.model.cache)

    # --- the answer

    def _message(self, read: Read, composed: Composed, parts: Sequence[Iteration]) -> Object:
        asked = read.asked
        message: Object = {
            "id": self._world.next_id("msg"),
            "type": "message",
            "role": "assistant",
            "model": asked.body["model"],
            "content": composed.content,
            "stop_reason": composed.stop_reason,
            "stop_sequence": composed.stop_sequence,
            "usage": _usage(asked, composed, parts),
        }
        if asked.body.get("context_management") is not None:
            message["context_management"] = {"applied_edits": list(read.prompt.applied)}
        if BINDING_BETA in asked.betas and asked.limits.model.thinking != "none":
            message["input_transformations"] = list(read.checked.reports)
        return message

    def _account(self, record: Record, read: Read, message: Object, composed: Composed, parts: tuple[Iteration, ...]) -> Object:
        record.iterations, record.thinking = parts, composed.thinking
        record.usd = price_of(read.asked.limits.model, parts)
        record.stop_reason, record.answer = composed.stop_reason, message
        record.applied_edits = read.prompt.applied
        return message


def _check_window(asked: Asked, tokens: int) -> None:
    window, limit = asked.limits.model.window, asked.limits.model.prompt_limit
    if tokens > limit:
        raise too_long(tokens, limit)
    if tokens + asked.max_tokens > window and not asked.limits.truncates and TRUNCATION_BETA not in asked.betas:
        raise invalid(
            f"input length and `max_tokens` exceed context limit: {tokens} + {asked.max_tokens} > {window}, "
            "decrease input length or `max_tokens` and try again"
        )


def _summary_in(composed: Composed) -> str | None:
    """The text of a summary that was finished; None where a tool was called, or it was cut off, refused or empty."""
    texts = [str(part["text"]) for part in composed.content if part["type"] == "text"]
    return "\n".join(texts) if composed.stop_reason in ("end_turn", "stop_sequence") and texts else None


def _parts_of(used: Used) -> Object:
    return {
        "input_tokens": used.fresh,
        "cache_creation_input_tokens": used.written_5m + used.written_1h,
        "cache_read_input_tokens": used.read,
        "cache_creation": {"ephemeral_5m_input_tokens": used.written_5m, "ephemeral_1h_input_tokens": used.written_1h},
    }


def _usage(asked: Asked, composed: Composed, parts: Sequence[Iteration]) -> Object:
    message = next((part for part in parts if part.kind == "message"), None)
    usage = _parts_of(message.used if message else _NOTHING)
    usage |= {"output_tokens": message.output if message else 0, "service_tier": "standard"}
    if message is not None:
        usage["output_tokens_details"] = {"thinking_tokens": composed.thinking}
    if asked.betas & {THRESHOLD_BETA, ON_DEMAND_BETA}:
        usage["iterations"] = [{"type": part.kind, **_parts_of(part.used), "output_tokens": part.output} for part in parts]
    return usage
