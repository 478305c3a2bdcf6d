"""The ℓ1,∞ problem of Algorithm 1, solved along a path of penalties.

:mod:`renyi.solvers.l1inf` is the door to it; :mod:`renyi.selection` tells what a path
means.
"""
