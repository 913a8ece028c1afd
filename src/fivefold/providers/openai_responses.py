"""Models behind OpenAI's official SDK, Responses, for the query loop and for summaries (V1, V2, L10): sync and async, streamed.

Nothing is stored at the provider. Retries of the SDK are switched off: the loop decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..calling import Call, Reply
from ..core.entries import Entry
from ..core.events import Summarized, SummaryFailed
from ..core.messages import JSON, Object
from ..core.rejection import Rejection
from ..formats.common import openai_usage
from . import openai_responses_wire as wire
from . import sdk
from .openai_sdk import OpenAIModel, direct_settings, unchecked

_COUNTED = ("model", "input", "instructions", "tools", "tool_choice", "reasoning", "text", "truncation", "parallel_tool_calls", "timeout")
_COMPACTED = ("model", "input", "instructions", "prompt_cache_key", "prompt_cache_options", "service_tier", "timeout")


class _Responses(OpenAIModel):
    _family = "openai-responses"

    def _built(self, call: Call, settings: Mapping[str, JSON], *, streamed: bool) -> sdk.Sent:
        body = wire.request(call, settings, streamed=streamed)
        return sdk.Sent(self.client.responses.create, unchecked(body, "input", "tools"), streamed)

    def _lowest(self) -> Object:
        given = self.settings.get("reasoning")
        asked = given.get("effort") if isinstance(given, dict) else None
        # only a model that was asked to reason takes the field; all of those take this value
        effort: Object = {} if given is None else {"reasoning": {"effort": asked if asked in ("none", "minimal") else "low"}}
        return {**direct_settings(self.settings), **effort}

    def _body(self, entries: Sequence[Entry], keys: Sequence[str]) -> dict[str, Any]:
        body = wire.request(self._like_the_last(entries, self._name()), self.settings, streamed=False)
        return unchecked({key: body[key] for key in keys if key in body}, "input", "tools")

    def _counting(self, entries: Sequence[Entry]) -> sdk.Doing[int | None]:
        found = yield sdk.Sent(self.client.responses.input_tokens.count, self._body(entries, _COUNTED))
        return None if isinstance(found, Rejection) else int(found.input_tokens)

    def _compacting(self, entries: Sequence[Entry]) -> sdk.Doing[Summarized | SummaryFailed]:
        """The provider's own compaction of these entries (L10): all user messages, and one item that cannot be read."""
        found = yield sdk.Sent(self.client.responses.compact, self._body(entries, _COMPACTED))
        if isinstance(found, Rejection):
            return SummaryFailed(why=f"the provider's own compaction was refused: {found.message}", calls=1)
        data = sdk.dumped(found) or {}
        usage, output = openai_usage(data.get("usage")), data.get("output")
        if not isinstance(output, list) or not wire.compaction_in(wire.blocks_of(output)):
            return SummaryFailed(why="the provider's own compaction gave no compaction item", calls=1, usage=usage)
        return Summarized(text="", method="native", block=wire.compacted(output), calls=1, usage=usage, model=self._name())

    def _gathering(self) -> wire.Gathered:
        return wire.Gathered()

    def _whole(self, data: Object) -> Reply | Rejection:
        return wire.reply(data)


class OpenAIResponsesModel(_Responses, sdk.SyncModel):
    """A model for ``Agent``; its ``ask``, ``native`` and ``count`` are for ``Ports``. ``client``: an ``openai.OpenAI``.
    The conversation's setup is not to be ``foreign``, or what this API's answers hold beside texts and calls is left behind."""

    def native(self, entries: Sequence[Entry]) -> Summarized | SummaryFailed:
        """The provider's own compaction of these entries (L10): for ``Ports.native``."""
        return self._run(self._compacting(entries))


class AsyncOpenAIResponsesModel(_Responses, sdk.AsyncModel):
    """A model for ``AsyncAgent``. ``client``: an ``openai.AsyncOpenAI``; all else as for ``OpenAIResponsesModel``."""

    _is_async = True

    async def native(self, entries: Sequence[Entry]) -> Summarized | SummaryFailed:
        """As ``OpenAIResponsesModel.native``."""
        return await self._run(self._compacting(entries))
