"""What of the products on a GPU can be tested without one.

The products themselves are compared with the CPU's by ``benchmarks/genotypes_gpu.py``,
on a machine that has a GPU.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from renyi.genotypes import gpu
from renyi.genotypes.packed import PackedGenotypes


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """Let every test look for CuPy itself."""
    gpu.module.cache_clear()
    yield
    gpu.module.cache_clear()


def genotypes() -> PackedGenotypes:
    return PackedGenotypes.from_codes(np.random.default_rng(0).integers(0, 4, (9, 7)))


def test_the_kernels_that_are_launched_are_in_their_file() -> None:
    source = gpu.kernel_source()
    launched = re.findall(r'_launch\(\s*"(\w+)"', inspect.getsource(gpu))
    assert len(launched) == 6
    for name in launched:
        assert re.search(rf"__global__[^;{{]* {name}\(", source), name


def test_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"\.\[gpu\].*or use the CPU"):
        gpu.DeviceGenotypes(genotypes())


@pytest.mark.parametrize("fails", [False, True])
def test_without_a_gpu(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def count() -> int:
        if fails:
            raise RuntimeError("no driver")
        return 0

    runtime = SimpleNamespace(getDeviceCount=count, CUDARuntimeError=RuntimeError)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(ValueError, match=r"NVIDIA GPU.*device='cpu'"):
        gpu.DeviceGenotypes(genotypes())


def test_a_gpu_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=RuntimeError)
    device = SimpleNamespace(compute_capability="75")
    cuda = SimpleNamespace(runtime=runtime, Device=lambda: device)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    with pytest.raises(ValueError, match=r"8\.0 .*has 7\.5.*device='cpu'"):
        gpu.DeviceGenotypes(genotypes())


def test_a_gpu_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimpleNamespace(mem_info=(100, 100))
    cupy = SimpleNamespace(cuda=SimpleNamespace(Device=lambda: device))
    monkeypatch.setattr(gpu, "module", lambda: (cupy, None))
    with pytest.raises(MemoryError, match="7 samples of 9 variants"):
        gpu.DeviceGenotypes(genotypes())
    monkeypatch.undo()


def test_three_features_stand_for_four_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "module", lambda: (np, None))
    rng = np.random.default_rng(1)
    codes, k = rng.integers(0, 4, (9, 7)), 2
    first, second = codes & 1, codes >> 1
    features = np.stack([first, second, first & second], axis=2)
    points = rng.integers(-9, 9, (k, 9, 4)).astype(float)
    scores = np.einsum("dnf,kdf->kn", features, gpu._features(points))
    expected = sum(points[:, j, codes[j]] - points[:, [j], 0] for j in range(9))
    np.testing.assert_array_equal(scores, expected)
    V = rng.integers(-9, 9, (k, 7))
    found = np.einsum("dnf,kn->kdf", features, V)
    out = np.empty((k, 9, 4))
    gpu._by_code(found, V.sum(axis=1)[:, None], np.full((k, 1), 2.0), out)
    for c in range(4):
        np.testing.assert_array_equal(out[:, :, c], V @ (codes == c).T / 2)
    monkeypatch.undo()
