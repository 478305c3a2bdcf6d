"""Worst cases over all distributions with given tables: e*, θ, and errors of rules.

The set of distributions is :mod:`renyi.robust.ambiguity`; `minimax` is in
:mod:`renyi.robust.saddle`, `worst_case` in :mod:`renyi.robust.worst`, `theta` in
:mod:`renyi.robust.brier` and `separable` in :mod:`renyi.robust.separability`.
"""
