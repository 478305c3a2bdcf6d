"""Streams of rows: counted batch by batch, in memory that does not grow with them.

A spec says what is counted, a profile decides what the spec leaves open (the first
pass), a tally counts (the second). All three can be merged and written down, so that a
job can be shared among threads and machines, stopped, and gone on with:

    specs → profiles → tallies → Marginals
"""
