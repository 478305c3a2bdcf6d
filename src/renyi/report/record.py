"""Report: everything that is shown of a model, as one record of plain values.

Page, ``report.json`` and model card are readers of it, and compute nothing of their
own. It is built (`renyi.report.build`) from a model and from counts, never from rows;
of held-out rows it holds sums: bins, points of a curve, a table of classes.

What a row scores is ``intercept + Σ points`` over the features, at the category that
its columns give it: column j's code itself where a feature is of one column, else the
place in `keys` of the columns' codes counted as one number; `new` where it is not
there, and `unseen` where a label was never seen. With t = 1/K + score (of two classes
[1/2 − s, 1/2 + s]), probabilities are ∝ exp(slope·t), or nearest to t without a slope.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from renyi.report.parts import (
    Card,
    Column,
    Data,
    Feature,
    Heldout,
    PathStep,
    Rung,
    Scale,
    Texts,
    Tile,
    Worst,
)
from renyi.storage import to_bytes
from renyi.writing import encoded, replace_together

if TYPE_CHECKING:
    import os

FORMAT = "renyi-report"
VERSION = 1


def record_place(page: Path) -> Path:
    """Return where the record of a page goes: never where its model may be.

    >>> str(record_place(Path("report.html"))), str(record_place(Path("votes.html")))
    ('report.json', 'votes.report.json')
    """
    ours = page.stem.endswith("report")
    return page.with_suffix(".json" if ours else ".report.json")


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that is shown of a model; `RenyiClassifier.report` makes one.

    In a notebook it shows itself; `save` writes it as a page of one file.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> report = renyi.RenyiClassifier().fit(X, y).report()
    >>> report.tiles[0].value, report.features[0].name
    ('4.6 %', 'physician-fee-freeze')
    """

    title: str
    verdict: str
    warnings: Texts
    tiles: tuple[Tile, ...]
    target: str | None
    classes: Texts
    rule: str
    data: Data
    certificate: dict[str, Any] | None
    ladder: tuple[Rung, ...]
    columns: tuple[Column, ...]
    features: tuple[Feature, ...]  # the most important first
    left_out: int  # features that are only in the model file
    scale: Scale
    made: dict[str, str]
    ranking: Texts = ()  # what holds at any prevalence
    card: Card | None = None
    path: tuple[PathStep, ...] = ()
    heldout: Heldout | None = None
    worst: Worst | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    def to_html(self) -> str:
        """Return the page."""
        from renyi.report.sections import report_page

        return report_page(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, and the same as JSON beside it (`record_place`)."""
        place = Path(path)
        if place.suffix not in (".html", ".htm"):
            raise ValueError(f"{place} must end in .html: a report is a page.")
        whole, plain = encoded(self.to_html()), to_bytes(self.to_dict(), indent=1)
        replace_together(
            {
                place: lambda stream: stream.write(whole),
                record_place(place): lambda stream: stream.write(plain + b"\n"),
            }
        )

    def save_card(
        self,
        folder: str | os.PathLike[str],
        model: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the model card: README.md, and modelcard.cdx.json of CycloneDX.

        A README that is no model card is not written over. Of a model file, the card
        tells name and digest.
        """
        from renyi.report import card

        place = Path(folder)
        card.check_place(place)
        digest, file = None, None
        if model is not None:
            file = Path(model).name
            digest = hashlib.sha256(Path(model).read_bytes()).hexdigest()
        text = encoded(card.readme(self, file))
        plain = to_bytes(card.bill(self, digest), indent=1) + b"\n"
        replace_together(
            {
                place / card.README: lambda stream: stream.write(text),
                place / card.BILL: lambda stream: stream.write(plain),
            }
        )

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, for a notebook."""
        inside = escape(encoded(self.to_html()).decode(), quote=True)
        return (
            f'<iframe title="{escape(self.title, quote=True)}" srcdoc="{inside}" '
            'width="100%" height="720" style="border:0" '
            'sandbox="allow-scripts"></iframe>'
        )
