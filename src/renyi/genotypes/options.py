"""Define the commands and options of ``renyi genotypes``; import little."""

from __future__ import annotations

import argparse

from renyi.cli.parser import PREVALENCE, WRITTEN, add_command
from renyi.formatting import either
from renyi.genotypes.suffixes import GENOTYPES, LOCO, PGS, PLINK2

_FILE = f"FILE  genotypes ({either(GENOTYPES)}), or their name without ending"
_MODEL = "MODEL  a genotype model written by fit (.json)"
_SAMPLES = """
--pheno FILE  a file with FID IID or IID, then the phenotype (default: .fam or .psam)
--pheno-name COL  its column
--covar FILE  covariates to add to the variants, in a file like --pheno
--covar-name COL ...  its columns (default: all)
--keep FILE  only these samples (FID IID or IID)
--remove FILE  none of these samples
--build NAME  genome build of the positions, such as GRCh38
"""
_FIT = f"""train a classifier of genotypes
{_FILE}
--out PREFIX  write PREFIX.json and PREFIX.points (model) and PREFIX.log
--plot FILE
--loco  write scores without each chromosome to PREFIX{LOCO}
--json
--memory SIZE
samples:
{_SAMPLES}
--classes A B  the two phenotypes to classify, such as CHB JPT
--groups FILE  groups of relatives, always left out together: FID, or a file like
    --pheno
--mind FRACTION  no samples with more missing calls than this share
variants:
--extract FILE  only variants of these ids
--exclude FILE  no variants of these ids
--chr NAME ...  only these chromosomes, such as 1-22 or X
--region PLACE ...  only these places, such as 6:25000000-34000000
--geno FRACTION  no variants with more missing calls than this share
--maf FRACTION  no variants with a rarer allele below this frequency
model:
--alpha auto|loo|NUMBER
--additive  one weight per copy, not points for each number of copies
--missing-calls {{category,mean}}  give missing calls separate points (default), or the
    mean of the others
--prevalence SHARE  {PREVALENCE} (for R² on the liability scale)
--seed N
--device {{cpu,cuda}}  where to compute (cuda needs the extra gpu)
"""
_PREDICT = f"""classify the samples of a file with a genotype model
{_MODEL}, or a scoring file of the PGS Catalog
{_FILE}
--out FILE  write to a file (.tsv, {either(WRITTEN)}), not to stdout
--spreadsheet
--prevalence SHARE  {PREVALENCE} (answers follow it)
--json
--memory SIZE
samples:
{_SAMPLES}
--same-strand  take all alleles as on the model's strand, also of A/T and C/G variants
"""
_EXPORT = f"""write a genotype model as score files of other programs
{_MODEL}
--scores {{plink2,pgs}}  files that plink2 --score reads (PREFIX{PLINK2[0]} and more),
    or a scoring file of the PGS Catalog ({either(PGS)})
--out PREFIX_OR_FILE  where to write
--memory SIZE
"""
_REPORT = f"""write a self-contained HTML page about a genotype model
{_MODEL}
--out FILE  where to write (default: MODEL's name with .report.html)
--title TEXT
--json
--memory SIZE
"""


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser of ``renyi genotypes``."""
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    texts = {"fit": _FIT, "predict": _PREDICT, "export": _EXPORT, "report": _REPORT}
    for name, text in texts.items():
        add_command(actions, name, text, f"renyi.genotypes.commands.{name}")
