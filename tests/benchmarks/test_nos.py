"""The speed of cells is measured only if those by hand are ours; one variant that fails leaves the others."""

import torch

from benchmarks.nos import Run, _table, check

CPU = torch.device("cpu")


def test_cells_by_hand_are_ours() -> None:
    assert check(CPU).startswith("the cells by hand give what ours give")


def test_a_variant_that_fails_has_a_line_and_leaves_the_others() -> None:
    def fails() -> Run:
        raise torch.OutOfMemoryError("too large")

    variants = {"ours": lambda: print, "theirs": lambda: print, "large": fails}
    lines = _table("Steps", variants, CPU, "ours", "theirs", 1e9)
    assert [line for line in lines if line.startswith("| large")] == ["| large | failed: OutOfMemoryError: too large |"]
    assert sum(line.startswith(("| ours |", "| theirs |")) for line in lines) == 2
    assert lines[-1].endswith("(goal: at most 1000000000.00, met).")
    missed = _table("Steps", {"ours": fails, "theirs": lambda: print}, CPU, "ours", "theirs", 1e9)
    assert not any("goal" in line for line in missed)
