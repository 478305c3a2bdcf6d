"""Say which results are of the code as it is: ``python -m experiments [DIR]``.

It lists the folders of results below DIR, by default the committed ones, with the date
and the digest of the code that made their pieces.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from experiments import pieces

RESULTS = Path(__file__).parent / "results"


def main(root: Path = RESULTS) -> None:
    """Print a line for every folder of results."""
    print(f"Digest of the code here: {pieces.digest()}")
    for place in sorted(root.glob(f"*/{pieces.PIECES}")):
        print(line(place.parent))


def line(folder: Path) -> str:
    """Return name, date, and whether all pieces were made by the code as it is."""
    settings = json.loads((folder / pieces.SETTINGS).read_text(encoding="utf-8"))
    codes = pieces.sources(folder)
    state = "this code" if codes == {pieces.digest()} else "other code"
    names = ", ".join(sorted(code or "not recorded" for code in codes))
    begun = settings.get("begun", "no date")
    return f"{folder.name:<12} {begun:<11} {state:<11} {names}"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
