"""Sources: one module for each place where counts come from.

Each has a function ``marginals(obj, …)``; ``Marginals.from_*`` delegate to it. All but
Spark and contingency tables are streams, counted batch by batch, in memory that does
not grow with the rows. A `spec` says what is counted, a `profile` decides what the spec
leaves open (the first pass), a `counter` counts (the second), and a `run` shares both
among threads. `kept_rows` has the rows that were counted, for training.
"""
