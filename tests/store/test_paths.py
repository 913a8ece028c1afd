"""A session id is never a path unchecked (H3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fivefold.errors import StoreError
from fivefold.store.paths import MAX_ID_BYTES, session_path
from fivefold.store.session import Session


@pytest.mark.parametrize("id", ["a", "0198-ab_c.d", "会话 1", "x" * MAX_ID_BYTES, "..a", "a..b", "~", "-rf", ".hidden"])
def test_h3_a_plain_name_becomes_a_file_in_the_folder(tmp_path: Path, id: str) -> None:
    path = session_path(tmp_path, id)
    assert path == tmp_path / f"{id}.jsonl"
    Session.create(path).close()
    assert path.is_file()


@pytest.mark.parametrize(
    "id",
    [
        "",
        ".",
        "..",
        "...",
        ". .",
        " ",
        "/etc/passwd",
        "../up",
        "a/b",
        "a\\b",
        "C:x",
        "a:stream",
        "nul\0",
        "line\nend",
        "\x1b[31m",
        "\u202egnp",
        "\ud800",
        "x" * (MAX_ID_BYTES + 1),
        "界" * 67,
    ],
)
def test_h3_anything_else_is_refused_by_name(tmp_path: Path, id: str) -> None:
    with pytest.raises(StoreError, match="session id"):
        session_path(tmp_path, id)
    assert list(tmp_path.iterdir()) == []


def test_h3_a_link_may_lead_elsewhere_in_the_folder_but_not_out_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    (folder / "old").mkdir(parents=True)
    (tmp_path / "secret.jsonl").write_text("secret")
    (folder / "out.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (folder / "not there.jsonl").symlink_to(tmp_path / "not there.jsonl")
    (folder / "ring.jsonl").symlink_to(folder / "ring.jsonl")
    (folder / "in.jsonl").symlink_to(folder / "old" / "in.jsonl")
    for id in ("out", "not there"):
        with pytest.raises(StoreError, match="leads out of"):
            session_path(folder, id)
    with pytest.raises(StoreError):
        Session.create(session_path(folder, "ring"))
    assert session_path(folder, "in") == folder / "in.jsonl"


def test_h3_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert session_path(tmp_path / "link", "a") == tmp_path / "link" / "a.jsonl"
