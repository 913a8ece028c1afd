"""P5: the presets are there, with the numbers of the systems they stand for."""

from __future__ import annotations

import typing

import msgspec

from fivefold.core.presets import PRESETS, PresetName


def test_p5_every_preset_is_there_and_says_what_it_does() -> None:
    assert tuple(PRESETS) == typing.get_args(PresetName)
    assert all(preset.name == name and preset.does for name, preset in PRESETS.items())


def test_p5_opencode_and_codex_have_their_published_numbers() -> None:
    opencode, codex = PRESETS["opencode"], PRESETS["codex"]
    assert (opencode.reserve_tokens, opencode.clear_protect_tokens, opencode.clear_min_gain_tokens) == (20_000, 40_000, 20_000)
    assert (opencode.tail_min_tokens, opencode.tail_tokens, opencode.tail_percent) == (2_000, 15_000, 25)
    assert (codex.trigger_percent, codex.user_tokens, codex.summary) == (90, 20_000, True)


def test_p5_none_and_truncate_call_no_model() -> None:
    for name in ("none", "truncate", "observation-masking"):
        assert not PRESETS[name].summary  # type: ignore[index]
    assert set(msgspec.to_builtins(PRESETS["none"])) == {"name", "does"}
