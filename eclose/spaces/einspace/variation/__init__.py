"""Children of networks: mutation, recombination, and what both must hold to."""
