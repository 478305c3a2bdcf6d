"""The paper's experiments, to run again.

An experiment is a list of independent pieces of work. `experiments.pieces` runs them on
all cores and stores the finished ones. The other modules define the pieces, and turn
them into a table and a figure.
"""
