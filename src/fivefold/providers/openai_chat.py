"""Models behind OpenAI's official SDK, Chat Completions, for the query loop and for summaries (V1, V2): sync and async, streamed.

Also for the many servers that speak this API. Retries of the SDK are switched off: the loop decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..calling import Call, Reply
from ..core.entries import Entry
from ..core.messages import JSON, Object
from ..core.rejection import Rejection
from . import openai_chat_wire as wire
from . import sdk
from .openai_sdk import OpenAIModel, direct_settings, unchecked


class _Chat(OpenAIModel):
    """``limit``: the name of the field that holds the most output tokens; servers of older versions take ``max_tokens`` alone."""

    def __init__(
        self,
        client: Any,
        *,
        model: str | None = None,
        settings: Mapping[str, JSON] | None = None,
        stream: bool = True,
        foreign: bool = False,
        limit: str = "max_completion_tokens",
    ) -> None:
        super().__init__(client, model=model, settings=settings, stream=stream, foreign=foreign)
        self.limit = limit

    def _built(self, call: Call, settings: Mapping[str, JSON], *, streamed: bool) -> sdk.Sent:
        body = wire.request(call, settings, limit=self.limit, streamed=streamed)
        return sdk.Sent(self.client.chat.completions.create, unchecked(body, "messages", "tools"), streamed)

    def _lowest(self) -> Object:
        asked = self.settings.get("reasoning_effort")
        # only a model that was asked to reason takes the field; all of those take this value
        effort: Object = {} if asked is None else {"reasoning_effort": asked if asked in ("none", "minimal") else "low"}
        return {**direct_settings(self.settings), **effort}

    def _counting(self, entries: Sequence[Entry]) -> sdk.Doing[int | None]:
        yield from ()  # this API has no counter
        return None

    def _gathering(self) -> wire.Gathered:
        return wire.Gathered()

    def _whole(self, data: Object) -> Reply | Rejection:
        return wire.reply(data)


class OpenAIChatModel(_Chat, sdk.SyncModel):
    """A model for ``Agent``; its ``ask`` is for ``Ports``. ``client``: an ``openai.OpenAI``.
    The conversation's setup is not to be ``foreign``, or what this API's answers hold beside texts and calls is left behind."""


class AsyncOpenAIChatModel(_Chat, sdk.AsyncModel):
    """A model for ``AsyncAgent``. ``client``: an ``openai.AsyncOpenAI``; all else as for ``OpenAIChatModel``."""

    _is_async = True
