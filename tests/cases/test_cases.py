"""All cases, through the driver: each probe, each line of ``must``, and what holds whatever is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import musts_limits, musts_shape, musts_state, musts_summary
from .probes import PROBES, general
from .runner import Case, cases, run_case

MUSTS = {**musts_limits.MUSTS, **musts_shape.MUSTS, **musts_state.MUSTS, **musts_summary.MUSTS}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_no_fault_that_users_of_other_tools_reported(case: Case, tmp_path: Path) -> None:
    run = run_case(case, tmp_path / "case")
    failed: list[str] = []
    for name, value in case.probe.items():
        assert name in PROBES, f"the probe {name!r} is not known here"
        try:
            PROBES[name](run, value)
        except AssertionError as error:
            failed.append(f"probe {name}: {value}: {error}")
    try:
        general(run)
    except AssertionError as error:
        failed.append(f"what holds for all: {error}")
    for index, line in enumerate(case.must) if case.known else ():
        try:
            MUSTS[case.id, index](run)
        except (AssertionError, KeyError) as error:
            failed.append(f"must {index}: {line}: {type(error).__name__}: {error}")
    assert failed == []


def test_each_line_of_must_has_its_own_check() -> None:
    lines = {(case.id, index) for case in cases() if case.known for index in range(len(case.must))}
    assert MUSTS.keys() == lines


def test_there_are_cases_of_each_kind() -> None:
    assert len([case for case in cases() if case.known]) == 51
