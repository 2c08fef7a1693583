"""The geometry of one axis: which entries of K, L and M an operation uses, by what it starts as."""
