"""The ℓ1,∞ problem of Algorithm 1, solved along a path of penalties.

:mod:`renyi.group_lasso` is the door to it; :mod:`renyi.paths` tells what a path means.
"""
