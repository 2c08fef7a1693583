"""``python -m benchmarks [NAME ...] [--device cpu|cuda] [--out DIR]``: check, then measure, then write."""

import argparse
from pathlib import Path

import torch

from benchmarks import (
    chrysalis,
    chrysalis_quality,
    demo,
    dnarch,
    dnarch_quality,
    dnarch_residual,
    einspace,
    einspace_evolution,
    einspace_scores,
    einspace_search,
    executors,
    first_steps,
    half_precision,
    layouts,
    nos,
    nos_quality,
    one_pass,
    plain_networks,
    puzzles,
    rates,
    runner,
    solvers,
    start_up,
    teacher_weight,
    training_defaults,
    training_loop,
    wait_policy,
    xd_ablation,
    xd_cost,
    xd_quality,
)

MEMBERS = (
    training_loop.ENTRY,
    plain_networks.ENTRY,
    first_steps.ENTRY,
    layouts.ENTRY,
    half_precision.ENTRY,
    solvers.ENTRY,
    puzzles.ENTRY,
    start_up.ENTRY,
    demo.ENTRY,
    xd_cost.ENTRY,
    one_pass.ENTRY,
    chrysalis.ENTRY,
    nos.ENTRY,
    *xd_quality.ENTRIES,
    xd_ablation.ENTRY,
    chrysalis_quality.ENTRY,
    nos_quality.ENTRY,
    dnarch.ENTRY,
    dnarch_residual.ENTRY,
    teacher_weight.ENTRY,
    dnarch_quality.ENTRY,
    einspace.ENTRY,
    einspace_search.ENTRY,
    *einspace_evolution.ENTRIES,
    einspace_scores.ENTRY,
    executors.ENTRY,
    wait_policy.ENTRY,
    rates.ENTRY,
    training_defaults.ENTRY,
)
ENTRIES = {entry.name: entry for entry in MEMBERS}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(ENTRIES)} (default all)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=runner.RESULTS)
    options = parser.parse_args()
    unknown = set(options.names) - set(ENTRIES)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}")
    for name in options.names or ENTRIES:
        runner.run(ENTRIES[name], torch.device(options.device), options.out)


if __name__ == "__main__":
    main()
