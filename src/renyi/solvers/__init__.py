"""From arrays to numbers: ridge, the l1,∞ path, best subsets, programs."""
