"""Streams of rows: counted batch by batch, in memory that does not grow with them.

A `CountSpec` says what is counted, a `ColumnProfile` decides what the spec leaves open
(the first pass), a `PairCounter` counts (the second). Profiles and counters can be
merged and sent as bytes, so that a job can be shared among threads and machines.
"""
