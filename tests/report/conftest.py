"""One browser for all tests of pages; they are of one group, hence in one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.browser import chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, started once."""
    from playwright.sync_api import sync_playwright

    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium: 'make tools' unpacks one")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"]
        )
        yield started
        started.close()
