"""Genotypes: files of PLINK, classifiers of many variants, score files, commands.

Nothing outside of this folder imports it when a table is used.
"""
