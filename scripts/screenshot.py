"""Make docs/images/report.png: the first screen of the report of kr-vs-kp.

    python scripts/screenshot.py

Needs the Chromium that ``make tools`` unpacks. Without it, the committed picture stays.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "report.png"
TOOLS = ROOT / ".tools" / "usr" / "bin"
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
TITLE = "Will White win?"
WIDTH = 1120
HEIGHT = 900


def browser() -> str | None:
    """Return a Chromium, unpacked by ``make tools`` or on the PATH."""
    places = [shutil.which(name, path=TOOLS) for name in BROWSERS]
    places += [shutil.which(name) for name in BROWSERS]
    return next(filter(None, places), None)


def renyi(*arguments: str) -> None:
    """Run a command of renyi."""
    command = [sys.executable, "-m", "renyi", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def shoot(program: str, page: Path, picture: Path) -> None:
    """Write the picture of a page, as it looks on a light screen."""
    command = [
        program,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--window-size={WIDTH},{HEIGHT}",
        f"--screenshot={picture}",
        page.as_uri(),
    ]
    subprocess.run(command, check=True, timeout=120, stderr=subprocess.DEVNULL)


def main() -> None:
    """Fit, report, and take the picture."""
    program = browser()
    if program is None:
        print("No Chromium: docs/images/report.png stays ('make tools' unpacks one).")
        return
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "kr-vs-kp"
        page = Path(folder) / "report.html"
        renyi("fit", "kr-vs-kp", "--out", str(model))
        renyi("report", f"{model}.json", "--title", TITLE, "--out", str(page))
        shoot(program, page, PICTURE)
    print(f"Wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
