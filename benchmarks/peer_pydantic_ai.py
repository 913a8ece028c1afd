"""pydantic-ai-harness's compactions; the model that summarises is a function that answers at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

from pydantic_ai.messages import (  # type: ignore[import-not-found]
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters  # type: ignore[import-not-found]
from pydantic_ai.models.function import FunctionModel  # type: ignore[import-not-found]
from pydantic_ai.tools import RunContext  # type: ignore[import-not-found]
from pydantic_ai.usage import RunUsage  # type: ignore[import-not-found]
from pydantic_ai_harness.compaction import (  # type: ignore[import-not-found]
    ClearToolResults,
    SlidingWindowCompaction,
    SummarizingCompaction,
    TieredCompaction,
)

PACKAGE = "pydantic-ai-harness"
NEVER, NOW = 1 << 40, 1_000


def converted(messages: list[dict[str, Any]]) -> Iterator[Any]:
    """OpenAI's messages as pydantic-ai's."""
    names: dict[str, str] = {}
    for message in messages:
        text = message.get("content") or ""
        match message["role"]:
            case "assistant":
                calls = [(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in message.get("tool_calls", ())]
                names.update((id, name) for id, name, _ in calls)
                parts = [ToolCallPart(name, json.loads(arguments), id) for id, name, arguments in calls]
                yield ModelResponse(parts=[*([TextPart(text)] if text else []), *parts])
            case "tool":
                id = message["tool_call_id"]
                yield ModelRequest(parts=[ToolReturnPart(names[id], text, id)])
            case "system":
                yield ModelRequest(parts=[SystemPromptPart(text)])
            case _:
                yield ModelRequest(parts=[UserPromptPart(text)])


def cases(messages: list[dict[str, Any]]) -> dict[str, Callable[[], Callable[[], int | None]]]:
    """The hooks that run before each request, where nothing is due and where it is."""
    made = list(converted(messages))
    model = FunctionModel(lambda _messages, _info: ModelResponse(parts=[TextPart("A summary.")]))
    loop = asyncio.new_event_loop()

    def hook(strategy: Any) -> Callable[[], Callable[[], int | None]]:
        def prepare() -> Callable[[], int | None]:
            context = RunContext(deps=None, model=model, usage=RunUsage(), messages=list(made))
            parameters = ModelRequestParameters()
            request = ModelRequestContext(model=model, messages=list(made), model_settings=None, model_request_parameters=parameters)

            def call() -> int | None:
                after = loop.run_until_complete(strategy.before_model_request(context, request))
                return None if after is request else len(after.messages)

            return call

        return prepare

    tiers = [ClearToolResults(max_tokens=1), SummarizingCompaction(max_messages=1, keep_messages=20)]
    return {
        "check: SummarizingCompaction": hook(SummarizingCompaction(max_tokens=NEVER, keep_messages=20)),
        "check: ClearToolResults": hook(ClearToolResults(max_tokens=NEVER)),
        "clear: ClearToolResults": hook(ClearToolResults(max_tokens=NOW)),
        "full: SlidingWindowCompaction": hook(SlidingWindowCompaction(max_tokens=NOW, keep_messages=20)),
        "full: SummarizingCompaction": hook(SummarizingCompaction(max_tokens=NOW, keep_messages=20)),
        "full: TieredCompaction": hook(TieredCompaction(tiers=tiers, target_tokens=NOW)),
    }
