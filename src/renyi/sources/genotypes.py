"""Genotypes: .bed files by memory map, .pgen files through pgenlib.

Both become `PackedGenotypes` of PLINK's two-bit codes, the same bytes for the same
calls, with tables of samples and of variants beside them. A1 is the allele that is
counted: the first of .bim, ALT of .pvar. No memory is taken before the sizes of the
files agree.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from renyi import endings
from renyi.checks import check_memory, import_extra
from renyi.counting.packed import (
    MISSING,
    OBSERVED,
    PackedGenotypes,
    pack,
    variant_bytes,
)
from renyi.figures import number_of
from renyi.progress import Progress, ProgressCallback
from renyi.sources.files import existing
from renyi.sources.genotype_tables import read_bim, read_fam, read_psam, read_pvar
from renyi.storage import first_line
from renyi.warnings import warn

_MAGIC = b"\x6c\x1b"
_BED_HEAD, _PGEN_HEAD = 3, 12  # bytes before the genotypes, or before the index
_BLOCK = 2**25  # bytes of calls that are unpacked at a time
# Codes by copies of ALT: none, one, two; -9 (missing) is 3 in its last bits.
_CODES = np.array([*OBSERVED[::-1], MISSING], np.uint8)


@dataclass(frozen=True, eq=False)
class Genotypes:
    """Genotypes with the samples and the variants they are of.

    `read_genotypes` makes them.

    Parameters
    ----------
    packed : PackedGenotypes
        Two-bit codes of .bed: 0 two copies of A1, 1 missing, 2 one copy, 3 none.
    samples : DataFrame
        Columns fid, iid, father, mother, sex (1 male, 2 female, 0 not known) and
        phenotype, all text; a row per sample.
    variants : DataFrame
        Columns chromosome, id, position, a1 and a2; a row per variant. A1 is the first
        allele of .bim, and ALT of .pvar.
    path : str
        The file they are from.

    Examples
    --------
    >>> G = Genotypes(
    ...     PackedGenotypes.from_codes([[0, 2, 3], [3, 3, 1]]),
    ...     pd.DataFrame({"iid": ["a", "b", "c"]}),
    ...     pd.DataFrame({"id": ["rs1", "rs2"]}),
    ...     "tiny.bed",
    ... )
    >>> G
    <Genotypes of 3 samples and 2 variants from tiny.bed>
    >>> G.select(variants=[1]).variants["id"].tolist()
    ['rs2']
    """

    packed: PackedGenotypes
    samples: pd.DataFrame
    variants: pd.DataFrame
    path: str

    def __repr__(self) -> str:
        size = f"{len(self.samples):,} samples and {len(self.variants):,} variants"
        return f"<Genotypes of {size} from {self.path}>"

    def select(self, samples: Any = None, variants: Any = None) -> Genotypes:
        """Return some of them.

        Parameters
        ----------
        samples, variants : array-like, optional
            Ascending indices, or truth values; all by default.

        Returns
        -------
        Genotypes
        """
        found = replace(self, packed=self.packed.take(samples, variants))
        if samples is not None:
            rows = self.samples.iloc[np.asarray(samples)].reset_index(drop=True)
            found = replace(found, samples=rows)
        if variants is not None:
            rows = self.variants.iloc[np.asarray(variants)].reset_index(drop=True)
            found = replace(found, variants=rows)
        return found


def genotype_path(path: str | os.PathLike[str]) -> Path | None:
    """Return the .bed or .pgen file that a name means; None if it means another file.

    A prefix means its .bed file, or its .pgen file. Files of other programs are refused
    with the command that converts them.
    """
    name = os.fspath(path)
    _check_foreign(name)
    if name.endswith(endings.GENOTYPES):
        return existing(name)
    if not os.path.exists(name):
        for ending in endings.GENOTYPES:
            if os.path.isfile(name + ending):
                return Path(name + ending)
    return None


def _check_foreign(name: str) -> None:
    """Refuse files of other programs, and those beside genotypes."""
    stem, dot, ending = name.rpartition(".")
    for other, parts in endings.BESIDE_GENOTYPES.items():
        if dot + ending in parts and os.path.isfile(stem + other):
            raise ValueError(
                f"{name} is only a part of a genotype file set: name {stem}{other}."
            )
    for ending, words in _CONVERSIONS.items():
        if name.endswith(ending):
            stem = name.removesuffix(ending)
            command = words.format(name=name, stem=stem)
            raise ValueError(
                f"{name} is not read directly: convert it with 'plink2 {command} "
                f"--out {stem}', then name {stem}.pgen."
            )


_CONVERSIONS = {
    ".bgen": "--bgen {name} ref-first --sample {stem}.sample --make-pgen",
    ".vcf": "--vcf {name} --max-alleles 2 --make-pgen",
    ".vcf.gz": "--vcf {name} --max-alleles 2 --make-pgen",
    ".bcf": "--bcf {name} --max-alleles 2 --make-pgen",
    ".ped": "--pedmap {stem} --make-pgen",
}


def read_genotypes(
    path: str | os.PathLike[str], progress: ProgressCallback | None = None
) -> Genotypes:
    r"""Read a .bed or .pgen file, with the two files beside it.

    The calls of a .bed file are mapped into memory as they are. Those of a .pgen file
    are read through pgenlib (extra ``genetics``) and packed: hard calls, without phase
    and dosages.

    Parameters
    ----------
    path : str or path
        The file, or its name without the ending.
    progress : callable, optional
        Called with a `Progress` while a .pgen file is read.

    Returns
    -------
    Genotypes

    Examples
    --------
    >>> import pathlib, tempfile
    >>> place = pathlib.Path(tempfile.mkdtemp(), "tiny.bed")
    >>> _ = place.write_bytes(bytes([0x6C, 0x1B, 1, 0b11_10_00]))
    >>> _ = place.with_suffix(".bim").write_text("1 rs1 0 100 A G\n")
    >>> samples = "F1 a 0 0 1 1\nF2 b 0 0 2 2\nF3 c 0 0 2 2\n"
    >>> _ = place.with_suffix(".fam").write_text(samples)
    >>> G = read_genotypes(place)
    >>> G.packed.codes().tolist(), G.variants["id"].tolist()
    ([[0, 2, 3]], ['rs1'])
    """
    place = genotype_path(path)
    if place is None:
        raise ValueError(
            f"{existing(path)} holds no genotypes: name a .bed or a .pgen file."
        )
    about = [_check_beside(place, Path(each)) for each in files_beside(str(place))]
    head = _head(place)
    is_bed = place.suffix == ".bed"
    samples = (read_fam if is_bed else read_psam)(about[0])
    variants = (read_bim if is_bed else read_pvar)(about[1])
    n, d = len(samples), len(variants)
    if head[2] == 1:  # a .pgen file may be a .bed file by its contents
        data = _mapped(place, n, d, about)
    else:
        data = _unpacked(place, head, n, d, about, progress)
    found = Genotypes(PackedGenotypes(data, n), samples, variants, str(place))
    kept = (variants["position"] >= 0).to_numpy(bool)
    if kept.all():
        return found
    many = number_of(int((~kept).sum()), "variant")
    if not kept.any():
        raise ValueError(f"All of {many} of {place} have negative positions.")
    warn(f"Left out {many} of {place} with negative positions, as PLINK does.")
    return found.select(variants=kept)


def files_beside(path: str) -> tuple[str, str]:
    """Return the files of samples and of variants that belong to a file of calls."""
    stem, dot, ending = path.rpartition(".")
    samples, variants = endings.BESIDE_GENOTYPES[dot + ending]
    return stem + samples, stem + variants


def _check_beside(place: Path, found: Path) -> Path:
    """Refuse what is compressed or not there."""
    packed = found.with_name(found.name + ".zst")
    if not found.exists() and packed.exists():
        raise ValueError(
            f"{packed} is compressed: unpack it with 'plink2 --zst-decompress {packed} "
            f"{found}'."
        )
    if not found.exists():
        raise FileNotFoundError(
            f"There is no {found}, which belongs to {place}: put it in the same folder."
        )
    return found


def _head(place: Path) -> bytes:
    """Return how a file begins, its mode third; refuse what holds no genotypes."""
    with place.open("rb") as stream:
        head = stream.read(_PGEN_HEAD)
    if len(head) < 3:
        what = f"it has {number_of(len(head), 'byte')} only"
        raise ValueError(f"{place} is not a {place.suffix} file: {what}.")
    if head[:2] != _MAGIC:
        raise ValueError(
            f"{place} is not a {place.suffix} file: it begins with "
            f"{head[:3].hex(' ')!r}, not with {_MAGIC.hex(' ')!r}."
        )
    stem = place.with_suffix("")
    if head[2] == 0:
        raise ValueError(
            f"{place} is stored sample by sample, as PLINK did before 2009: convert it "
            f"with 'plink1.9 --bfile {stem} --make-bed --out {stem}-variants'."
        )
    if place.suffix == ".bed" and head[2] != 1:
        raise ValueError(
            f"{place} is not a .bed file: its third byte is {head[2]}, not 1"
            f"{' (a .pgen file may have been renamed)' if head[2] < 0x20 else ''}."
        )
    return head


# ---- .bed


def _mapped(place: Path, n: int, d: int, about: list[Path]) -> NDArray[np.uint8]:
    """Map the genotypes of a .bed file into memory, if its size is right."""
    width = variant_bytes(n)
    size, needed = place.stat().st_size - _BED_HEAD, width * d
    if size != needed:
        state = "truncated" if size < needed else "longer than it should be"
        hint = ""
        if width and size and size % width == 0:
            hint = f"; it has the size of {size // width:,} variants"
        elif size and size % d == 0:
            most = 4 * (size // d)
            hint = f"; it has the size of {most - 3:,} to {most:,} samples"
        raise ValueError(
            f"{place} is {state}, or belongs to other files: {n:,} samples "
            f"({about[0].name}) and {d:,} variants ({about[1].name}) take "
            f"{needed + _BED_HEAD:,} bytes, and it has {size + _BED_HEAD:,}{hint}."
        )
    return np.asarray(np.memmap(place, np.uint8, "r", _BED_HEAD, (d, width)))


# ---- .pgen


def _unpacked(
    place: Path,
    head: bytes,
    n: int,
    d: int,
    about: list[Path],
    progress: ProgressCallback | None,
) -> NDArray[np.uint8]:
    """Read the hard calls of a .pgen file, some variants at a time, and pack them."""
    if len(head) < _PGEN_HEAD:
        raise ValueError(f"{place} is truncated: it has {len(head)} bytes.")
    facts = (("samples", 7, n, about[0]), ("variants", 3, d, about[1]))
    for what, at, count, path in facts:
        declared = int.from_bytes(head[at : at + 4], "little")
        if declared != count:
            raise ValueError(
                f"{place} declares {declared:,} {what}, but {path} has {count:,}: the "
                "files do not belong together."
            )
    _check_length(place, head, n, d)
    need = "Files .pgen need the package pgenlib"
    otherwise = ", or convert the file with 'plink2 --pfile … --make-bed'"
    reader = import_extra("pgenlib", "genetics", need, otherwise).PgenReader
    width = variant_bytes(n)
    check_memory(width * d + 3 * _BLOCK, f"Reading {place}")
    begun, step = time.monotonic(), max(1, _BLOCK // (4 * width))
    try:
        with reader(os.fsencode(place), n, d) as calls:
            data = np.empty((d, width), np.uint8)
            copies = np.empty((min(step, d), n), np.int8)
            codes = np.zeros((min(step, d), 4 * width), np.uint8)
            for low in range(0, d, step):
                high = min(low + step, d)
                calls.read_range(low, high, copies[: high - low])
                codes[: high - low, :n] = _CODES[copies[: high - low] & 3]
                pack(codes[: high - low], data[low:high])
                if progress is not None:
                    spent = time.monotonic() - begun
                    progress(Progress(f"reading {place}", spent, high / d))
    except (RuntimeError, OSError) as error:
        reason = first_line(error).removeprefix("b'").partition(".\\n")[0]
        raise ValueError(
            f"{place} is damaged or truncated ({reason}): take a fresh copy of it."
        ) from None
    return data


def _check_length(place: Path, head: bytes, n: int, d: int) -> None:
    """Refuse a .pgen file that is not as long as its own index says.

    Of the modes that plink2 writes: records of one width (2), and records of any width
    (16), whose widths are in a header, 65,536 variants at a time.
    """
    size, end = place.stat().st_size, _PGEN_HEAD + variant_bytes(n) * d
    kind, alleles, flags = head[11] & 15, head[11] >> 4 & 3, head[11] >> 6
    if head[2] == 0x10 and kind < 8:
        blocks, last, width = -(-d // 2**16), (d - 1) % 2**16 + 1, kind % 4 + 1

        def types(k: int) -> int:
            return -(-k // 2) if kind < 4 else k

        full = types(2**16) + 2**16 * (width + alleles) + (flags == 3) * 2**13
        with place.open("rb") as stream:
            stream.seek(_PGEN_HEAD + 8 * (blocks - 1))
            end = int.from_bytes(stream.read(8), "little")
            stream.seek(full * (blocks - 1) + types(last), os.SEEK_CUR)
            raw = np.frombuffer(stream.read(width * last), np.uint8)
        digits = raw[: len(raw) // width * width].reshape(-1, width).sum(0, np.int64)
        end += int(digits @ 256 ** np.arange(width))
    elif head[2] != 2:
        return
    if size != end:
        state = "truncated" if size < end else "longer than it should be"
        raise ValueError(
            f"{place} is {state}: {end:,} bytes by its own index, but it has {size:,}."
        )
