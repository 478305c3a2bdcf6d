"""Compute worst cases over all distributions with given tables: e*, θ, rule errors.

The set of distributions is :mod:`renyi.robust.ambiguity_set`; `minimax` is in
:mod:`renyi.robust.minimax_problem`, `worst_case` in :mod:`renyi.robust.worst`, `theta`
and `separable` are in :mod:`renyi.robust.brier_risk`.
"""
