"""OpenHands' condenser from its SDK; the model that summarises is the SDK's own scripted one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from openhands.sdk.context.condenser import LLMSummarizingCondenser  # type: ignore[import-not-found]
from openhands.sdk.context.view import View  # type: ignore[import-not-found]
from openhands.sdk.event import ActionEvent, Condensation, MessageEvent, ObservationEvent  # type: ignore[import-not-found]
from openhands.sdk.llm import Message, MessageToolCall, TextContent  # type: ignore[import-not-found]
from openhands.sdk.mcp.definition import MCPToolAction, MCPToolObservation  # type: ignore[import-not-found]
from openhands.sdk.testing import TestLLM  # type: ignore[import-not-found]

PACKAGE = "openhands-sdk"
MANY = 1 << 40
TOKENS_COUNTED_UP_TO = 2_000
"""Messages up to which the check by tokens is timed too; it takes a quarter of a second for a thousand."""


def converted(messages: list[dict[str, Any]]) -> Iterator[Any]:
    """OpenAI's messages as events: an action for each call, an observation for each result."""
    actions: dict[str, Any] = {}
    for number, message in enumerate(messages):
        text = [TextContent(text=message["content"])] if message.get("content") else []
        if message["role"] == "tool":
            action = actions[message["tool_call_id"]]
            observation = MCPToolObservation(content=text, tool_name=action.tool_name)
            yield ObservationEvent(
                tool_name=action.tool_name, tool_call_id=action.tool_call_id, observation=observation, action_id=action.id
            )
        elif calls := message.get("tool_calls"):
            for call in calls:
                name, arguments = call["function"]["name"], call["function"]["arguments"]
                event = actions[call["id"]] = ActionEvent(
                    thought=text if call is calls[0] else [],
                    action=MCPToolAction(data=json.loads(arguments)),
                    tool_name=name,
                    tool_call_id=call["id"],
                    tool_call=MessageToolCall(id=call["id"], name=name, arguments=arguments, origin="completion"),
                    llm_response_id=f"response-{number}",
                )
                yield event
        else:
            source = "agent" if message["role"] == "assistant" else "user"
            role = "assistant" if message["role"] == "assistant" else "user"
            yield MessageEvent(source=source, llm_message=Message(role=role, content=text))


def cases(messages: list[dict[str, Any]]) -> dict[str, Callable[[], Callable[[], int | None]]]:
    """The check by number of events and by tokens, and a condensation down to half of 80 events, its default agent's."""
    events = list(converted(messages))
    view = View.from_events(events)

    def condense(*, max_size: int, counted: bool = False) -> Callable[[], Callable[[], int | None]]:
        def prepare() -> Callable[[], int | None]:
            llm = TestLLM.from_messages([Message(role="assistant", content=[TextContent(text="A summary.")])])
            condenser = LLMSummarizingCondenser(llm=llm, max_size=max_size, keep_first=4, max_tokens=MANY if counted else None)

            def call() -> int | None:
                made = condenser.condense(view, agent_llm=llm if counted else None)
                return len(view.events) - len(made.forgotten_event_ids) + 1 if isinstance(made, Condensation) else None

            return call

        return prepare

    found = {
        "check: LLMSummarizingCondenser, by events": condense(max_size=MANY),
        "full: LLMSummarizingCondenser": condense(max_size=80),
    }
    if len(messages) <= TOKENS_COUNTED_UP_TO:
        found["check: LLMSummarizingCondenser, by tokens"] = condense(max_size=MANY, counted=True)
    return found
