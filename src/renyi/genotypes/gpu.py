"""Compute the products of `packed` on a GPU, with CuPy.

The two bits of every genotype stay packed in the memory of the GPU. Vectors are rounded
to whole numbers of 31 bits, by at most 2⁻³¹ of the largest entry. The products are then
exact (see ``gpu_kernels.cu``): every run gives the same bits, and the CPU's results up
to that rounding. Counts, such as `DeviceGenotypes.agreement`, are exact.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi.validation import InputError, import_cupy

if TYPE_CHECKING:
    from renyi.genotypes.packed import PackedGenotypes

Floats = NDArray[np.float64]
DeviceArray = NDArray[Any]  # a CuPy array, with numpy's methods

_LARGEST = 2.0**30 - 1  # largest number in four digits
_PAIR = 2  # vectors in one pass
_SPAN = 48  # blocks of 256 samples whose digits are in shared memory: 96 kB
_CHUNK = 32_768  # variants of one block of threads: no sum of digits reaches 2**31
_THREADS = 256
_SAMPLES = 2_048  # samples of a block of threads of `scores`
_UPLOAD = 2**28  # bytes to copy at a time
_CAPABILITY = 80  # the first with the matrix instruction of the kernels
_INT8 = 3  # number of the type in CUDA
_INT32 = 10
_CHARACTERS = 2**30  # bytes of unpacked genotypes at a time


@cache
def module() -> tuple[Any, Any]:
    """Return CuPy and the compiled kernels; the error says what is missing."""
    cupy = import_cupy()
    capability = cupy.cuda.Device().compute_capability  # such as "90", of 9.0
    if int(capability) < _CAPABILITY:
        raise InputError(
            f"A GPU needs the compute capability {_CAPABILITY // 10}.0 or newer "
            f"(Ampere), but this one has {capability[:-1]}.{capability[-1]}: use "
            "{device}.",
            device="cpu",
        )
    kernels = cupy.RawModule(code=kernel_source(), options=("-std=c++17",))
    kernels.get_function("sums").max_dynamic_shared_size_bytes = 2_048 * _SPAN
    return cupy, kernels


def kernel_source() -> str:
    """Return the source of the kernels, a file next to this module."""
    return resources.files("renyi.genotypes").joinpath("gpu_kernels.cu").read_text()


def row_bytes(n: int) -> int:
    """Return the bytes of a variant of n samples on the GPU: whole vectors of 16."""
    return 16 * -(-n // 64)


class DeviceGenotypes:
    """Genotypes in the memory of a GPU, and the products with their one-hot matrix W.

    Arguments and results are numpy arrays; inside `gram`, nothing leaves the GPU.
    """

    def __init__(self, G: PackedGenotypes) -> None:
        cp, _ = module()
        self.n = G.n
        self.d = G.d
        self._pitch = row_bytes(G.n)
        needed = self.d * self._pitch
        free = cp.cuda.Device().mem_info[0]
        if needed + 400 * self.d > free:  # with the vectors of a product
            raise MemoryError(
                f"{self.n:,} samples of {self.d:,} variants need "
                f"{(needed + 400 * self.d) / 1e9:.1f} GB on the GPU, but only "
                f"{free / 1e9:.1f} GB are free: use fewer variants, or the CPU."
            )
        self._data = cp.zeros((self.d, self._pitch), cp.uint8)
        width = G.data.shape[1]
        words = self._pitch // 4
        step = max(1, _UPLOAD // max(1, width))
        chosen = None if G.samples is None else cp.asarray(G.samples)
        for low in range(0, self.d, step):
            high = min(self.d, low + step)
            block = cp.asarray(np.ascontiguousarray(G.rows(low, high)))
            target = self._data[low:high]
            if chosen is None:
                target[:, :width] = block
            else:
                grid = _blocks(words), min(len(block), 65_535)
                sizes = chosen, self.n, target, words
                _launch("gather", grid, block, width, len(block), *sizes)

    # ---- products

    def scores(self, points: Floats) -> Floats:
        """Return `W z` of points (d, 4) or (d, 4, k): (n,) or (n, k)."""
        cp, _ = module()
        given = np.asarray(points, np.float64)
        z = cp.asarray(np.moveaxis(given.reshape(self.d, 4, -1), 2, 0))
        out: Floats = self._scores(z).get().T
        return np.ascontiguousarray(out[:, 0] if given.ndim == 2 else out)

    def sums(self, V: Floats) -> Floats:
        """Return `W.T @ V` of V (n,) or (n, k): (d, 4) or (d, 4, k)."""
        cp, _ = module()
        given = np.asarray(V, np.float64)
        v = cp.asarray(np.ascontiguousarray(given.reshape(self.n, -1).T))
        out: Floats = np.moveaxis(self._sums(v).get(), 0, 2)
        return np.ascontiguousarray(out[:, :, 0] if given.ndim == 1 else out)

    def gram(self, V: Floats) -> Floats:
        """Return `W W.T @ V` of V (n, k)."""
        cp, _ = module()
        t = self._sums(cp.asarray(np.ascontiguousarray(np.asarray(V).T)))
        return np.ascontiguousarray(self._scores(t).get().T)

    def _sums(self, v: DeviceArray) -> Any:
        """Return sums over the samples of every code, (k, d, 4), of vectors (k, n)."""
        cp, _ = module()
        blocks = -(-self.n // 256)
        tiles = -(-self.d // 16)
        grid = min(-(-tiles // (_THREADS // 32)), 4_096), -(-blocks // _SPAN)
        out = cp.empty((len(v), self.d, 4))
        for low in range(0, len(v), _PAIR):
            pair = cp.ascontiguousarray(v[low : low + _PAIR])
            k = len(pair)
            scale = _scales(pair)
            digits = cp.empty((blocks, 512), cp.uint32)
            sizes = k, self.n, scale, digits, blocks
            _launch("sample_digits", (_blocks(digits.size),), pair, *sizes)
            counts = cp.zeros((k, self.d, 3), cp.int64)
            both = self._pitch // 16, self.d, digits, blocks, _SPAN, k
            _launch("sums", grid, self._data, *both, counts, shared=2_048 * _SPAN)
            total = cp.rint(pair * scale[:, None]).astype(cp.int64).sum(axis=1)
            _by_code(counts, total[:, None], scale[:, None], out[low : low + _PAIR])
        return out

    def _scores(self, z: DeviceArray) -> Any:
        """Return scores (k, n) of points (k, d, 4)."""
        cp, _ = module()
        blocks = -(-self.d // 32)
        grid = (-(-self.n // _SAMPLES), -(-self.d // _CHUNK))
        out = cp.empty((len(z), self.n))
        for low in range(0, len(z), _PAIR):
            points = z[low : low + _PAIR]
            features = _features(points)
            k = len(points)
            scale = _scales(features)
            digits = cp.empty((blocks, 192), cp.uint32)
            sizes = k, self.d, scale, digits, blocks
            _launch("variant_digits", (_blocks(digits.size),), features, *sizes)
            totals = cp.zeros((k, self.n), cp.int64)
            both = self._pitch // 8, self.d, self.n, digits, _CHUNK, k
            _launch("scores", grid, self._data, *both, totals)
            offset = cp.stack([each[:, 0].sum() for each in points])
            out[low : low + _PAIR] = totals / scale[:, None] + offset[:, None]
        return out

    def agreement(self) -> Floats:
        """Count the variants on which two samples have the same code, exactly.

        Let u = ±1 by the first bit of a code, and v = ±1 by the second. Then
        ``(1 + uu' + vv' + uv·u'v')/4`` is 1 for equal codes and 0 for others: three
        products of integer matrices.
        """
        cp, _ = module()
        from cupy_backends.cuda.libs import cublas

        n = -(-self.n // 4) * 4  # a multiple of 4 for the matrix units
        step = max(4, _CHARACTERS // (3 * n) // 4 * 4)
        total = cp.zeros((n, n), cp.int64)
        part = cp.empty((n, n), cp.int32)
        one = np.array(1, np.int32)
        none = np.array(0, np.int32)
        for low in range(0, self.d, step):
            count = min(step, self.d - low)
            width = -(-3 * count // 4) * 4
            block = cp.zeros((n, width), cp.int8)
            sizes = self._pitch // 4, low, count, self.n
            grid = _blocks(count), -(-self.n // 16)
            _launch("characters", grid, self._data, *sizes, block, width)
            side = block.data.ptr, _INT8, width
            cublas.gemmEx(
                cp.cuda.device.get_cublas_handle(),
                *(cublas.CUBLAS_OP_T, cublas.CUBLAS_OP_N, n, n, width),
                *(one.ctypes.data, *side, *side),
                *(none.ctypes.data, part.data.ptr, _INT32, n),
                *(cublas.CUBLAS_COMPUTE_32I, cublas.CUBLAS_GEMM_DEFAULT),
            )
            total += part
        same = (total[: self.n, : self.n] + self.d) // 4
        return np.asarray(same.astype(cp.float64).get())


def _blocks(items: int) -> int:
    """Return the number of blocks with a thread for each item."""
    return -(-items // _THREADS)


def _launch(
    name: str, grid: tuple[int, ...], *arguments: object, shared: int = 0
) -> None:
    """Run a kernel; integers become ``i64``."""
    _, kernels = module()
    kernels.get_function(name)(grid, (_THREADS,), arguments, shared_mem=shared)


def _scales(v: DeviceArray) -> Any:
    """Return the factors that scale vectors (k, …) to whole numbers of 31 bits."""
    cp, _ = module()
    largest = cp.stack([cp.abs(each).max() for each in v])  # 10 x faster than an axis
    return _LARGEST / cp.where(largest > 0, largest, 1.0)


def _features(points: DeviceArray) -> Any:
    """Return the points of b0, b1 and b0 & b1, from those of the codes 0 to 3."""
    cp, _ = module()
    z0, z1, z2, z3 = (points[:, :, c] for c in range(4))
    return cp.stack([z1 - z0, z2 - z0, z3 - z2 - z1 + z0], axis=2)


def _by_code(
    counts: DeviceArray, total: DeviceArray, scale: DeviceArray, out: DeviceArray
) -> None:
    """Write the sums of the codes 0 to 3, from those of b0, b1 and b0 & b1."""
    first, second, both = (counts[:, :, f] for f in range(3))
    out[:, :, 3] = both / scale
    out[:, :, 2] = (second - both) / scale
    out[:, :, 1] = (first - both) / scale
    out[:, :, 0] = (total - first - second + both) / scale
