"""A study: genotypes, two classes of samples, covariates and groups, read from files.

Samples without a class, a covariate or a group are left out before the filters, so that
frequencies are those of the training samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from renyi.formatting import number_of
from renyi.genotypes.files import (
    Filters,
    Genotypes,
    files_beside,
    founders,
    read_genotypes,
)
from renyi.genotypes.samples import NO_VALUE, read_sample_columns, two_classes
from renyi.progress import Progress, ProgressCallback

AnyPath = str | Path
FAMILIES = "FID"  # the word for groups that are the families of the genotypes


@dataclass(frozen=True, eq=False)
class Study:
    """Genotypes for training, with the class of every sample."""

    genotypes: Genotypes
    y: NDArray[np.int64]  # 0 or 1
    classes: tuple[str, str]  # what 0 and 1 stand for
    covariates: pd.DataFrame | None  # numbers
    groups: NDArray[np.object_] | None  # members of a group are left out together
    log: list[str]  # what was loaded, and what every step left

    @property
    def X(self) -> NDArray[np.float64] | None:
        """The covariates as an array."""
        return None if self.covariates is None else self.covariates.to_numpy()


def read_study(
    path: AnyPath,
    *,
    pheno: AnyPath | None = None,
    pheno_name: str | None = None,
    classes: Sequence[str] | None = None,
    covar: AnyPath | None = None,
    covar_name: Sequence[str] | None = None,
    groups: AnyPath | None = None,
    filters: Filters | None = None,
    progress: ProgressCallback | None = None,
) -> Study:
    r"""Read genotypes with phenotype, covariates and groups, and filter them.

    Samples are matched by their ids. The function leaves out samples without one of the
    two classes or without a covariate, and the `log` of the result says how many. The
    command ``renyi genotypes fit`` has options of the same names.

    Parameters
    ----------
    path : str or path
        A .bed or .pgen file, or its name without the ending.
    pheno, pheno_name : str, optional
        A file with the phenotype, and its column; by default that of .fam or .psam.
    classes : (str, str), optional
        The two values of the phenotype to classify; needed if it has more.
    covar, covar_name : str, sequence of str, optional
        A file with covariates, and its columns; by default all of them.
    groups : str, optional
        A file with one group for each sample, or "FID" for the families.
    filters : Filters, optional
    progress : callable, optional

    Returns
    -------
    Study

    See Also
    --------
    renyi.read_genotypes : Read the genotypes alone.
    renyi.GenotypeClassifier : Train on the genotypes of a study.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> place = pathlib.Path(tempfile.mkdtemp(), "tiny.bed")
    >>> _ = place.write_bytes(bytes([0x6C, 0x1B, 1, 0b11_10_00]))
    >>> _ = place.with_suffix(".bim").write_text("1 rs1 0 100 A G\n")
    >>> samples = "F1 a 0 0 1 1\nF2 b 0 0 2 2\nF3 c 0 0 2 -9\n"
    >>> _ = place.with_suffix(".fam").write_text(samples)
    >>> study = read_study(place)
    >>> study.y.tolist(), study.classes, study.genotypes.samples["iid"].tolist()
    ([0, 1], ('1', '2'), ['a', 'b'])
    """
    G = read_genotypes(path, progress)
    log = loaded_lines(G)
    texts, source = read_phenotype(G, pheno, pheno_name)
    y, names = two_classes(texts, source, classes)
    table = read_covariates(G.samples, covar, covar_name)
    members = _read_groups(G, groups)
    used = log_left_out(log, f"that are neither {names[0]} nor {names[1]}", y >= 0)
    if table is not None:
        complete = table.notna().all(axis=1)
        used &= log_left_out(log, "without all covariates", complete)
    if members is not None:
        used &= log_left_out(log, "without a group", members.notna())
    if not used.any():
        raise ValueError(f"No sample of {G.path} is left: {' '.join(log[2:])}")
    numbered = G.samples.assign(row=np.arange(len(y)))  # to find them again
    G = replace(G, samples=numbered).select(samples=used)
    if progress is not None:
        progress(Progress("filtering", facts=number_of(G.packed.d, "variant")))
    G = (filters or Filters()).apply(G, log.append)
    rows = G.samples["row"].to_numpy()
    y = y[rows]
    log.append(_remaining(G, y, names))
    return Study(
        genotypes=replace(G, samples=G.samples.drop(columns="row")),
        y=y,
        classes=names,
        covariates=None if table is None else table.iloc[rows],
        groups=None if members is None else members.to_numpy(object)[rows],
        log=log,
    )


def _remaining(G: Genotypes, y: NDArray[np.int64], classes: tuple[str, str]) -> str:
    """Return how much is left; raise ValueError if a class has no sample."""
    counts = np.bincount(y, minlength=2)
    for name, count in zip(classes, counts, strict=True):
        if not count:
            raise ValueError(f"The filters leave no sample of the class {name!r}.")
    shares = [f"class {classes[k]}: {counts[k]:,}" for k in range(2)]
    sizes = f"{number_of(G.packed.d, 'variant')} and {number_of(len(y), 'sample')}"
    return f"{sizes} ({', '.join(shares)}) remaining."


def loaded_lines(G: Genotypes) -> list[str]:
    """Return how many samples and variants were loaded, in two lines."""
    sexes = G.samples["sex"].value_counts()
    samples, variants = files_beside(G.path)
    females = f"{int(sexes.get('2', 0)):,} females"
    males = f"{int(sexes.get('1', 0)):,} males"
    first = f"{int(founders(G.samples).sum()):,} founders"
    return [
        f"{number_of(G.packed.n, 'sample')} ({females}, {males}; {first}) loaded from "
        f"{samples}.",
        f"{number_of(G.packed.d, 'variant')} loaded from {variants}.",
    ]


def log_left_out(log: list[str], why: str, used: ArrayLike) -> NDArray[np.bool_]:
    """Return which samples are used; log how many are not, and why."""
    mask = np.array(used, bool)
    gone = int((~mask).sum())
    if gone:
        log.append(f"{number_of(gone, 'sample')} {why} left out.")
    return mask


def read_phenotype(
    G: Genotypes, pheno: AnyPath | None, pheno_name: str | None
) -> tuple[Sequence[str | None], str]:
    """Return the phenotype of every sample, and where it is from."""
    if pheno is None:
        if pheno_name is not None:
            raise ValueError("--pheno-name names a column of --pheno: add the file.")
        return G.samples["phenotype"].tolist(), files_beside(G.path)[0]
    columns = read_sample_columns(pheno, G.samples)
    names = [str(name) for name in columns.texts]
    if pheno_name is None and len(names) != 1:
        shown = ", ".join(names) or "none"
        raise ValueError(
            f"{columns.path} has {number_of(len(names), 'column')} ({shown}): name the "
            "phenotype with --pheno-name."
        )
    name = pheno_name or names[0]
    texts = columns.chosen([name]).texts[name]
    return texts.tolist(), f"{columns.path}, column {name!r},"


def read_covariates(
    samples: pd.DataFrame, covar: AnyPath | None, covar_name: Sequence[str] | None
) -> pd.DataFrame | None:
    """Return the covariates of every sample, NaN where they are missing."""
    if covar is None:
        if covar_name:
            raise ValueError("--covar-name names columns of --covar: add the file.")
        return None
    columns = read_sample_columns(covar, samples, "COVAR")
    return columns.chosen(covar_name or None).numbers()


def _read_groups(G: Genotypes, groups: AnyPath | None) -> pd.Series | None:
    """Return the group of every sample; the word FID means the families."""
    if groups is None:
        return None
    if groups == FAMILIES:
        fid = G.samples["fid"]
        alone = fid == "0"  # PLINK's word for no family
        if alone.all():
            raise ValueError(
                f"--groups FID needs families, and every FID of {G.path} is 0: name "
                "a file with a group for each sample."
            )
        return fid.where(~alone, "0 " + G.samples["iid"])
    texts = read_sample_columns(groups, G.samples, "GROUP").texts
    if texts.shape[1] != 1:
        raise ValueError(
            f"{groups} has {number_of(texts.shape[1], 'column')} besides the ids, but "
            "groups are one column."
        )
    column = texts.iloc[:, 0]
    return column.where(~column.isin(NO_VALUE))
