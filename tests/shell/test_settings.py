"""P1, P6: where policies come from, in which order, and how experiments split conversations between them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from openfeature import api
from openfeature.flag_evaluation import FlagResolutionDetails, Reason
from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider

from fivefold.core.policy import Policy
from fivefold.errors import PolicyError
from fivefold.flags import open_feature
from fivefold.settings import Flag, assigned, load
from fivefold.setup import make_setup
from tests.rules.talk import MODEL, rounds_of, talk

EXPERIMENT = """
[auto]
max_failures = 5
[experiment]
name = "level"
[experiment.variants.control]
[experiment.variants.reactive]
weight = 3
policy = { auto = { reactive_only = true } }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_p1_without_any_source_it_is_the_defaults() -> None:
    assert load(environment={"PATH": "/bin", "FIVEFOLD_CASES": "x"}) == (Policy(), "", {})


def test_p1_defaults_file_environment_flags_code_each_over_the_one_before(tmp_path: Path) -> None:
    file = written(tmp_path, "[auto]\nmax_failures = 4\nfloor_percent = 2.0\nheadroom_percent = 10.0\nmin_gain_percent = 6.0\n")
    found = load(
        file=file,
        environment={"FIVEFOLD_AUTO_FLOOR_PERCENT": "3", "FIVEFOLD_AUTO_HEADROOM_PERCENT": "11", "FIVEFOLD_AUTO_MIN_GAIN_PERCENT": "7"},
        flags=lambda id: Flag({"auto": {"headroom_percent": 12, "min_gain_percent": 8}}),
        code={"auto": {"min_gain_percent": 9}},
    )
    auto = found.policy.auto
    assert (auto.max_failures, auto.floor_percent, auto.headroom_percent, auto.min_gain_percent) == (4, 3, 12, 9)
    assert auto.cooldown_seconds == Policy().auto.cooldown_seconds
    assert list(found.origins.values()) == ["file policy.toml", "the environment", "feature flags", "code"]


@pytest.mark.parametrize("value", ["false", "0", "off", "No"])
def test_p1_a3_auto_is_switched_off_by_file_or_environment(tmp_path: Path, value: str) -> None:
    assert not load(file=written(tmp_path, "auto = false"), environment={}).policy.auto.enabled
    assert not load(environment={"FIVEFOLD_AUTO": value}).policy.auto.enabled
    assert load(environment={"FIVEFOLD_COLLAPSE": "true"}).policy.collapse.enabled


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[auto]\nmax_failure = 3", "file policy.toml: policy: .*max_failure"),
        ("[autos]\nmax_failures = 3", "file policy.toml: policy: .*autos"),
        ("[auto]\nheadroom_percent = 120", "file policy.toml: policy: auto.headroom_percent is 120"),
        ("auto = 3", "file policy.toml: auto is no section"),
        ("window = true", "file policy.toml: window is no section"),
        ("auto = [", "policy.toml: no TOML"),
        ("[experiment]\nname = 'x'\nvariants = {}", "policy.toml: experiment: .*variants"),
        ("[experiment]\nname = 'x'\n[experiment.variants.a]\nweigth = 1", "weigth"),
        ("[experiment]\nname = 'x'\n[experiment.variants.a]\nweight = 0", "'x': the weights .* nothing"),
        ("[experiment]\nname = 'x'\n[experiment.variants.a]\npolicy = {auto = {max_failure = 1}}", "experiment x:a: policy: .*max_failure"),
    ],
)
def test_p1_what_is_wrong_in_a_file_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(PolicyError, match=named):
        load(file=written(tmp_path, text), environment={})


