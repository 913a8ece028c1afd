"""``fivefold simulate``, as a user runs it (U1, Z2)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import msgspec

from fivefold.cli.simulate import SimulateReport

from .run import fivefold

ROOT = Path(__file__).parents[2]


@contextmanager
def simulating(*arguments: str | Path) -> Iterator[tuple[str, list[SimulateReport], subprocess.Popen[str]]]:
    """The command while it serves: its address, what it says at its end, and its process, which ends with the block."""
    command = [sys.executable, "-m", "fivefold", "simulate", "--json", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        said: list[SimulateReport] = []
        try:
            started = msgspec.json.decode(process.stdout.readline(), type=SimulateReport)
            yield started.url, said, process
        finally:
            process.send_signal(signal.SIGINT)
        said += [msgspec.json.decode(line, type=SimulateReport) for line in process.stdout]
        process.wait(20)


def ask(url: str, **body: Any) -> anthropic.types.Message:
    with anthropic.Anthropic(base_url=url, api_key="key", max_retries=0) as client:
        return client.messages.create(
            **{"model": "claude-haiku-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "a"}], **body}
        )


def test_u1_the_command_serves_until_it_is_interrupted_and_says_what_was_asked() -> None:
    with simulating("--model", "small=100", "--rounds", "0") as (url, said, process):
        assert ask(url).stop_reason == "end_turn"
        try:
            ask(url, model="small", max_tokens=10, messages=[{"role": "user", "content": "word " * 200}])
        except anthropic.BadRequestError as error:
            assert "> 100 maximum" in str(error)
        else:
            raise AssertionError("no error")
    assert process.returncode == 0
    (report,) = said
    assert (report.event, report.requests, report.answered, report.refused, report.problem) == ("stopped", 2, 1, 1, None)
    assert report.input_tokens == 5 and report.output_tokens > 0 and report.usd > 0


def test_u4_steps_that_are_left_are_exit_code_1(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('["one", "two"]')
    with simulating("--script", script) as (url, said, process):
        block = ask(url).content[0]
        assert block.type == "text" and block.text == "one"
    assert process.returncode == 1
    assert said[0].problem == "1 steps of the script were not used, the first: 'two'"


def test_u4_a_recorded_transcript_is_played_back() -> None:
    with simulating("--recorded", ROOT / "examples" / "session.jsonl") as (url, _, _process):
        answer = ask(url, max_tokens=10_000)
    assert answer.content and answer.stop_reason in ("tool_use", "end_turn")


def test_z1_wrong_options_are_named(tmp_path: Path) -> None:
    for arguments, expected in [
        (["--model", "opus"], "--model wants NAME=WINDOW"),
        (["--fault", "nonsense@1"], "'nonsense@1' is no fault"),
        (["--script", str(tmp_path / "none.json")], "cannot be read"),
        (["--script", "a", "--rounds", "1"], "give one of --script, --recorded and --rounds"),
    ]:
        done = fivefold("simulate", *arguments)
        assert done.returncode == 2 and expected in done.stderr, done.stderr


def test_z1_without_the_extra_it_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError('no', name='uvicorn')\n")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    done = fivefold("simulate", env={"PYTHONPATH": path})
    assert done.returncode == 2 and "uvicorn is not installed: pip install 'fivefold[simulator]'" in done.stderr


def test_z2_the_schema_is_as_documented() -> None:
    documented = ROOT / "docs" / "schema" / "simulate-1.json"
    now = msgspec.json.format(msgspec.json.encode(msgspec.json.schema(SimulateReport)), indent=2).decode() + "\n"
    if os.environ.get("FIVEFOLD_PIN"):
        documented.write_text(now, encoding="utf-8")
    assert now == documented.read_text(encoding="utf-8")


def test_z2_help_is_as_pinned() -> None:
    path = ROOT / "tests" / "data" / "help" / "simulate.txt"
    ran = fivefold("simulate", "--help")
    if os.environ.get("FIVEFOLD_PIN"):
        path.write_text(ran.stdout, encoding="utf-8")
    assert ran.returncode == 0 and ran.stdout == path.read_text(encoding="utf-8")
