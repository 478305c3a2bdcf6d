"""Which variant of a file is which of a model, and which of its alleles is counted."""

from __future__ import annotations

import numpy as np
import pytest

from support.scores import (
    check_scores,
    model_of,
    plain_scores,
    random_study,
    study,
    variants_of,
)

FLIPPED = [3, 1, 2, 0]


@pytest.mark.parametrize(
    ("alleles", "swapped", "turned"),
    [(("A", "G"), 0, 0), (("G", "A"), 1, 0), (("T", "C"), 0, 1), (("C", "T"), 1, 1)],
)
@pytest.mark.parametrize("by", ["id", "position"])
def test_alleles_are_swapped_and_read_on_the_other_strand(alleles, swapped, turned, by):
    data = random_study()
    model = model_of(data)
    variants = data.variants.copy()
    variants[["a1", "a2"]] = alleles
    if by == "position":
        variants["id"] = [
            f"chr{c}:{p}" for c, p in variants[["chromosome", "position"]].values
        ]
        variants["chromosome"] = "chr" + variants["chromosome"]
    codes = np.array(FLIPPED)[data.codes] if swapped else data.codes
    other = study(codes[::-1], variants[::-1].reset_index(drop=True))
    found = model.score(other)
    np.testing.assert_allclose(
        found.scores, plain_scores(model, data.codes), atol=1e-12
    )
    record = found.record
    assert (record.swapped, record.complemented) == (60 * swapped, 60 * turned)
    assert (record.by_id, record.by_position) == ((60, 0) if by == "id" else (0, 60))


def palindromic_study(frequency, n=400, seed=5, alleles=("A", "T"), extra=True):
    """One A/T variant at a frequency of A1, and one that is clear."""
    rng = np.random.default_rng(seed)
    copies = rng.binomial(2, frequency, n)
    codes = np.array([3, 2, 0])[copies]
    rows = [("1", "pal", 10, *alleles)]
    other = [("1", "clear", 20, "A", "G")]
    return study([codes, rng.choice([0, 2, 3], n)], variants_of(*rows, *other))


@pytest.mark.parametrize("named", [("A", "T"), ("T", "A")])
@pytest.mark.parametrize("frequency", [0.2, 0.8])
def test_frequencies_decide_palindromic_variants(named, frequency):
    data = palindromic_study(0.2)
    model = model_of(data)
    other = palindromic_study(frequency, seed=6, alleles=named)
    other.variants.loc[1, "position"] = 21  # not the same list
    found = model.score(other)
    codes = other.codes.copy()
    if frequency == 0.8:  # its first allele is the model's second
        codes[0] = np.array(FLIPPED)[codes[0]]
    check_scores(found, model, codes)
    assert found.record.by_frequency == 1
    assert found.record.swapped == (frequency == 0.8)


@pytest.mark.parametrize("pair", [("A", "T"), ("G", "C")])
def test_palindromic_variants_of_even_frequency_are_dropped_by_name(pair):
    data = palindromic_study(0.5, alleles=pair)
    model = model_of(data)
    other = palindromic_study(0.2, seed=6, alleles=pair)
    other.variants.loc[1, "position"] = 21
    found = model.score(other)
    assert found.record.counts == {"palindromic": 1}
    assert "pal" in str(found.record)
    rest = model.points[1, other.codes[1]] + model.variants["mean"][0]
    np.testing.assert_allclose(found.scores, rest, atol=1e-12)
    kept = model.score(other, same_strand=True)
    np.testing.assert_allclose(
        kept.scores, plain_scores(model, other.codes), atol=1e-12
    )
    assert not kept.record.counts


def test_the_training_file_itself_loses_no_variant():
    data = palindromic_study(0.5)
    model = model_of(data)
    found = model.score(data)
    np.testing.assert_allclose(
        found.scores, plain_scores(model, data.codes), atol=1e-12
    )


def test_what_is_absent_or_has_other_alleles_is_dropped_by_name():
    data = random_study(d=6)
    model = model_of(data)
    variants = data.variants.copy()
    variants.loc[0, ["a1", "a2"]] = ["A", "C"]
    variants.loc[1, ["id", "position"]] = ["other", 9]
    found = model.score(study(data.codes, variants))
    assert found.record.counts == {"absent": 1, "alleles": 1}
    names = dict(found.record.dropped[["id", "reason"]].values)
    assert names == {"rs0": "alleles", "rs1": "absent"}
    rest = model.points[np.arange(2, 6)[:, None], data.codes[2:]].sum(axis=0)
    wanted = rest + model.variants["mean"][:2].sum()
    np.testing.assert_allclose(found.scores, wanted, atol=1e-12)


def test_split_multiallelic_sites_are_told_apart_by_alleles():
    rows = [
        ("1", ".", 10, "A", "G"),
        ("1", ".", 10, "A", "C"),
        ("1", ".", 11, "A", "C"),
    ]
    rng = np.random.default_rng(0)
    data = study(rng.choice([0, 2, 3], (3, 20)), variants_of(*rows))
    model = model_of(data)
    order = [1, 2, 0]
    other = study(data.codes[order], data.variants.iloc[order].reset_index(drop=True))
    found = model.score(other)
    np.testing.assert_allclose(
        found.scores, plain_scores(model, data.codes), atol=1e-12
    )
    doubled = study(data.codes[[0, 0, 2]], variants_of(rows[0], rows[0], rows[2]))
    counts = model.score(doubled).record.counts
    assert counts == {"alleles": 1, "ambiguous": 1}


def test_an_allele_that_no_sample_has_agrees_with_any():
    data = random_study(d=4)
    data.variants["a1"] = "0"
    model = model_of(data)
    variants = data.variants.assign(a1="A")
    found = model.score(study(data.codes, variants))
    np.testing.assert_allclose(
        found.scores, plain_scores(model, data.codes), atol=1e-12
    )
    turned = study(np.array(FLIPPED)[data.codes], variants.assign(a1="G", a2="T"))
    found = model.score(turned)
    np.testing.assert_allclose(
        found.scores, plain_scores(model, data.codes), atol=1e-12
    )


def test_positions_of_another_build_are_not_compared():
    data = random_study()
    model = model_of(data, build="GRCh37")
    variants = data.variants.copy()
    variants.loc[:9, "id"] = "."
    other = study(data.codes, variants)
    assert model.score(other, build="hg19").record.by_position == 10
    record = model.score(other, build="hg38").record
    assert (record.by_position, record.counts) == (0, {"absent": 10})
    assert "GRCh38" in str(record)
    variants["position"] += 5  # which tells of another build, too
    record = model.score(other).record
    assert (record.by_position, record.moved) == (0, 50)


def test_nothing_in_common_is_an_error_that_names_the_file():
    model = model_of(random_study())
    other = random_study()
    other.variants[["id", "position"]] = [["x", 1]] * 60
    with pytest.raises(ValueError, match=r"study\.bed"):
        model.score(other)
