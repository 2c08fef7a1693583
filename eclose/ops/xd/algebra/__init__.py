"""Products of complex matrices as pairs of real ones. Nothing here knows of XD-operations."""
