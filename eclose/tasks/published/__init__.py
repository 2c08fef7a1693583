"""Data sets that others have published, found in the data folder or made from what is there."""
