"""Classify genotypes: PLINK files, models of many variants, score files, commands.

Commands on tables do not import this folder.
"""
