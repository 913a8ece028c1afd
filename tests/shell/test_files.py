"""Files that are read again: only from inside the roots, only texts, only so much (C2, H3, H4). Links and FIFOs are real."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from fivefold.core.events import FilesRead, RestoredFile
from fivefold.errors import InputError
from fivefold.files import FileReader, _open


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An allowed root with a file; beside it a secret."""
    made = tmp_path / "project"
    (made / "src").mkdir(parents=True)
    (made / "src" / "main.py").write_text("print('hello')\n")
    (tmp_path / "secret.txt").write_text("SECRET")
    return made


def skipped(root: Path, *paths: str) -> list[str]:
    """The reasons why none of these paths was read."""
    files, why = FileReader([root]).read(paths)
    assert files == ()
    return list(why)


def test_c2_files_come_in_the_order_asked_for_under_the_paths_asked_for(root: Path) -> None:
    (root / "a.txt").write_text("é\r\n世界", newline="")
    asked = [str(root / "a.txt"), "src/main.py", "./src/../a.txt"]
    files, why = FileReader([root]).read(asked)
    assert files == (
        RestoredFile(asked[0], "é\r\n世界"),
        RestoredFile(asked[1], "print('hello')\n"),
        RestoredFile(asked[2], "é\r\n世界"),
    )
    assert why == ()


def test_c2_it_is_read_as_it_is_now(root: Path) -> None:
    reader = FileReader([root])
    reader.read(["src/main.py"])
    (root / "src" / "main.py").write_text("changed")
    assert reader(["src/main.py", "gone"]) == FilesRead(
        files=(RestoredFile("src/main.py", "changed"),), skipped=("gone: it is not there any more",)
    )


def test_c2_what_cannot_be_read_is_skipped_with_its_reason_and_the_others_are_read(root: Path) -> None:
    (root / "binary").write_bytes(b"PNG\0\1\2")
    (root / "latin").write_bytes("caf\xe9 \xfc".encode("latin-1"))
    (root / "utf16").write_text("text", encoding="utf-16")
    asked = ["gone.py", "binary", "latin", "utf16", "src", ".", "src/main.py/x", "a\0b", "\ud800", "x" * 5000, "src/main.py"]
    files, why = FileReader([root]).read(asked)
    assert [file.path for file in files] == ["src/main.py"]
    assert [text.split(": ", 1)[1].split(" (")[0] for text in why] == [
        "it is not there any more",
        "it is binary",
        "it is binary, or text that is not UTF-8",
        "it is binary",
        "it is a directory",
        "it is a directory",
        "it can't be read",
        "it can't be read",
        "it can't be read",
        "it can't be read",
    ]
    assert "byte 0xe9 at 3" in why[2] and all(len(text) < 600 for text in why)


def test_c2_a_name_that_is_no_text_is_skipped_and_told_as_text(root: Path) -> None:
    """Its path would stand in the conversation, which could then not be stored."""
    (root / os.fsdecode(b"caf\xe9")).write_text("x")
    (why,) = skipped(root, os.fsdecode(b"caf\xe9"))
    assert why.encode().startswith(b"caf?: it can't be read")


def test_c2_a_file_without_permission_is_skipped(root: Path) -> None:
    (root / "locked").write_text("x")
    (root / "locked").chmod(0)
    files, why = FileReader([root]).read(["locked", "src/main.py"])
    if os.geteuid() == 0:  # root reads everything
        assert [file.path for file in files] == ["locked", "src/main.py"]
    else:
        assert [file.path for file in files] == ["src/main.py"] and "Permission denied" in why[0]


def test_c2_a_byte_order_mark_is_not_part_of_the_text(root: Path) -> None:
    (root / "marked").write_bytes(b"\xef\xbb\xbfabc")
    assert FileReader([root]).read(["marked"])[0] == (RestoredFile("marked", "abc"),)


def test_c2_an_empty_file_is_a_file(root: Path) -> None:
    (root / "empty").touch()
    assert FileReader([root]).read(["empty"]) == ((RestoredFile("empty", ""),), ())


# --- inside the roots


@pytest.mark.parametrize("path", ["../secret.txt", "src/../../secret.txt", "/etc/passwd", "/etc/no-such-file", "src/../../../x"])
def test_h3_paths_that_lead_outside_are_refused_and_do_not_tell_what_is_there(root: Path, path: str) -> None:
    assert skipped(root, path) == [f"{path}: it lies outside the allowed roots"]


def test_h3_an_absolute_path_outside_is_refused(root: Path) -> None:
    assert "outside" in skipped(root, str(root.parent / "secret.txt"))[0]


def test_h3_a_sibling_whose_name_begins_like_the_root_is_outside(root: Path) -> None:
    other = root.parent / "project-2"
    other.mkdir()
    (other / "x").write_text("SECRET")
    assert "outside" in skipped(root, str(other / "x"))[0]


