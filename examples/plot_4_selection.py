"""
Few columns, and their guarantee
================================

Columns enter one after the other. The lines show the guarantee of the first k columns,
and a lower bound on their maximal correlation with the class.
"""

import matplotlib.pyplot as plt

import renyi

X, y = renyi.datasets.load("kr-vs-kp")
selector = renyi.RenyiSelector(n_features=5).fit(X, y)
renyi.PathDisplay.from_estimator(selector)
plt.show()

# %%
# Five columns of 36, refitted:

print(selector.features_.tolist())
print(f"error on the training rows {1 - selector.score(X, y):.3f}")
