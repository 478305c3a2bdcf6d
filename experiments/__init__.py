"""The paper's experiments, each of which can be run again.

An experiment is a list of independent pieces of work. `experiments.pieces` runs
them on all cores and keeps what is finished; the other modules say what a piece is and
how the pieces become a table and a figure.
"""
