"""A thousand mutated files, and what the fuzzer must catch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.__main__ import Campaign, attempt, make, table
from fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]


def test_mutated_files_are_refused_or_consistent(tmp_path):
    campaign = Campaign("fuzz.targets", tmp_path / "found")
    campaign.run(15 * sum(target.share for target in TARGETS.values()), jobs=1)
    assert campaign.found == [], campaign.found[0].read_text("utf-8")
    for name, counts in campaign.counts.items():
        assert counts["tried"] == counts["refused"] + counts["accepted"]
        assert counts["tried"] == 15 * TARGETS[name].share
        assert counts["refused"] and counts["accepted"]


@pytest.mark.long
def test_no_false_claim_is_proved(tmp_path):
    campaign = Campaign("fuzz.targets", tmp_path / "found")
    campaign.targets = {k: TARGETS[k] for k in ("claims", "counts", "proof")}
    campaign.run(inputs=20_000, jobs=1)  # `make fuzz` tries a million
    assert campaign.found == [], campaign.found[0].read_text("utf-8")


@pytest.mark.parametrize("name", TARGETS)
def test_unchanged_files_are_accepted(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for raw in TARGETS[name].seeds():
        place = tmp_path / f"seed{TARGETS[name].ending}"
        place.write_bytes(raw)
        assert attempt(TARGETS[name], place) == ("accepted", "")


@pytest.mark.parametrize("name", TARGETS)
def test_a_case_is_made_from_its_number(name):
    made = [make(TARGETS[name], name, number) for number in range(50)]
    assert made == [make(TARGETS[name], name, number) for number in range(50)]
    assert len(set(made)) > 40


def test_every_kind_of_failure_is_found_and_attributed(tmp_path):
    campaign = Campaign("fuzz.planted", tmp_path / "found", seconds=1)
    campaign.run(inputs=8, jobs=2)
    counts = {name: dict(each) for name, each in campaign.counts.items()}
    for name in ("crash", "hang", "hoard", "leak", "mumble", "false"):
        assert counts[name]["found"] == counts[name]["tried"] == 1, name
    assert counts["refused"]["refused"] == counts["accepted"]["accepted"] == 1
    notes = {n.name.split("-")[0]: n.read_text("utf-8") for n in campaign.found}
    said = {"crash": "Segmentation fault", "hang": "Timeout", "hoard": "MemoryError"}
    said |= {"leak": "codec", "mumble": "which file", "false": "do not add up"}
    assert {name: words in notes[name] for name, words in said.items()} == (
        dict.fromkeys(said, True)
    )
    assert "all" in table(campaign.counts)


def test_a_finding_is_tried_again(tmp_path):
    place = tmp_path / "leak-0.bin"
    place.write_bytes(b"\xff")
    command = [sys.executable, "-m", "fuzz", "--targets", "fuzz.planted", "--replay"]
    path = {"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'src'}"}
    done = subprocess.run([*command, place], env=path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "UnicodeDecodeError" in done.stdout
