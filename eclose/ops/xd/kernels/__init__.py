"""Kernels in Triton, one file for each caller; they are imported where a GPU runs them."""
