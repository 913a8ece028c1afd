"""Policies from feature flags (P1, P6), through OpenFeature, so that any provider of it will do."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext

from .settings import Flag, Flags

KEY = "fivefold-policy"


def open_feature(client: OpenFeatureClient | None = None, *, key: str = KEY, attributes: Mapping[str, str] | None = None) -> Flags:
    """A source for ``settings.load``: an object flag whose value holds sections of the policy; the conversation's id is the targeting
    key, and the variant that the provider names is the one that events carry. Without the flag, or where its provider fails, nothing is
    changed: OpenFeature then gives the default."""
    asked = client or api.get_client("fivefold")

    def look(conversation: str) -> Flag:
        context = EvaluationContext(targeting_key=conversation, attributes={**(attributes or {})})
        found = asked.get_object_details(key, {}, context)
        values = found.value if isinstance(found.value, Mapping) else {}
        return Flag(msgspec.json.decode(msgspec.json.encode(values)), f"{key}:{found.variant}" if found.variant else "")

    return look
