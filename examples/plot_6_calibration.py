"""
Can the probabilities be believed?
==================================

Of the rows that get a probability of about 0.8, about 80 % should be of the class. The
bars are intervals at 95 %.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split

import renyi

X, y = renyi.datasets.load("adult")
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=0.2, random_state=0
)
clf = renyi.RenyiClassifier().fit(X_train, y_train)
renyi.CalibrationDisplay.from_estimator(clf, X_test[:10_000], y_test[:10_000])
plt.show()

# %%
# The map from scores to probabilities is one number here, fitted to left-out scores:

print(clf.scorecard_.calibration.kind)
