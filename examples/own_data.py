"""Data of one's own: from two arrays to a network, its predictions and a file that runs without eclose."""

import numpy as np

import eclose

rng = np.random.default_rng(0)
x = rng.normal(size=(200, 16, 16))
y = (x + np.roll(x, 3, axis=1)) / 2  # each point learns from its neighbour three rows up
np.savez("mine.npz", x=x, y=y)

result = eclose.search(data="mine.npz", minutes=0.2)  # a first look; give it ten minutes, which is the default
print(f"relative error on the test split: {result.metrics['test']:.3f}")
print(eclose.predict(result.run, x[:4])["prediction"].shape)
print(eclose.export(result.run, "program", format="pt2"))
