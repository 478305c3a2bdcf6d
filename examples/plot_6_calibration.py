"""
Can the probabilities be believed?
==================================

Of the rows that get a probability of about 0.8, about 80 % should be of the class.
scikit-learn's display shows whether they are.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.model_selection import train_test_split

import renyi

X, y = renyi.datasets.load("adult")
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=0.2, random_state=0
)
clf = renyi.RenyiClassifier().fit(X_train, y_train)
CalibrationDisplay.from_estimator(
    clf, X_test, y_test, n_bins=10, strategy="quantile", pos_label=">50K"
)
plt.show()

# %%
# The map from scores to probabilities has a slope and an intercept here, fitted to
# left-out scores:

print(clf.scorecard_.calibration.kind)
