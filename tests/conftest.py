"""What all tests share: no network but this machine's own, one Hypothesis profile, and a real browser."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOOPBACK = ("127.", "::1", "localhost")
NO_PHONING_HOME = (
    "--no-sandbox",  # root has no sandbox; the pages are our own files
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

settings.register_profile("fivefold", deadline=None, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("fivefold")


def refuse_network(event: str, args: tuple[object, ...]) -> None:
    """An audit hook: a test that reaches for another machine fails, before anything is sent."""
    if event != "socket.connect":
        return
    address = args[1]
    if isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK):
        raise RuntimeError(f"a test tried to reach {address[0]}: tests use no network")


sys.addaudithook(refuse_network)


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the source tree."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, headless, driven by playwright."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert path, "no Chromium on this machine: `make test` as root installs it, else install your system's package"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(NO_PHONING_HOME))
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page without a network. An error in its scripts, or a request for anything but a file, fails the test."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    errors: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on(
        "request", lambda request: asked.append(request.url) if not request.url.startswith(("file:", "data:", "blob:", "about:")) else None
    )
    yield page
    context.close()
    assert not errors, errors
    assert not asked, f"the page asked the network for {asked}"
