"""
From the estimate to the proven worst case
==========================================

What is known of a model's error, as a ladder: an estimate for new rows, errors that are
known exactly, and bounds that hold on every population with the same counts of pairs.
"""

import matplotlib.pyplot as plt

import renyi

X, y = renyi.datasets.load("kr-vs-kp")
clf = renyi.RenyiClassifier().fit(X, y)
renyi.CertificateDisplay.from_estimator(clf)
plt.show()

# %%
# The bound of ``sharp`` is well below the error of the best single column: whatever the
# columns do beyond pairs, the scorecard is worth more than any one of them.

print(clf.certificate_)
