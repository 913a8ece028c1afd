"""Z2, Z3, H4: whatever the file holds: a clear message that names it, exit code 2 or a listed bad line, nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import fivefold


def line(uuid: str, parent: str | None, role: str, text: str, time: str = "2026-01-01T00:00:00Z", **more: Any) -> str:
    """A line of a Claude Code session."""
    message: dict[str, Any] = {"role": role, "content": text}
    if role == "assistant":
        message = {"id": f"msg_{uuid}", "role": role, "model": "claude-opus-4-5", "content": [{"type": "text", "text": text}]}
    return json.dumps(
        {
            "type": role,
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": "s",
            "timestamp": time,
            "isSidechain": False,
            "message": message,
            **more,
        }
    )


GOOD = [
    line("u1", None, "user", "hello"),
    line("a1", "u1", "assistant", "hi"),
    line("u2", "a1", "user", "more"),
    line("a2", "u2", "assistant", "yes"),
]


def inspect(path: Path, *more: str) -> tuple[int, dict[str, Any], str]:
    done = fivefold("inspect", path, "--json", *more)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def written(path: Path, *lines: str | bytes) -> Path:
    path.write_bytes(b"".join(part if isinstance(part, bytes) else part.encode() + b"\n" for part in lines))
    return path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0", "binary"),
        (b"\xff\xfe{\0}\0", "UTF-16"),
        (b"SQLite format 3\0" + b"\0" * 100, "SQLite"),
        (b'{"half": "a li', "not JSON"),
        (b'{"caf\xe9": 1,\n "b": 2}', "UTF-8"),
        (b'{"name": "a package", "version": "1.0"}\n', "no known transcript"),
        (b"Dear all,\nthis is a letter.\n", ""),
        (b"[" * 100_000 + b"]" * 100_000, "deep"),
        (b"[1, 2, 3]", ""),
    ],
    ids=["empty", "blank", "binary", "utf-16", "sqlite", "half-a-line", "latin-1", "other-json", "letter", "deep", "numbers"],
)
def test_z2_a_file_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "input"
    path.write_bytes(content)
    code, report, errors = inspect(path)
    assert (code, report) == (2, {})
    assert errors.startswith("error: ") and str(path) in errors and words in errors
    assert len(errors.splitlines()) <= 8


@pytest.mark.parametrize("path", ["no/such/file", "."])
def test_z2_a_file_that_cannot_be_opened(path: str) -> None:
    code, report, errors = inspect(Path(path))
    assert (code, report) == (2, {}) and errors.startswith(f"error: {path}: cannot be opened: ")


def test_z3_bad_lines_are_listed_and_skipped_or_refused_with_strict(tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", *GOOD[:2], '{"torn": "li', b"\xff\xfe not text\n", '"a string"', "[" * 5000, *GOOD[2:])
    code, report, errors = inspect(path)
    assert (code, errors, report["entries"]) == (0, "", 4)
    assert [row["line"] for row in report["bad_lines"]] == [3, 4, 5, 6]
    assert all(row["why"] for row in report["bad_lines"])
    code, report, errors = inspect(path, "--strict")
    assert (code, report) == (2, {}) and errors.startswith(f"error: {path}:3: ")


def test_h4_a_line_of_200_mb_is_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", *GOOD[:2])
    with path.open("ab") as file:
        file.write(b'{"type":"user","message":{"content":"')
        for _ in range(200):
            file.write(b"x" * 1_000_000)
        file.write(b'"}}\n')
        file.writelines(good.encode() + b"\n" for good in GOOD[2:])
    code, report, errors = inspect(path)
    assert (code, errors, report["entries"]) == (0, "", 4)
    assert [row["line"] for row in report["bad_lines"]] == [3] and "200,000,0" in report["bad_lines"][0]["why"]


def test_i10_duplicate_ids(tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", *GOOD, line("a2", "u2", "assistant", "something else"))
    code, report, errors = inspect(path)
    assert (code, errors, report["entries"]) == (0, "", 5)


@pytest.mark.parametrize(
    "links",
    [
        [("u1", "a2"), ("a1", "u1"), ("u2", "a1"), ("a2", "u2")],
        [("u1", "u1"), ("a1", "u1")],
        [("u1", None), ("a1", "gone"), ("u2", "a1"), ("a2", "nowhere")],
    ],
    ids=["cycle", "own-parent", "missing-parents"],
)
def test_z3_cycles_and_missing_parents_lose_nothing(tmp_path: Path, links: list[tuple[str, str | None]]) -> None:
    path = written(tmp_path / "s.jsonl", *(line(id, parent, "user" if id[0] == "u" else "assistant", id) for id, parent in links))
    code, report, errors = inspect(path)
    assert (code, errors, report["entries"]) == (0, "", len(links))


def test_z3_a_clock_that_goes_backwards_changes_no_order(tmp_path: Path) -> None:
    times = ["2026-01-04T00:00:00Z", "2026-01-03T00:00:00Z", "not a time", "2025-01-01T00:00:00Z"]
    ids = [("u1", None), ("a1", "u1"), ("u2", "a1"), ("a2", "u2")]
    path = written(
        tmp_path / "s.jsonl",
        *(line(id, parent, "user" if id[0] == "u" else "assistant", id, time) for (id, parent), time in zip(ids, times, strict=True)),
    )
    code, report, errors = inspect(path)
    assert (code, errors, report["entries"], report["rounds"]) == (0, "", 4, 3)
    assert report["timeline"][-1]["entry"] == "a2"


def test_v3_an_unknown_model_is_a_clear_error_and_the_rest_is_shown(tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", *(good.replace("claude-opus-4-5", "made-up-model-9") for good in GOOD))
    code, report, errors = inspect(path)
    assert code == 2 and "made-up-model-9" in errors and "--window" in errors
    assert report["entries"] == 4 and report["window"] is None
    code, report, errors = inspect(path, "--window", "64000")
    assert (code, errors, report["window"]["context"]) == (0, "", 64_000)
    code, report, errors = inspect(path, "--model", "another-made-up-one")
    assert code == 2 and report == {} and "another-made-up-one" in errors


@pytest.mark.parametrize("arguments", [[], ["--latest", "x"], ["x", "--window", "many"], ["x", "--window", "-3"], ["--no-such-option"]])
def test_z2_usage_errors_end_with_2(arguments: list[str], tmp_path: Path) -> None:
    good = written(tmp_path / "x", *GOOD)
    done = fivefold("inspect", *(str(good) if a == "x" else a for a in arguments))
    assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr and done.stderr
