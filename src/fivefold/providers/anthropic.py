"""Models behind Anthropic's official SDK, for the query loop and for summaries (V1, V2): sync and async, streamed.

The SDK's own retries are switched off: the loop decides what is worth another try. Whatever the SDK raises for a refusal or a broken
connection comes back as a ``Rejection``; what else it raises is the caller's mistake, and is raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..calling import Call, Reply
from ..core.actions import Send
from ..core.entries import Entry
from ..core.events import Summarized, SummaryFailed
from ..core.levels.server_edits import EDITING_BETA
from ..core.messages import JSON, Object, Text
from ..core.rejection import Rejection
from ..core.repair import Request, outgoing
from ..errors import SummaryError
from ..summarize.flow import Ask
from ..summarize.native import read_answer, request_for
from . import anthropic_reply, sdk
from . import anthropic_wire as wire
from .anthropic_marks import CacheEdits, Memory
from .anthropic_models import lowest_thinking

try:
    import anthropic
except ImportError as error:
    raise ImportError("the Anthropic SDK is not installed: pip install 'fivefold[anthropic]'", name="anthropic") from error

MOST_UNSTREAMED = 21_333
"""``max_tokens`` from which on the SDK refuses to wait for a whole answer; such a request is streamed and put together here."""
SUMMARY_TOKENS = 20_000
"""Asked for of the provider's own compaction, thinking included: what W1 reserves for a summary."""


class _Anthropic(sdk.SDKModel):
    """What both kinds share.

    ``model``: the name for summaries and counts that are asked before the loop has sent anything. ``settings``: further arguments of
    ``messages.create``, such as ``thinking`` or ``metadata``. ``stream``: whether parts come as they arrive. ``cached``: put cache
    marks. ``ttl``: their lifetime, ``5m`` by default. ``betas``: headers for what the settings use. ``foreign``: the conversation was
    recorded in another provider's format (``Setup.foreign``). ``cache_edits``: how edits of the cache are written, where the provider
    has such (M3).

    Raises TypeError for a client of the other kind.
    """

    _is_async = False

    def __init__(
        self,
        client: Any,
        *,
        model: str | None = None,
        settings: Mapping[str, JSON] | None = None,
        stream: bool = True,
        cached: bool = True,
        ttl: str | None = None,
        betas: Sequence[str] = (),
        foreign: bool = False,
        cache_edits: CacheEdits | None = None,
    ) -> None:
        super().__init__(client, model, stream, is_async=self._is_async)
        self.style = wire.Style(dict(settings or {}), cached, ttl, cache_edits)
        self.betas, self.foreign = tuple(betas), foreign

    @property
    def cached_edits(self) -> bool:
        """Whether the provider's cache can be edited (M3): for ``Setup.cached_edits``."""
        return self.style.edits is not None

    # --- requests

    def _request(self, call: Call) -> sdk.Sent:
        thread = self._thread(call)
        memory: Memory = thread.memory or Memory()
        sent = wire.request(call, self.style, memory)
        thread.last, thread.memory = call, memory
        most = sent.body.get("max_tokens")
        return self._sent(sent, streamed=self.stream or (isinstance(most, int) and most > MOST_UNSTREAMED))

    def _sent(self, sent: wire.Sent, *, streamed: bool) -> sdk.Sent:
        betas = list(dict.fromkeys((*self.betas, *sent.betas)))
        body: dict[str, Any] = {**sent.body, "stream": streamed}
        if betas:
            return sdk.Sent(self.client.beta.messages.create, {**body, "betas": betas}, streamed)
        return sdk.Sent(self.client.messages.create, body, streamed)

    def _outgoing(self, entries: Sequence[Entry], model: str) -> Request:
        found = sdk.known(model)
        return outgoing(list(entries), family="anthropic", foreign=self.foreign, limits=None if found is None else found.media)

    def _like_the_last(self, entries: Sequence[Entry], model: str, max_tokens: int | None) -> Call:
        """A call with what stands in front of every request of this conversation."""
        last = self._thread().last
        made = Call(request=self._outgoing(entries, model), send=Send(source="compact", max_tokens=max_tokens), model=model)
        if last is None:
            return made
        send = msgspec.structs.replace(
            made.send,
            edits=wire.without_compaction(last.send.edits),
            drop_thinking=last.send.drop_thinking,
            cache_edits=last.send.cache_edits,
        )
        return msgspec.structs.replace(made, send=send, tools=last.tools, system=last.system)

    def _asked(self, ask: Ask) -> sdk.Sent:
        name = self._name(ask.model)
        if ask.kind == "fork":
            call = self._like_the_last(ask.entries, name, ask.max_tokens)
            style = self.style._replace(settings=wire.fork_settings(self.style.settings))
            return self._sent(wire.request(call, style, self._thread().memory, fork=True), streamed=True)
        style = wire.Style(wire.direct_settings(self.style.settings, lowest_thinking(name)), cached=False)
        send = Send(source="compact", max_tokens=ask.max_tokens)
        call = Call(request=self._outgoing(ask.entries, name), send=send, model=name, system=(Text(ask.system),) if ask.system else ())
        return self._sent(wire.request(call, style), streamed=True)

    def _counting(self, entries: Sequence[Entry]) -> sdk.Doing[int | None]:
        call = self._like_the_last(entries, self._name(), None)
        call = msgspec.structs.replace(call, send=msgspec.structs.replace(call.send, edits=None, cache_edits=()))
        body, betas = wire.countable(wire.request(call, self.style._replace(cached=False, edits=None), fork=True))
        betas = tuple(dict.fromkeys((*self.betas, *betas)))
        arguments: dict[str, Any] = {**body, "betas": list(betas)} if betas else dict(body)
        found = yield sdk.Sent((self.client.beta if betas else self.client).messages.count_tokens, arguments)
        return None if isinstance(found, Rejection) else int(found.input_tokens)

    def _looking_up(self, name: str) -> sdk.Doing[sdk.Limits | None]:
        if not hasattr(self.client.beta, "models"):  # a platform's client
            return None
        found = yield sdk.Sent(self.client.beta.models.retrieve, {"model_id": name, "betas": [EDITING_BETA, wire.SIGNED_BETA]})
        data = None if isinstance(found, Rejection) else sdk.dumped(found)
        return None if data is None else _limits(data)

    def _compacting(self, entries: Sequence[Entry], instructions: str) -> sdk.Doing[Summarized | SummaryFailed]:
        """The provider's own compaction of these entries (L10)."""
        name = self._name()
        call = self._like_the_last(entries, name, SUMMARY_TOKENS)
        call = msgspec.structs.replace(call, send=msgspec.structs.replace(call.send, edits=None))
        sent = wire.request(call, self.style, self._thread().memory, fork=True)
        try:
            asked = request_for(entries, len(entries), sent.body, instructions=instructions, max_tokens=SUMMARY_TOKENS)
        except SummaryError as error:
            return SummaryFailed(why=str(error))
        body = {**asked.body, "messages": sent.body["messages"]}
        found: Reply | Rejection = yield self._sent(wire.Sent(body, (*sent.betas, wire.SIGNED_BETA)), streamed=True)
        if isinstance(found, Rejection):
            return SummaryFailed(why=f"the provider's own compaction was refused: {found.message}", calls=1)
        usage = anthropic_reply.all_windows(found.told)
        try:
            block = read_answer(found.blocks, found.stop_reason)
        except SummaryError as error:
            return SummaryFailed(why=str(error), calls=1, usage=usage)
        return Summarized(
            text="", method="native", block=block.data, calls=1, usage=usage, model=found.model or name, standing=asked.restate
        )

    # --- answers

    def _gathering(self) -> anthropic_reply.Gathered:
        return anthropic_reply.Gathered()

    def _whole(self, data: Object) -> Reply | Rejection:
        return anthropic_reply.reply(data)

    def _refusal(self, error: Exception) -> Rejection | None:
        if isinstance(error, anthropic.APIError):
            return rejection_of(error)
        # what a platform's client does not have, such as counting on Bedrock
        return Rejection(why="other", message=str(error)) if isinstance(error, anthropic.AnthropicError) else None