def test_h3_links_out_of_the_root_are_refused_whatever_their_kind(root: Path) -> None:
    (root / "file").symlink_to(root.parent / "secret.txt")
    (root / "dir").symlink_to(root.parent)
    (root / "again").symlink_to("file")
    (root / "relative").symlink_to("../secret.txt")
    (root / "nowhere").symlink_to(root.parent / "no-such-file")
    why = skipped(root, "file", "dir/secret.txt", "again", "relative", "nowhere", "dir/project/../secret.txt")
    assert all(text.endswith("it lies outside the allowed roots") for text in why) and len(why) == 6


def test_h3_dots_behind_a_link_mean_what_the_system_means(root: Path) -> None:
    """``link/..`` is the parent of what the link leads to, not of the link."""
    (root.parent / "elsewhere" / "deep").mkdir(parents=True)
    (root.parent / "elsewhere" / "src").mkdir()
    (root.parent / "elsewhere" / "src" / "main.py").write_text("SECRET")
    (root / "link").symlink_to(root.parent / "elsewhere" / "deep")
    assert "outside" in skipped(root, "link/../src/main.py")[0]


def test_h3_links_inside_the_root_are_followed(root: Path) -> None:
    (root / "link").symlink_to("src/main.py")
    (root / "lib").symlink_to("src")
    files, why = FileReader([root]).read(["link", "lib/main.py"])
    assert [file.text for file in files] == ["print('hello')\n"] * 2 and why == ()


def test_h3_a_root_may_itself_be_reached_by_a_link(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    files, why = FileReader([link]).read(["src/main.py", str(link / "src" / "main.py"), str(root / "src" / "main.py")])
    assert len(files) == 3 and why == ()


def test_h3_a_loop_of_links_ends(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    assert skipped(root, "a") == ["a: it is a link that leads nowhere"]


def test_h3_several_roots_and_relative_paths_belong_to_the_first(root: Path) -> None:
    second = root.parent / "notes"
    second.mkdir()
    (second / "n.md").write_text("note")
    files, why = FileReader([root, second]).read([str(second / "n.md"), "n.md", "../notes/n.md"])
    assert [file.path for file in files] == [str(second / "n.md"), "../notes/n.md"]
    assert why == ("n.md: it is not there any more",)


def test_h3_without_a_root_nothing_is_read(root: Path) -> None:
    files, why = FileReader([]).read([str(root / "src" / "main.py"), "src/main.py"])
    assert files == () and all("no root is allowed" in text for text in why)


def test_h3_a_link_put_in_the_way_after_the_path_was_resolved_is_not_followed(root: Path) -> None:
    """What a race would do: the resolved path holds a link after all."""
    (root / "src" / "swapped").symlink_to(root.parent / "secret.txt")
    (root / "swapped").symlink_to(root.parent)
    for parts in (("src", "swapped"), ("swapped", "secret.txt")):
        with pytest.raises((OSError, InputError)):
            _open(root, parts)


# --- neither devices nor without end


def test_h4_a_fifo_is_refused_and_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.extend(skipped(root, "pipe")), daemon=True)
    thread.start()
    thread.join(10)
    assert found == ["pipe: it is a FIFO"]


def test_h4_sockets_and_devices_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)  # a socket's path has to be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        assert skipped(root, "sock") == ["sock: it is a socket"]
    assert FileReader([Path("/dev")]).read(["/dev/zero", "/dev/null"]) == (
        (),
        ("/dev/zero: it is a device", "/dev/null: it is a device"),
    )


def test_h4_of_a_large_file_only_the_start_is_read_and_that_is_said_twice(root: Path) -> None:
    (root / "large").write_text("0123456789" * 1000)
    files, why = FileReader([root], most_bytes=25).read(["large"])
    assert files == (RestoredFile("large", "0123456789012345678901234\n[… only the first 25 of 10,000 bytes were read]"),)
    assert why == ("large: only the first 25 of 10,000 bytes were read",)


def test_h4_a_file_as_large_as_the_bound_is_whole(root: Path) -> None:
    (root / "even").write_text("x" * 25)
    assert FileReader([root], most_bytes=25).read(["even"]) == ((RestoredFile("even", "x" * 25),), ())


def test_h4_the_bound_inside_a_character_makes_no_file_binary(root: Path) -> None:
    (root / "wide").write_text("世" * 100)
    files, _ = FileReader([root], most_bytes=10).read(["wide"])
    assert files[0].text.startswith("世世世\n[…")


def test_h4_a_huge_file_costs_only_its_start(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.write(b"start ")
        file.truncate(1 << 40)  # a hole: a terabyte that takes no room
    files, _ = FileReader([root], most_bytes=6).read(["huge"])
    assert files[0].text.startswith("start \n[… only the first 6 of 1,099,511,627,776 bytes")
    assert skipped(root, "huge") == ["huge: it is binary (it holds a NUL byte)"]
