"""An attention classifier in Keras, which `classifiers.py` puts beside ours. It runs in an environment with Keras.

layers.py   the layers, and the classifier
equal.py    its outputs beside ours, with the same weights
fit.py      trains it, and says how well and how fast
"""
