"""The README is short, pages name what exists, and the reference has every name."""

from __future__ import annotations

import re
from pathlib import Path

import renyi

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def test_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8")) <= 6000


def test_reference_lists_every_public_name() -> None:
    page = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ([\w.]+)$", page, re.MULTILINE))
    folders = ("baselines", "datasets")
    public = {name for name in renyi.__all__ if name not in folders}
    public |= {"warnings.DataWarning"}
    for folder in folders:
        names = getattr(renyi, folder).__all__
        public |= {f"{folder}.{name}" for name in names}
    assert listed == public


def test_changelog_and_citation_know_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## [{renyi.__version__}] - " in changelog
    assert f"\nversion: {renyi.__version__}\n" in citation


def test_modules_beside_the_papers_letters_exist() -> None:
    page = (ROOT / "docs" / "paper.rst").read_text(encoding="utf-8")
    named = re.findall(r"``([\w/]+(?:\.py|/))``", page)
    assert len(named) > 10
    for name in named:
        assert (ROOT / "src" / "renyi" / name).exists() or (ROOT / name).exists(), name


def test_every_result_file_has_a_page() -> None:
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.rst"))
    named = re.findall(r"^\.\. results:: (\S+)$", pages, re.MULTILINE)
    assert len(named) > 20
    for name in named:
        assert (ROOT / name).is_file(), name
    tables = (ROOT / "experiments" / "results").glob("*/table.md")
    assert {path.relative_to(ROOT).as_posix() for path in tables} <= set(named)


def test_modules_that_contributors_are_sent_to_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| .* \| (.*) \|$", page.partition("## Where is what")[2], re.M
    )
    named = [name for row in rows for name in re.findall(r"`([\w/]+\.\w+)`", row)]
    assert 18 <= len(rows) - 1 <= 26
    assert len(named) > 30
    folder = ROOT / "src" / "renyi"
    for name in named:
        # Without a folder, it is in the one named before, or in the package.
        assert [*folder.glob(name), *folder.glob(f"*/{name}")], name
