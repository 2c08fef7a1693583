"""The orders that use shift tensors: no spectrum is ever formed."""
