"""An attention classifier in Keras, with which `classifiers.py` compares ours. It runs in an environment with Keras.

layers.py   the layers and the classifier
equal.py    compares its outputs with ours, with the same weights
fit.py      trains the classifier and measures its quality and speed
"""
