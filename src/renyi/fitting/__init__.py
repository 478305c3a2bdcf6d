"""Fitting: from encoded rows, or from pair counts, to a `Fit`, the trained model.

`settings` has the parameters and their checks, `record` the trained model, and
`training` has ``fit_rows(rows, settings)`` and ``fit_counts(m, settings)``. Estimators,
the command line and the model file call them.
"""
