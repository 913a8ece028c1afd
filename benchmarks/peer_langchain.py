"""LangChain's two middlewares; the model that summarises is a fake one that answers at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, SummarizationMiddleware  # type: ignore[import-not-found]
from langchain.agents.middleware.types import ModelRequest, ModelResponse  # type: ignore[import-not-found]
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel  # type: ignore[import-not-found]
from langchain_core.messages import AIMessage, convert_to_messages  # type: ignore[import-not-found]

PACKAGE = "langchain"
NEVER, NOW = 1 << 40, 1_000


def cases(messages: list[dict[str, Any]]) -> dict[str, Callable[[], Callable[[], int | None]]]:
    """The check where nothing is due, and the work where it is: clearing, summarising with the last 20 messages kept."""
    made = convert_to_messages(messages)
    for number, message in enumerate(made):
        message.id = f"m{number}"
    model = GenericFakeChatModel(messages=repeat(AIMessage("A summary.")))

    def summarize(trigger: int) -> Callable[[], int | None]:
        middleware = SummarizationMiddleware(model, trigger=("tokens", trigger), keep=("messages", 20), trim_tokens_to_summarize=None)

        def call() -> int | None:
            update = middleware.before_model({"messages": list(made)}, None)
            return None if update is None else len(update["messages"]) - 1

        return call

    def edit(trigger: int, *, at_least: int = 0) -> Callable[[], int | None]:
        middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=trigger, clear_at_least=at_least)])
        request = ModelRequest(model=model, messages=list(made), state={"messages": made}, runtime=None)
        sent: list[Any] = []

        def answer(edited: Any) -> Any:
            sent[:] = edited.messages
            return ModelResponse(result=[])

        def call() -> int | None:
            middleware.wrap_model_call(request, answer)
            return len(sent) if trigger == NOW else None

        return call

    return {
        "check: SummarizationMiddleware": lambda: summarize(NEVER),
        "check: ContextEditingMiddleware": lambda: edit(NEVER),
        "clear: ContextEditingMiddleware": lambda: edit(NOW),
        "clear: ContextEditingMiddleware, clear_at_least=20000": lambda: edit(NOW, at_least=20_000),
        "full: SummarizationMiddleware": lambda: summarize(NOW),
    }
