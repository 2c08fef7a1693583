"""The best permutation: linear assignment by shortest augmenting paths (Kuhn, Munkres; Jonker and Volgenant)."""

import numpy as np
import numpy.typing as npt


def assignment(profit: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:  # (n, n)
    """Columns ``(n,)``, one for every row and each used once, with the largest sum of profits.

    Prices of columns make every row's own column its best one, for a growing set of rows. A new row enters along
    the path that costs least, found as by Dijkstra. ``O(n^3)``.
    """
    size = len(profit)
    cost = -profit
    prices = np.zeros(size)
    row_of = np.full(size, -1)  # of every column
    column_of = np.full(size, -1)  # of every row
    for row in range(size):
        came, end, done, lengths = _shortest(row, cost, prices, row_of, column_of)
        prices[done] += lengths[done] - lengths[end]
        while True:
            here = came[end]
            row_of[end] = here
            end, column_of[here] = column_of[here], end
            if here == row:
                break
    return column_of


def _shortest(
    row: int,
    cost: npt.NDArray[np.float64],
    prices: npt.NDArray[np.float64],
    row_of: npt.NDArray[np.int64],
    column_of: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], int, npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """The way from a new row to a free column: whence each column was reached, the last one, those done, lengths."""
    lengths = np.full(len(cost), np.inf)
    came = np.full(len(cost), row)
    done = np.zeros(len(cost), dtype=bool)
    here, gone = row, 0.0
    while True:
        reduced = cost[here] - prices
        own = column_of[here]
        through = gone + reduced - (reduced[own] if own >= 0 else 0.0)
        better = ~done & (through < lengths)
        lengths[better], came[better] = through[better], here
        nearest = int(np.argmin(np.where(done, np.inf, lengths)))
        if row_of[nearest] < 0:
            return came, nearest, done, lengths
        done[nearest] = True
        here, gone = int(row_of[nearest]), float(lengths[nearest])
