"""``fivefold inspect`` and ``fivefold recall`` as a user runs them (Z1, Z2, Z5, K4)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from fivefold.report.model import Report
from tests.cli.run import fivefold

EXAMPLE = Path(__file__).parents[2] / "examples" / "session.jsonl"


def test_z2_json_has_what_the_schema_says() -> None:
    done = fivefold("inspect", EXAMPLE, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report = msgspec.json.decode(done.stdout, type=Report, strict=True)
    assert (report.schema, report.format, report.model) == ("fivefold.inspect/1", "claude-code", "claude-opus-4-5-20251101")
    assert (report.entries, report.tool_calls) == (872, 243)
    assert report.window is not None and report.state is not None
    assert (report.window.context, report.window.effective, report.window.auto) == (200_000, 180_000, 167_000)
    assert report.tokens.used == 118_925 and report.state.level == "ok" and report.state.percent_left == 29
    assert [(c.line, c.trigger, c.tokens_before) for c in report.compactions] == [(349, "auto", 155_830), (731, "auto", 156_822)]
    assert len(report.largest) == 10 and report.largest[0].tokens >= report.largest[-1].tokens
    assert report.rounds == len(report.timeline)


def test_z5_terminal_output_is_readable_without_colour_and_fits() -> None:
    done = fivefold("inspect", EXAMPLE)
    assert done.returncode == 0 and "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    for words in (
        "What fills it, by kind",
        "By tool",
        "By file",
        "Size by round",
        "Compactions",
        "Largest entries",
        "A provider would take it as it is.",
    ):
        assert words in done.stdout


def test_z2_violations_end_with_1(tmp_path: Path) -> None:
    path = tmp_path / "messages.json"
    path.write_text(json.dumps([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "gone", "content": "x"}]}]))
    done = fivefold("inspect", path, "--window", "64000", "--json")
    assert done.returncode == 1
    violation = json.loads(done.stdout)["violations"][0]
    assert (violation["rule"], violation["line"]) == ("I1", 1) and violation["text"] and violation["repair"]


def test_z1_latest_takes_the_newest_session_of_the_known_places(tmp_path: Path) -> None:
    project = tmp_path / ".claude" / "projects" / "-home-me-code"
    codex = tmp_path / ".codex" / "sessions" / "2026" / "01" / "02"
    for folder in (project, codex):
        folder.mkdir(parents=True)
    (project / "new.jsonl").write_bytes(EXAMPLE.read_bytes())
    (codex / "rollout-old.jsonl").write_bytes(EXAMPLE.read_bytes())
    os.utime(codex / "rollout-old.jsonl", (1, 1))
    done = fivefold("inspect", "--latest", "--json", home=tmp_path)
    assert json.loads(done.stdout)["file"] == str(project / "new.jsonl")
    done = fivefold("recall", "--latest", "trailer", "--limit", "1", home=tmp_path)
    assert done.returncode == 0 and done.stdout
    empty = tmp_path / "empty"
    empty.mkdir()
    done = fivefold("inspect", "--latest", home=empty)
    assert done.returncode == 2 and "no session found" in done.stderr and ".claude" in done.stderr


def test_k4_recall_finds_what_is_folded_away_and_reads_it_back() -> None:
    done = fivefold("recall", EXAMPLE, "checkpoint trailer", "--json")
    hits = json.loads(done.stdout)["hits"]
    assert done.returncode == 0 and hits
    folded = next(hit for hit in hits if hit["hidden"])
    assert folded["fold"]
    back = fivefold("recall", EXAMPLE, "--entry", folded["id"])
    assert back.returncode == 0 and "checkpoint" in back.stdout.lower() and "trailer" in back.stdout.lower()
    assert fivefold("recall", EXAMPLE, "--entry", "no-such-id").returncode == 2
    nothing = fivefold("recall", EXAMPLE, "zzqqxxyy")
    assert (nothing.returncode, nothing.stdout) == (0, "") and "nothing found" in nothing.stderr


@pytest.mark.parametrize("command", ["", "inspect", "recall"])
def test_help_is_as_pinned(command: str) -> None:
    """Z2: the help texts; FIVEFOLD_PIN=1 writes them anew."""
    pinned = Path(__file__).parents[1] / "data" / "help" / f"{command or 'fivefold'}.txt"
    done = fivefold(*([command] if command else []), "--help")
    if os.environ.get("FIVEFOLD_PIN"):
        pinned.parent.mkdir(exist_ok=True)
        pinned.write_text(done.stdout, encoding="utf-8")
    assert done.returncode == 0 and done.stdout == pinned.read_text(encoding="utf-8")


def test_h1_recorded_text_moves_no_cursor(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[31mred\u202e\x9b2J"
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps(
            [
                {"role": "user", "content": f"hello {evil}"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": f"Read{evil}", "input": {"path": evil}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": f"result {evil}\r\nend"}]},
            ]
        )
    )
    outputs = [
        fivefold("inspect", path, "--window", "64000", "--model", evil),
        fivefold("recall", path, "hello"),
        fivefold("recall", path, "--entry", "m3"),
        fivefold("inspect", path, "--conversation", evil),
    ]
    for done in outputs:
        assert not set(done.stdout + done.stderr) & {"\x1b", "\x07", "\x9b", "\u202e", "\r"}


def test_z2_the_page_never_writes_over_the_session(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(EXAMPLE.read_bytes())
    done = fivefold("inspect", path, "--html", path)
    assert done.returncode == 2 and "write over the session" in done.stderr
    assert path.read_bytes() == EXAMPLE.read_bytes()


def shell(command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "NO_COLOR": "1"}
    command = command.replace("FIVEFOLD", f"{sys.executable} -m fivefold").replace("EXAMPLE", str(EXAMPLE))
    return subprocess.run(["bash", "-c", command], capture_output=True, encoding="utf-8", env=environment, timeout=60, check=False)


def test_z5_pipes_in_and_out() -> None:
    for command in ("cat EXAMPLE | FIVEFOLD inspect -", "cat EXAMPLE | FIVEFOLD inspect /dev/stdin", "FIVEFOLD inspect <(cat EXAMPLE)"):
        done = shell(command)
        assert (done.returncode, done.stderr) == (0, "") and "872 messages" in done.stdout
    done = shell("FIVEFOLD inspect EXAMPLE | head -1; echo ${PIPESTATUS[1]}")
    assert done.stderr == "" and done.stdout.splitlines()[1:] == ["0"]


def test_z5_output_that_cannot_be_written() -> None:
    done = shell("FIVEFOLD inspect EXAMPLE > /dev/full")
    assert done.returncode == 2 and "cannot be written" in done.stderr and "Traceback" not in done.stderr
    done = shell("PYTHONIOENCODING=ascii FIVEFOLD inspect EXAMPLE")
    assert done.returncode == 0 and "118,925 tokens" in done.stdout


def test_w4_what_is_too_large_is_refused_whatever_else_holds(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps([{"role": "user", "content": "a word " * 20_000}]))
    done = fivefold("inspect", path, "--window", "8192", "--json")
    assert done.returncode == 1
    assert [row["rule"] for row in json.loads(done.stdout)["violations"]] == ["W4"]


def test_w9_the_window_that_the_recording_names_holds(tmp_path: Path) -> None:
    lines = [
        {"type": "session_meta", "payload": {"id": "s"}},
        {"type": "turn_context", "payload": {"model": "gpt-5.5"}},
        {"type": "event_msg", "payload": {"type": "task_started", "model_context_window": 258_400}},
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}},
        {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}},
    ]
    path = tmp_path / "rollout.jsonl"
    path.write_text("\n".join(json.dumps({"timestamp": "2026-01-01T00:00:00Z", **line}) for line in lines))
    assert json.loads(fivefold("inspect", path, "--json").stdout)["window"]["context"] == 258_400
    assert json.loads(fivefold("inspect", path, "--json", "--window", "64000").stdout)["window"]["context"] == 64_000


def test_h1_a_tool_name_forges_no_line_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    use = {"type": "tool_use", "id": "t", "name": "Bash\nm9 · line 9 · user · FORGED\rm8", "input": {"command": "needle"}}
    path.write_text(json.dumps([{"role": "user", "content": "go"}, {"role": "assistant", "content": [use]}]))
    done = fivefold("recall", path, "needle")
    assert len(done.stdout.splitlines()) == 2 and "FORGED" in done.stdout.splitlines()[0]
