"""Marginals: counts of pairs of columns, and nothing else."""
