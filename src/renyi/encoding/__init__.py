"""Cells to codes: which columns are numbers, which labels, and their categories."""
