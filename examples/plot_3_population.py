"""
How a bound for the population shrinks with rows
================================================

A bound with a confidence covers the population that the rows come from. With more rows
it comes closer to the error itself.
"""

import matplotlib.pyplot as plt

import renyi

X, y = renyi.datasets.load("adult")
order = X.sample(frac=1, random_state=0).index
X, y = X.loc[order], y.loc[order]
sizes = [200, 500, 1000, 2000, 5000, 10_000]
seen, proven = [], []
for n in sizes:
    safe = renyi.CrossFitClassifier(method="mixture", random_state=0)
    safe.fit(X[:n], y[:n])
    seen.append(safe.certificate_.observed_error)
    proven.append(safe.certificate_.sampled_error)

fig, ax = plt.subplots()
ax.semilogx(sizes, proven, "o-", label="at most, with confidence 95 %")
ax.semilogx(sizes, seen, "s--", label="error on rows not used in training")
ax.axhline((y != "<=50K").mean(), color="0.5", label="always '<=50K'")
ax.set(xlabel="rows", ylabel="error", title="adult, cross-fit mixture", ylim=(0, None))
ax.legend()
plt.show()

# %%
# With 200 rows the bound is above the baseline, so it is useless. With 10,000 rows it
# is one percentage point above the observed error.

print(f"{proven[0]:.3f} {proven[-1]:.3f}")
