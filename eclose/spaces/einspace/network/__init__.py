"""From derivations to plain PyTorch networks."""
