"""
What rounding to small points costs
===================================

Points from 0 to 2, 3, 5 or 10 can be added up by hand. Each rounded card has a
guarantee.
"""

import matplotlib.pyplot as plt

import renyi

X, y = renyi.datasets.load("credit")
train, test = slice(0, 480), slice(480, None)
clf = renyi.RenyiClassifier().fit(X[train], y[train])
largest = [1, 2, 3, 5, 10, 20]
bound, error = [], []
for points in largest:
    card = clf.scorecard_.rounded(points, marginals=clf.marginals_)
    bound.append(card.certificate.bounds["map"])
    error.append((card.predict(X[test]) != y[test].to_numpy()).mean())

fig, ax = plt.subplots()
ax.plot(range(6), bound, "o-", label="guarantee of the card")
ax.axhline(clf.certificate_.bounds["map"], ls="--", label="guarantee before rounding")
ax.plot(range(6), error, "s-", color="C1", label="error on 210 other rows")
ax.axhline(
    1 - clf.score(X[test], y[test]), ls="--", color="C1", label="before rounding"
)
ax.set(xticks=range(6), xticklabels=largest, xlabel="largest points", ylim=(0, None))
ax.legend()
plt.show()

# %%
# A card with points up to 3:

print(clf.scorecard_.rounded(3, marginals=clf.marginals_).totals().round(2).iloc[::4])
