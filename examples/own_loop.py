"""A training loop of one's own: relax a network, then move weights and operations by an optimiser each."""

import torch
from torch import nn

import eclose

torch.manual_seed(0)
x = torch.randn(64, 1, 32)
y = x.roll(16, -1)  # half a signal away, where a kernel of 3 sees nothing

net = nn.Sequential(nn.Conv1d(1, 8, 3, padding=1), nn.GELU(), nn.Conv1d(8, 1, 3, padding=1))
net = eclose.relax(net, x)  # the same function, but its convolutions may become other operations
weights, architecture = eclose.architecture(net)
optimisers = [torch.optim.Adam(weights, lr=0.01), torch.optim.Adam(architecture, lr=0.01)]
for _ in range(60):
    with eclose.one_pass(net):  # no parameter changes in here: layers alike are prepared at once
        loss = nn.functional.mse_loss(net(x), y)
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss.backward()
    for optimiser in optimisers:
        optimiser.step()
print(f"loss {loss.item():.3f}")
print(eclose.describe(net))
