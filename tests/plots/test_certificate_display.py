"""The ladder of bounds shows the fields of certificates and reports."""

from __future__ import annotations

import numpy as np
import pytest

import renyi
from renyi.formatting import at_most, percent
from support.noisyrows import noisy

CertificateDisplay = renyi.CertificateDisplay


@pytest.fixture(scope="module")
def clf(votes):
    return renyi.RenyiClassifier().fit(votes[0].iloc[:, :5], votes[1])


def bars(display):
    """The upper bounds as they are drawn."""
    return [container.patches[0].get_width() for container in display.bars_]


def texts(display):
    return [text.get_text() for text in display.ax_.texts]


def names(display):
    return [
        text.get_text() for text in display.ax_.get_yticklabels() if text.get_text()
    ]


def test_bars_and_dots_are_the_fields_of_the_certificate(clf):
    c, display = clf.certificate_, CertificateDisplay.from_estimator(clf)
    assert bars(display) == [c.bounds[rule] for rule in ("map", "renyi", "sharp")]
    dots = [c.loo_error, c.majority[1], c.one_feature[1]]
    np.testing.assert_array_equal(display.dots_.get_xdata(), dots)
    wanted = {
        *(f"≤ {at_most(x)}" for x in bars(display)),
        *(percent(x, 2) for x in dots),
    }
    assert wanted <= set(texts(display))
    assert names(display) == [
        "leave-one-out, rule map",
        "closed form",
        "rule renyi",
        "rule sharp",
        "always answering 'democrat'",
        "'physician-fee-freeze' alone",
    ]


def test_steps_of_a_search_show_what_is_attained(clf):
    c = renyi.certify(clf, clf.marginals_, level="exact")
    display = CertificateDisplay.from_certificate(c)
    uppers = [step.upper for step in c.steps]
    assert len(uppers) > 1
    assert bars(display) == [*uppers, c.bounds["renyi"], c.bounds["sharp"]]
    diamonds = [
        line.get_xdata()[0] for line in display.ax_.lines if line.get_marker() == "D"
    ]
    assert diamonds == [s.lower for s in c.steps if s.lower is not None] != []
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert sorted(legend) == [
        "95 % interval",
        "at most",
        "known or estimated",
        "some population attains it",
    ]


def test_bounds_of_unseen_rows_show_their_confidence(votes):
    c = renyi.CrossFitClassifier(confidence=0.9).fit(*votes).certificate_
    display = CertificateDisplay.from_certificate(c)
    assert bars(display) == [c.sampled_error, *(c.bounds[r] for r in c.bounds)]
    np.testing.assert_array_equal(
        display.dots_.get_xdata(), [c.observed_error, c.majority[1]]
    )
    assert any("90 %" in text for text in texts(display))


def test_without_a_certificate_it_says_what_to_give(votes):
    clf = renyi.MinimaxClassifier().fit(votes[0].iloc[:, :4], votes[1])
    with pytest.raises(TypeError, match="MinimaxClassifier has no certificate: give"):
        CertificateDisplay.from_estimator(clf)
    with pytest.raises(TypeError, match="not a dict"):
        CertificateDisplay.from_certificate({})


def test_doubtful_bounds_are_paler_and_say_why():
    few = renyi.RenyiClassifier().fit(*noisy(60, 20, 4))
    assert few.certificate_.doubtful
    display = CertificateDisplay.from_estimator(few)
    assert "80 categories and only 60 rows" in display.ax_.get_xlabel().replace(
        "\n", " "
    )
    many = CertificateDisplay.from_estimator(renyi.RenyiClassifier().fit(*noisy(400)))
    pale, full = (d.bars_[0].patches[0].get_alpha() for d in (display, many))
    assert pale < full


def test_no_tick_is_above_everything():
    clf = renyi.RenyiClassifier().fit(*noisy(400, n_classes=5))
    assert clf.certificate_.bounds["map"] == 1
    display = CertificateDisplay.from_estimator(clf)
    assert max(display.ax_.get_xticks()) <= 1 < display.ax_.get_xlim()[1]
