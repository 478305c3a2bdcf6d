"""Streams of rows: counted batch by batch, in memory that does not grow with them.

A plan says what is counted, a survey decides what the plan leaves open (the first
pass), a tally counts (the second). All three can be merged and written down, so that a
job can be shared among threads and machines, stopped, and gone on with:

    plans → surveys → tallies → Marginals
"""
