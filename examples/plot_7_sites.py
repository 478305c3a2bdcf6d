"""
Sites that share counts, not rows
=================================

Each site learns from its own rows, or all of them learn from the sum of their counts.
"""

import matplotlib.pyplot as plt
import numpy as np

import renyi

X, y = renyi.datasets.load("kr-vs-kp")
order = np.random.default_rng(0).permutation(len(y))
X, y = X.iloc[order], y.iloc[order]
test = slice(2400, None)
alone, pooled, total = [], [], None
for site in range(8):
    rows = slice(150 * site, 150 * (site + 1))
    encoder = total.encoder if total is not None else None
    counts = renyi.Marginals.from_data(X[rows], y[rows], encoder=encoder)
    total = counts if total is None else total + counts
    one = renyi.RenyiClassifier().fit(X[rows], y[rows])
    both = renyi.RenyiClassifier().fit_marginals(total)
    alone.append(1 - one.score(X[test], y[test]))
    pooled.append(1 - both.score(X[test], y[test]))

fig, ax = plt.subplots()
sites = range(1, 9)
ax.plot(sites, alone, "s", label="each site alone (150 rows)")
ax.plot(sites, pooled, "o-", label="counts of the first k sites added up")
ax.set(xlabel="site k", ylabel="error on 796 other rows", ylim=(0, None))
ax.legend()
plt.show()

# %%
# No row left its site. The last model is the one that 1,200 rows in one place would
# have given.

print(f"{np.mean(alone):.3f} {pooled[-1]:.3f}")
