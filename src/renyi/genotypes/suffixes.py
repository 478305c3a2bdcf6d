"""Endings of genotype files; this module imports nothing."""

CALLS = {  # with the endings of their sample and variant files
    ".bed": (".fam", ".bim"),
    ".pgen": (".psam", ".pvar"),
}
GENOTYPES = tuple(CALLS)
POINTS = ".points"  # points of a model, next to its JSON file
LOCO = ".loco.tsv"  # scores without each chromosome
PLINK2 = (".additive.tsv", ".dominant.tsv", ".plink2.txt")  # two passes and a note
PGS = (".txt", ".txt.gz")  # a scoring file of the PGS Catalog