def test_p1_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"none\.toml: No such file"):
        load(file=tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PolicyError, match=r"bytes\.toml: no TOML"):
        load(file=tmp_path / "bytes.toml")


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("FIVEFOLD_AUTO_MAX_FAILURE", "3", "FIVEFOLD_AUTO_MAX_FAILURE: .*did you mean max_failures"),
        ("FIVEFOLD_AUTO_MAX_FAILURES", "many", "the environment: policy: .*auto.max_failures"),
        ("FIVEFOLD_AUTO_ENABLED", "maybe", "FIVEFOLD_AUTO_ENABLED is 'maybe'"),
        ("FIVEFOLD_WINDOW", "3", "window has no field 'enabled'"),
    ],
)
def test_p1_what_is_wrong_in_the_environment_is_refused_by_name(name: str, value: str, named: str) -> None:
    with pytest.raises(PolicyError, match=named):
        load(environment={name: value})


def test_p1_every_kind_of_field_can_be_given_by_the_environment() -> None:
    found = load(
        environment={
            "FIVEFOLD_WINDOW_CAP_TOKENS": "64_000",
            "FIVEFOLD_MICRO_COMPACTABLE": "read, shell",
            "FIVEFOLD_SUMMARY_METHOD": "model",
            "FIVEFOLD_SUMMARY_MODEL": "small-1",
            "FIVEFOLD_SNIP_SUPERSEDED": "no",
        }
    ).policy
    assert (found.window.cap_tokens, found.summary.method, found.summary.model) == (64_000, "model", "small-1")
    assert found.micro.compactable == ("read", "shell") and not found.snip.superseded


def test_p6_a_split_is_stable_by_the_conversations_id_and_in_shares_of_the_weights(tmp_path: Path) -> None:
    file = written(tmp_path, EXPERIMENT)
    found = [load(file=file, environment={}, conversation=f"c{n}") for n in range(400)]
    counts = Counter(one.variant for one in found)
    assert set(counts) == {"level:control", "level:reactive"} and 250 < counts["level:reactive"] < 350
    assert all(one.policy.auto.reactive_only == (one.variant == "level:reactive") for one in found)
    assert all(one.policy.auto.max_failures == 5 for one in found)
    assert assigned("level", {"control": 1.0, "reactive": 3.0}, "c7") == found[7].variant.partition(":")[2]
    assert assigned("level", {"reactive": 3.0, "none": 0.0}, "anything") == "reactive"


def test_p6_the_same_in_another_process(tmp_path: Path) -> None:
    code = "from fivefold.settings import assigned; print(*(assigned('e', {'a': 1.0, 'b': 1.0}, f'c{n}') for n in range(30)))"
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == [assigned("e", {"a": 1.0, "b": 1.0}, f"c{n}") for n in range(30)]


def test_p6_every_event_carries_the_variant() -> None:
    entries = rounds_of(12, 1_500)
    found = talk(entries, setup=make_setup(MODEL, window=20_000, overhead=0, variant="level:reactive"))
    found.driver.before_request()
    assert len(found.events) >= 2 and {event.fields["variant"] for event in found.events} == {"level:reactive"}
    plain = talk(entries, window=20_000)
    plain.driver.before_request()
    assert not any("variant" in event.fields for event in plain.events)


def test_p1_p6_feature_flags_of_any_open_feature_provider() -> None:
    def split(flag: InMemoryFlag, context: object) -> FlagResolutionDetails:
        variant = "reactive" if context.targeting_key == "c1" else "control"
        return FlagResolutionDetails(value=flag.variants[variant], reason=Reason.SPLIT, variant=variant)

    flag = InMemoryFlag("control", {"control": {}, "reactive": {"auto": {"reactive_only": True}}}, context_evaluator=split)
    api.set_provider(InMemoryProvider({"fivefold-policy": flag}), domain="fivefold-test")
    client = api.get_client("fivefold-test")
    found = [load(environment={}, flags=open_feature(client), conversation=id) for id in ("c1", "c2")]
    assert [(one.variant, one.policy.auto.reactive_only) for one in found] == [
        ("fivefold-policy:reactive", True),
        ("fivefold-policy:control", False),
    ]
    assert load(environment={}, flags=open_feature(client, key="nobody-set-it")) == (Policy(), "", {})
