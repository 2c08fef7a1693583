"""Layers of any network become operations that a search can move: XD-operations (``relax``) or mixtures (``mix``)."""
