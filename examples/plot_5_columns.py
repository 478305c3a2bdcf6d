"""
Which columns say the same
==========================

Maximal correlations of all pairs of columns, from pair counts. Similar columns are next
to each other.
"""

import matplotlib.pyplot as plt

import renyi

X, y = renyi.datasets.load("adult")
m = renyi.Marginals.from_data(X[:10_000], y[:10_000])
renyi.HGRDisplay.from_marginals(m)
plt.show()

# %%
# ``education`` and ``education-num`` are one column in two forms, and ``relationship``
# nearly determines ``marital-status`` and ``sex``.

print(renyi.hgr_matrix(m).loc["education", "education-num"].round(3))
