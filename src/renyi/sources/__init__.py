"""Sources: one module for each place where counts come from.

Each has a function ``marginals(obj, …)``; ``Marginals.from_*`` delegate to it.
"""
