"""How the names of genotype files end. Nothing heavy is imported here."""

CALLS = {  # with the files of samples and of variants beside them
    ".bed": (".fam", ".bim"),
    ".pgen": (".psam", ".pvar"),
}
GENOTYPES = tuple(CALLS)
POINTS = ".points"  # of a model, beside its JSON head
LOCO = ".loco.tsv"  # scores without each chromosome
PLINK2 = (".additive.tsv", ".dominant.tsv", ".plink2.txt")  # two passes, and how
PGS = (".txt", ".txt.gz")  # a scoring file of the PGS Catalog
