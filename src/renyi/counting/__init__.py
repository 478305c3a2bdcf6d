"""Codes to pair counts: the ways to count, and what each of them costs."""
