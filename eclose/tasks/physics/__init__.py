"""Equations, solved on the spot."""