class AnthropicModel(_Anthropic, sdk.SyncModel):
    """A model for ``Agent``; its ``ask``, ``native`` and ``count`` are for ``Ports``. ``client``: an ``anthropic.Anthropic``."""

    def native(self, entries: Sequence[Entry], instructions: str = "") -> Summarized | SummaryFailed:
        """The provider's own compaction of these entries, in one signed block (L10): for ``Ports.native``."""
        return self._run(self._compacting(entries, instructions))


class AsyncAnthropicModel(_Anthropic, sdk.AsyncModel):
    """A model for ``AsyncAgent``. ``client``: an ``anthropic.AsyncAnthropic``; all else as for ``AnthropicModel``."""

    _is_async = True

    async def native(self, entries: Sequence[Entry], instructions: str = "") -> Summarized | SummaryFailed:
        """As ``AnthropicModel.native``."""
        return await self._run(self._compacting(entries, instructions))


def rejection_of(error: anthropic.APIError) -> Rejection:
    """What the SDK raised, as a refusal (V2): by the error's own type and code, never by its class, which inside of a stream says
    nothing (facts: API 4)."""
    if not isinstance(error, anthropic.APIStatusError):
        return Rejection(why="transient", message=f"{type(error).__name__}: {error}")
    told = sdk.told_of(error.body)
    details, name = told.get("details"), told.get("type")
    text = sdk.words_of(error.status_code, told.get("message") if told else error.body, error.response)
    return sdk.refusal_of(error.status_code, text, name if isinstance(name, str) else "", details, error.response)


def _limits(data: Object) -> sdk.Limits:
    window, most, able = data.get("max_input_tokens"), data.get("max_tokens"), data.get("capabilities")
    abilities: Object = able if isinstance(able, dict) else {}
    managed, compaction = abilities.get("context_management"), abilities.get("compaction")
    edits = tuple(key for key, value in managed.items() if _is_supported(value)) if isinstance(managed, dict) else ()
    kinds = ["threshold"] if "compact_20260112" in edits else []
    kinds += ["on_demand"] if _is_supported(compaction) else []
    return sdk.Limits(
        window=window if isinstance(window, int) and window > 0 else None,
        max_output=most if isinstance(most, int) and most > 0 else None,
        edits=tuple(edit.rpartition("_")[0] for edit in edits if edit != "compact_20260112"),
        compaction=tuple(kinds),
    )


def _is_supported(value: JSON) -> bool:
    return isinstance(value, dict) and value.get("supported") is True
