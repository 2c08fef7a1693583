"""A network of one's own on data of one's own: hand both in, get the best of it and of others back."""

import numpy as np
import torch
from torch import nn

import eclose

rng = np.random.default_rng(0)
t = np.linspace(0, 1, 64)
y = rng.integers(0, 3, 300)  # three kinds of pulse ...
x = np.exp(-(((t - rng.uniform(0.3, 0.7, (300, 1))) * (4 + 6 * y[:, None])) ** 2))  # ... of three widths
x = x + 0.1 * rng.normal(size=x.shape)

net = nn.Sequential(
    nn.Conv1d(1, 16, 7, padding=3),
    nn.ReLU(),
    nn.Conv1d(16, 16, 7, padding=3, stride=2),
    nn.ReLU(),
    nn.AdaptiveAvgPool1d(1),
    nn.Flatten(),
    nn.Linear(16, 3),
)
result = eclose.search(data={"x": x, "y": y}, backbone=net, minutes=0.3)  # a first look; ten minutes are the default
print(result)  # who won, and beside whom
print(result.model(torch.from_numpy(x[:2, None])).softmax(1))  # raw values in, the usual logits out
