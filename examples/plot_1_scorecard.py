"""
A scorecard as a picture
========================

The model is a table of points. To the right a category speaks for the second class, to
the left for the first.
"""

import matplotlib.pyplot as plt

import renyi

X, y = renyi.datasets.load("kr-vs-kp")
clf = renyi.RenyiClassifier().fit(X, y)
renyi.ScorecardDisplay.from_estimator(clf, n_features=8)
plt.show()

# %%
# The features that matter most stand first. All 36 columns together err on 5.9 % of new
# rows, the best single one on 31.7 %:

certificate = clf.certificate_
column, alone = certificate.one_feature
print(f"all columns {certificate.loo_error:.1%}, {column} alone {alone:.1%}")
