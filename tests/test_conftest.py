"""The guards that all other tests rely on do guard."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page


def test_reaching_another_machine_is_refused_before_anything_is_sent() -> None:
    with socket.socket() as connection, pytest.raises(RuntimeError, match="tests use no network"):
        connection.connect(("192.0.2.1", 80))  # an address that is kept for documentation and is nobody's


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        assert connection.getpeername() == server.getsockname()


def test_the_browser_is_a_real_one_and_runs_scripts(page: Page, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<h1>one</h1><script>document.querySelector('h1').textContent = [1, 2].at(-1)</script>")
    page.goto((tmp_path / "page.html").as_uri())
    assert page.inner_text("h1") == "2"
