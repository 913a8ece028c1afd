"""What models behind OpenAI's official SDK share: forks, direct requests, and what its errors mean (V1, V2, L1)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..calling import Call
from ..core.actions import Send
from ..core.entries import Entry
from ..core.messages import JSON, Object, Text, is_thinking
from ..core.rejection import Rejection
from ..core.repair import Request, outgoing
from ..core.turns import Family
from ..formats.write_openai import NO_LIMITS
from ..summarize.flow import Ask
from . import sdk

try:
    import openai
except ImportError as error:
    raise ImportError("the OpenAI SDK is not installed: pip install 'fivefold[openai]'", name="openai") from error

_WINDOW_KEYS = ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens")
"""Under which servers of this API tell a model's window; OpenAI's own does not."""
_ERRORS = range(400, 600)


class OpenAIModel(sdk.SDKModel):
    """Base of both kinds of API.

    ``model``: the name for summaries and counts that are asked before the loop has sent anything. ``settings``: further arguments of
    ``create``, such as ``prompt_cache_key``. ``stream``: whether parts come as they arrive. ``foreign``: the conversation was recorded
    in another provider's format (``Setup.foreign``).

    Raises TypeError for a client of the other kind.
    """

    _is_async = False
    _family: Family = "other"

    def __init__(
        self,
        client: Any,
        *,
        model: str | None = None,
        settings: Mapping[str, JSON] | None = None,
        stream: bool = True,
        foreign: bool = False,
    ) -> None:
        super().__init__(client, model, stream, is_async=self._is_async)
        self.settings, self.foreign = dict(settings or {}), foreign

    @abstractmethod
    def _built(self, call: Call, settings: Mapping[str, JSON], *, streamed: bool) -> sdk.Sent:
        """The call of the SDK that sends this."""

    @abstractmethod
    def _lowest(self) -> Object:
        """The conversation's settings with which a direct request thinks least."""

    def _request(self, call: Call) -> sdk.Sent:
        self._thread(call).last = call
        return self._built(call, self.settings, streamed=self.stream)

    def _outgoing(self, entries: Sequence[Entry]) -> Request:
        return outgoing(list(entries), family=self._family, foreign=self.foreign, limits=NO_LIMITS)

    def _like_the_last(self, entries: Sequence[Entry], name: str, max_tokens: int | None = None) -> Call:
        """A call with what stands in front of every request of this conversation."""
        last = self._thread().last
        made = Call(request=self._outgoing(entries), send=Send(source="compact", max_tokens=max_tokens), model=name)
        return made if last is None else msgspec.structs.replace(made, tools=last.tools, system=last.system)

    def _asked(self, ask: Ask) -> sdk.Sent:
        name = self._name(ask.model)
        if ask.kind == "fork":
            return self._built(self._like_the_last(ask.entries, name, ask.max_tokens), fork_settings(self.settings), streamed=True)
        entries = [
            msgspec.structs.replace(entry, blocks=tuple([block for block in entry.blocks if not is_thinking(block)]))
            for entry in ask.entries
        ]
        send = Send(source="compact", max_tokens=ask.max_tokens)
        call = Call(request=self._outgoing(entries), send=send, model=name, system=(Text(ask.system),) if ask.system else ())
        return self._built(call, self._lowest(), streamed=True)

    def _looking_up(self, name: str) -> sdk.Doing[sdk.Limits | None]:
        found = yield sdk.Sent(self.client.models.retrieve, {"model": name})
        data = None if isinstance(found, Rejection) else sdk.dumped(found)
        if data is None:
            return None
        sizes = [size for key in _WINDOW_KEYS if isinstance(size := data.get(key), int) and not isinstance(size, bool) and size > 0]
        return sdk.Limits(sizes[0], None) if sizes else None

    def _refusal(self, error: Exception) -> Rejection | None:
        if isinstance(error, openai.APIError):
            return rejection_of(error)
        return Rejection(why="other", message=str(error)) if isinstance(error, openai.OpenAIError) else None


def unchecked(body: Object, *keys: str) -> dict[str, Any]:
    """Arguments with these fields handed to the SDK as they are to be sent: looking through them for what it has to convert takes it
    about a millisecond an item, of which a conversation has hundreds, and there is nothing to convert. Who watches the SDK's arguments
    finds them in ``extra_body``."""
    extra = body.get("extra_body")
    whole = {key: body[key] for key in keys if key in body}
    return {**body, **dict.fromkeys(whole, ()), "extra_body": {**(extra if isinstance(extra, dict) else {}), **whole}}


def fork_settings(settings: Mapping[str, JSON]) -> Object:
    """A conversation's settings for a fork: nothing that would cut or shape the answer."""
    found: Object = {key: value for key, value in settings.items() if key not in ("stop", "response_format", "n")}
    text = found.get("text")
    if isinstance(text, dict):
        found["text"] = {key: value for key, value in text.items() if key != "format"}
    return found


def direct_settings(settings: Mapping[str, JSON]) -> Object:
    """Of a conversation's settings those that a plain request for a text can have."""
    own = ("metadata", "service_tier", "safety_identifier", "user", "timeout", "extra_headers", "extra_query")
    return {key: settings[key] for key in own if key in settings}


def rejection_of(error: openai.APIError) -> Rejection:
    """What the SDK raised, as a refusal (V2)."""
    if isinstance(error, openai.APIConnectionError | openai.APIResponseValidationError):
        return Rejection(why="transient", message=f"{type(error).__name__}: {error}")
    if isinstance(error, openai.APIStatusError):
        return refusal_in(error.body, error.status_code, error.response)
    return refusal_in(error.body, 200, None)


def refusal_in(data: object, status: int, response: Any = None) -> Rejection:
    """An error object, or the body it stands in, as a refusal. Its code is its name; where that is a number it is the status that a
    gateway has got, which is what an error inside of a stream is known by."""
    told = sdk.told_of(data)
    code, kind = told.get("code"), told.get("type")
    if isinstance(code, int) and code in _ERRORS and status == 200:
        status = code
    name = code if isinstance(code, str) and code else kind
    message = told.get("message") if told else data
    text = sdk.words_of(status, message, response)
    return sdk.refusal_of(status, text, name if isinstance(name, str) else "", told, response)
