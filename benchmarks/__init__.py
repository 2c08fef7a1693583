"""Speed and memory, as ratios measured in one run, gated on correctness. ``python -m benchmarks --help``."""
