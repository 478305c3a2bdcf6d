"""Write the golden files: the tests show that the code reads what it wrote.

After a release, a golden file is never written again: the tests show that later code
still reads it. Run ``python tests/golden/make.py`` only after a change of a format that
is meant; if that format was released, raise its version in the names below.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import renyi

HERE = Path(__file__).parent

X = pd.DataFrame(
    {
        "vote": ["y", "n", "?", "y", "n", "y", "n", "y"],
        "age": [30.5, 41.0, 55.25, 38.0, 0.0, 0.0, 0.0, 0.0],
        "town": ["Åbo", "Åbo", "Oslo", "Åbo", "Oslo", "Rome", "Åbo", "Oslo"],
    }
)
y = pd.Series([0, 1, 1, 0, 1, 0, 1, 1], name="party")
ENCODER = renyi.Encoder(missing=("?", -9), min_count=2, bins=3)


def main() -> None:
    """Write the files of the present versions beside this script."""
    m = renyi.Marginals.from_data(X, y, encoder=ENCODER, class_conditional=True)
    m.save(HERE / "marginals-v1.renyi")
    clf = renyi.RenyiClassifier(alpha=0.125, encoder=ENCODER).fit(X, y)
    clf.save(HERE / "model-v1.json")
    groups = pd.Series([*"abcabcaa"], name="group")
    clf = renyi.RenyiClassifier(alpha=0.125, calibration="affine", encoder=ENCODER)
    clf.fit(X, groups).save(HERE / "model-v1-classes.json")
    safe = renyi.CrossFitClassifier(renyi.RenyiClassifier(alpha=0.125, encoder=ENCODER))
    safe.fit(X, y).save(HERE / "model-v1-halves.json")


if __name__ == "__main__":
    main()
