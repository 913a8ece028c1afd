"""What a conversation runs under, from what a caller says: model, window, policy."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .core.economics import Model
from .core.entries import Head
from .core.policy import Policy
from .core.state import Setup
from .core.turns import Family
from .core.window import window_of
from .perform import Ports
from .providers.models import Override, lookup


def make_setup(
    model: str | Model | None = None,
    *,
    window: int | None = None,
    max_output: int | None = None,
    policy: Policy | None = None,
    head: Head | None = None,
    overrides: Mapping[str, Override] | None = None,
    overhead: int | None = None,
    transcript: str = "",
    variant: str = "",
) -> Setup:
    """The setup of a model and a window in tokens. Without a model the conversation's own is taken (``head``). ``overhead``: tokens of
    system prompt and tools, instead of what recorded responses tell. ``variant``: which policy of an experiment this is (P6).

    Raises UnknownModelError where no window is known: it is never guessed (V3). PolicyError for sizes that cannot be.
    """
    head, policy = head or Head(), policy or Policy()
    if isinstance(model, Model):
        known = model
    else:
        known = lookup(model or head.model or "", overrides=overrides or {}, window=window or head.window, max_output=max_output)
    size = window_of(
        min(known.prompt_limit, window) if window is not None else known.prompt_limit,
        known.max_output,
        policy.window,
        auto=policy.auto.enabled,
        cliff=known.prices.cliff if known.prices is not None else None,
    )
    foreign = head.wire not in ("", "anthropic")
    return Setup(
        policy=policy,
        model=known,
        window=size,
        family=family_of(head, known),
        foreign=foreign,
        overhead=overhead,
        transcript=transcript,
        variant=variant,
    )


def family_of(head: Head, model: Model | None) -> Family:
    """Whose rules hold: by who serves the model, else by the wire that was recorded; Anthropic's where neither tells."""
    if model is not None and model.provider != "unknown":
        anthropic = model.provider == "anthropic" or model.id.startswith("claude")
    else:
        anthropic = head.wire in ("", "anthropic")
    if anthropic:
        return "anthropic"
    return "openai-responses" if head.wire == "openai-responses" else "other"


def setup_for(setup: Setup, ports: Ports) -> Setup:
    """With what the ports can do."""
    return msgspec.structs.replace(
        setup,
        memory=ports.memory is not None,
        extracts=ports.extract is not None,
        restores=ports.files is not None or bool(ports.attachments),
        hooks=ports.hooks.names() if ports.hooks is not None else frozenset(),
        counts=ports.count is not None,
        stages=setup.policy.collapse.enabled,
    )
