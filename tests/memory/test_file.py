"""The file of a session memory: replaced whole or not at all, with the id of what it covers; read however it was edited."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fivefold
from fivefold.errors import InputError, StoreError, WriteError
from fivefold.memory.file import MAX_BYTES, Content, MemoryFile, checksum, decode, encode, memory_path

NOTES = Content("# Task\nMove the parser.\n\n# Log\n- Read: a.py", "b6", ("0a0b0c0d", "11223344"), ("deadbeef",))

DIES_AT = """
import json, os, signal, sys
from pathlib import Path
from fivefold.memory.file import Content, MemoryFile

path = Path(sys.argv[1])
old, new = Content("# Task\\nold", "e1", ("aaaaaaaa",)), Content("# Task\\nnew " + "x" * 50_000, "e2", ("bbbbbbbb",))

def write(at):
    left = at
    def look(frame, event, arg):
        nonlocal left
        if event in ("c_call", "c_return", "c_exception"):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
    file = MemoryFile(path)
    sys.setprofile(look)
    file.write(new)
    sys.setprofile(None)
    os._exit(0)

outcomes, at, done = [], 0, False
while not done:
    MemoryFile(path).write(old)
    child = os.fork()
    if not child:
        write(at)
    status = os.waitpid(child, 0)[1]
    done = status == 0
    found = MemoryFile(path).read()
    outcomes.append("old" if found == old else "new" if found == new else "torn")
    MemoryFile(path).sweep()
    at += 1
print(json.dumps({"outcomes": outcomes, "left": os.listdir(path.parent)}))
"""


def test_s3_killed_at_any_point_of_a_write_the_file_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    """A process is killed before and behind each call of a C function that a write makes, one after the other."""
    path = tmp_path / "a.memory.md"
    environment = {**os.environ, "PYTHONPATH": str(Path(fivefold.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", DIES_AT, str(path)], env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    outcomes = found["outcomes"]
    assert set(outcomes) == {"old", "new"} and outcomes[0] == "old" and outcomes[-1] == "new"
    assert outcomes == sorted(outcomes, reverse=True) and len(outcomes) > 50  # first all old, then all new
    assert found["left"] == ["a.memory.md"], "what a crash leaves is swept away"


def test_s3_text_and_covered_id_come_back_as_they_were_written(tmp_path: Path) -> None:
    file = MemoryFile(tmp_path / "a.memory.md")
    assert file.read() is None
    file.write(NOTES)
    assert file.read() == NOTES


def test_h4_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a.memory.md"
    path.write_text("# Task\n")
    path.chmod(0o644)
    MemoryFile(path).write(NOTES)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("id", ["x --> <script>", 'a"b', "ü\n2", "--", "-->", "\\u002d", "-" * 50])
def test_h1_an_id_cannot_end_the_comment_that_it_stands_in(id: str) -> None:
    data = encode(NOTES._replace(covered=id))
    first = data.decode().split("\n")[0]
    assert first.startswith("<!-- ") and first.endswith(" -->") and first.count("-->") == 1 and "--" not in first[4:-3]
    assert decode(data).covered == id


@given(st.text(max_size=60), st.text(min_size=1, max_size=40).filter(lambda id: id.encode("utf-8", "ignore").decode() == id))
def test_s3_any_text_and_any_id_survive(text: str, id: str) -> None:
    found = decode(encode(Content(text, id, ("0a0b0c0d",))))
    assert found.covered == id and found.ours == ("0a0b0c0d",)
    assert decode(encode(found)) == found


def test_s8_a_first_line_that_somebody_took_out_leaves_the_text_and_no_covered_id() -> None:
    data = encode(NOTES).split(b"\n", 1)[1]
    assert decode(data) == NOTES._replace(covered=None)


@pytest.mark.parametrize(
    "line",
    [
        "<!-- fivefold session memory, covers up to b6 -->",
        "<!-- fivefold session memory, covers up to 'b6' -->",
        '<!-- fivefold session memory, covers up to "b6',
        '<!-- fivefold session memory, covers up to "" -->',
        '<!-- fivefold session memory, covers up to "\\q" -->',
        '<!-- fivefold session memory, covers up to "' + "x" * 1_001 + '" -->',
    ],
)
def test_s8_a_broken_first_line_is_no_text_and_no_covered_id(line: str) -> None:
    assert decode(f"{line}\n# Task\nMove it.\n".encode()) == Content("# Task\nMove it.")


def test_s4_an_editor_may_change_marks_line_ends_and_white_space() -> None:
    edited = b"\xef\xbb\xbf" + encode(NOTES).replace(b"\n", b"\r\n") + b"\r\n\r\n"
    assert decode(edited) == NOTES
    assert decode(b"Mine\n\n" + encode(NOTES)).covered == "b6"
    assert checksum("-  Read:\ta.py ", "log") == checksum("- Read: a.py", "log") != checksum("- Read: a.py", "files")


def test_h4_bytes_that_are_no_text_are_read_all_the_same() -> None:
    assert decode(b"# Task\n\xff\xfe caf\xe9\x00").text == "# Task\n\ufffd\ufffd caf\ufffd\ufffd"


def test_h4_a_file_that_is_too_large_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.memory.md"
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(InputError, match=r"a\.memory\.md: the session memory is over 1,000,000 bytes"):
        MemoryFile(path).read()
    with pytest.raises(StoreError, match="over the limit of 1,000,000"):
        MemoryFile(path).write(Content("x" * MAX_BYTES))
    assert path.stat().st_size == MAX_BYTES + 1


def test_h4_a_pipe_or_a_folder_in_its_place_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    for name in ("pipe.md", "folder.md"):
        with pytest.raises(InputError, match=name):
            MemoryFile(tmp_path / name).read()


def test_s3_where_it_cannot_be_written_that_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.memory.md").mkdir()
    with pytest.raises(WriteError, match=r"a\.memory\.md: the session memory cannot be written"):
        MemoryFile(tmp_path / "a.memory.md").write(NOTES)
    assert os.listdir(tmp_path) == ["a.memory.md"]
    with pytest.raises(WriteError, match="cannot be written"):
        MemoryFile(tmp_path / "gone" / "a.memory.md").write(NOTES)


@pytest.mark.parametrize("id", ["../a", "a/b", "", "..", "a\x00b", "c:d", "a\\b", "x" * 201])
def test_h3_a_session_id_is_never_a_path_of_its_own(id: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        memory_path(tmp_path, id)


def test_h3_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.memory.md").symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(StoreError, match="leads out of"):
        memory_path(root, "a")
    assert memory_path(root, "b") == root / "b.memory.md"
