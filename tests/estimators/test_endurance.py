"""Threads that predict for a long time: the same answers, and memory stays flat."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from renyi import RenyiClassifier
from renyi.counting.compiled import load as load_loops
from renyi.datasets import load

THREADS = 8
MOST = 32 * 2**20  # bytes by which memory may grow after the first fifth


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def _predict(seconds: float) -> tuple[int, int]:
    """Predict in eight threads; return rounds, and the growth of resident memory."""
    X, y = load("votes")
    clf = RenyiClassifier().fit(X, y)
    labels, shares = clf.predict(X), clf.predict_proba(X)
    load_loops("renyi.counting.kernels")  # 110 MB, else loaded after 2,500 rounds
    end, rounds, wrong = time.monotonic() + seconds, [0] * THREADS, []

    def work(k: int) -> None:
        rows = np.random.default_rng(k)
        while time.monotonic() < end and not wrong:
            some = rows.permutation(len(X))[: 50 + 40 * k]
            part = X.iloc[some]
            same = np.array_equal(clf.predict(part), labels[some])
            if not same or not np.array_equal(clf.predict_proba(part), shares[some]):
                wrong.append(k)
            rounds[k] += 1

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    seen = []
    while any(thread.is_alive() for thread in threads):
        seen.append(_resident())
        time.sleep(seconds / 50)
    for thread in threads:
        thread.join()
    assert not wrong
    return sum(rounds), max(seen) - max(seen[: max(1, len(seen) // 5)])


@pytest.mark.long
def test_threads_predict_the_same_with_memory_flat():
    rounds, growth = _predict(2.0)
    assert rounds >= THREADS
    assert growth < MOST


@pytest.mark.long
def test_threads_predict_for_long_with_memory_flat(record_property):
    seconds = float(os.environ.get("RENYI_ENDURANCE_SECONDS", "120"))
    rounds, growth = _predict(seconds)
    record_property("rounds", rounds)
    record_property("growth", growth)
    print(f"{rounds:,} rounds of {THREADS} threads in {seconds:g} s, {growth:+,} bytes")
    assert growth < MOST
