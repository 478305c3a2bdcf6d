"""A mechanism of one's own: marginals to marginals, with a record of the release."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import renyi
from renyi.marginals.arithmetic import Mechanism


@dataclasses.dataclass(frozen=True)
class Blend:
    """Mix the counts with those of independent columns of the same margins.

    The mixture of two distributions is one, so that what is released is possible.
    """

    share: float

    def __call__(self, m):
        margins = np.diag(m.counts).astype(float)
        owner = np.repeat(np.arange(len(m.columns)), m.columns.sizes)
        apart = owner[:, None] != owner
        alone = np.where(apart, np.outer(margins, margins) / m.n, np.diag(margins))
        record = {"mechanism": "blend", "share": self.share}
        return dataclasses.replace(
            m,
            counts=(1 - self.share) * m.counts + self.share * alone,
            class_counts=None,
            provenance={**m.provenance, "uncertainty": record},
        )


MECHANISM: Mechanism = Blend(0.25)


def test_a_release_is_trained_on_certified_and_kept(tmp_path):
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    released = MECHANISM(m).validate()
    clf = renyi.RenyiClassifier(alpha=0.01).fit_marginals(released)
    assert clf.certificate_.gamma > renyi.certify(clf, m).gamma
    released.save(tmp_path / "released.renyi")
    again = renyi.Marginals.load(tmp_path / "released.renyi")
    assert again == released
    for kept in (again, again.select(["crime"]), again.with_target("crime")):
        assert kept.provenance["uncertainty"]["share"] == 0.25


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_record_does_not_change_the_margins(share):
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    released = Blend(share)(m)
    np.testing.assert_allclose(np.diag(released.counts), np.diag(m.counts))
    if share == 0:
        np.testing.assert_array_equal(released.counts, m.counts)
