"""Counting of pairs: the ways of :mod:`renyi.counting`, and what each of them costs."""
