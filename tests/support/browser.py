"""A real headless Chromium for the pages, and what it says of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_BESIDE = Path(__file__).parents[2] / ".tools" / "usr" / "bin"
_NAMES = ("chromium-headless-shell", "chromium", "google-chrome")


def chromium() -> str | None:
    """Return the program, on the PATH or unpacked by `make tools`."""
    found = (shutil.which(name) or shutil.which(name, path=_BESIDE) for name in _NAMES)
    return next(filter(None, found), None)


@contextmanager
def opened(browser: Any, path: Path, **context: Any) -> Iterator[Any]:
    """Open a file; at the end no error, no dialog and no other request may have been.

    The page has `requests` and `complaints`.
    """
    with browser.new_context(**context) as own:
        page = own.new_page()
        page.complaints, page.requests = [], []
        page.on("console", lambda said: page.complaints.append(said.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("dialog", lambda shown: page.complaints.append(shown.message))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(path.as_uri())
        yield page
        assert page.complaints == []
        assert page.requests == [path.as_uri()]
