"""Every command in the README is run, and what it prints is what stands there (Z1)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

COMMAND = re.compile(r"^\$ (.*)$", re.M)


class Step(NamedTuple):
    """A command of a console block and the output that is shown under it."""

    command: str
    output: str


def steps(text: str) -> list[Step]:
    """The commands of all console blocks of a document."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        parts = COMMAND.split(block)
        assert parts[0] == "", f"a console block that begins with output: {block!r}"
        found += [Step(command, output.removeprefix("\n")) for command, output in zip(parts[1::2], parts[2::2], strict=True)]
    return found


def run(command: str, cwd: Path, home: Path, path: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path, "HOME": str(home), "COLUMNS": "100", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    environment |= {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "SSL_", "REQUESTS_", "PYENV")) or k.endswith("_proxy")}
    return subprocess.run(["sh", "-c", command], cwd=cwd, env=environment, capture_output=True, encoding="utf-8", timeout=300, check=False)


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_readme_commands_print_what_is_shown(name: str, root: Path, tmp_path: Path) -> None:
    document = root / name
    text = document.read_text(encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shown = [step for step in steps(text) if step.command.startswith("fivefold ")]
    assert len(shown) >= 3
    work = tmp_path / "work"
    work.mkdir()
    (work / "examples").symlink_to(root / "examples")
    for step in shown:
        done = run(step.command, work, tmp_path, path)
        assert done.returncode == 0, done.stderr
        if os.environ.get("FIVEFOLD_PIN"):
            text = text.replace(f"$ {step.command}\n{step.output}", f"$ {step.command}\n{done.stdout}")
            document.write_text(text, encoding="utf-8")
        else:
            assert done.stdout == step.output


def test_readme_followed_to_the_letter_in_a_clean_environment(root: Path, tmp_path: Path) -> None:
    """Install as the README says, in a copy of the source, then look at the newest session and at the example."""
    copy = tmp_path / "fivefold"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git", ".venv", "build", "tests", ".*_cache", ".hypothesis", "__pycache__"))
    text = (root / "README.md").read_text(encoding="utf-8")
    install = [step.command for step in steps(text) if not step.command.startswith("fivefold ")]
    assert [command.split()[0] for command in install] == ["python3", ".venv/bin/pip", "."]
    home = tmp_path / "home"
    project = home / ".claude" / "projects" / "-somewhere"
    project.mkdir(parents=True)
    shutil.copy(root / "examples" / "session.jsonl", project / "session.jsonl")
    path = os.pathsep.join([str(Path(sys.base_prefix) / "bin"), "/usr/local/bin", "/usr/bin", "/bin"])
    commands = [*install, "fivefold inspect --latest", "fivefold inspect examples/session.jsonl --html page.html"]
    done = run(" && ".join(commands), copy, home, path)
    assert done.returncode == 0, done.stderr
    assert str(project / "session.jsonl") in done.stdout and "What fills it, by kind" in done.stdout
    assert (copy / "page.html").stat().st_size > 10_000
