"""From rows to one page: a table for each kind of set, ranks, how far the portfolio is ahead of networks by hand."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

BY_HAND = " by hand"

Values = dict[tuple[str, str], list[float]]  # of a set and a way: the test figures of its seeds


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page."""
    lines = ["# Data in, network out", "", *dict.fromkeys(fact for row in rows for fact in row["machine"]), ""]
    minutes, seconds = ({f"{row[key]:g}" for row in rows} for key in ("minutes", "hand_seconds"))
    seeds = sorted({row["seed"] for row in rows})
    lines += [
        f"Searches of {' or '.join(minutes)} min each, networks by hand {' or '.join(seconds)} s each on all labelled "
        f"samples; seeds {', '.join(map(str, seeds))}. The same settings for every set: the defaults. Means over the "
        "seeds, and their standard deviation. Ranks are those of the means.",
    ]
    for goal, heading in (("max", "Test accuracy"), ("min", "Relative error of test fields")):
        some = [row for row in rows if row["goal"] == goal]
        if some:
            lines += ["", f"## {heading}", "", *_table(some, goal)]
    refused = sorted({f"- {row['way']} on {row['set']}: {row['refused']}" for row in rows if "refused" in row})
    return "\n".join([*lines, *(["", "## Refused", "", *refused] if refused else []), ""])


def _table(rows: Sequence[Mapping[str, Any]], goal: str) -> list[str]:
    sets, ways = list(dict.fromkeys(row["set"] for row in rows)), _in_order({row["way"] for row in rows})
    values: Values = {(name, way): [] for name in sets for way in ways}
    for row in rows:
        if row.get("test") is not None:
            values[row["set"], row["way"]].append(row["test"])
    lines = [f"| set | {' | '.join(ways)} |", "|---" * (len(ways) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(_cell(values[name, way]) for way in ways)} |" for name in sets]
    everywhere = [way for way in ways if all(values[name, way] for name in sets)]
    means = [f"{_mean_of(values, sets, way):.4f}" if way in everywhere else "" for way in ways]
    lines.append(f"| **mean of {len(sets)}** | {' | '.join(means)} |")
    lines.append(f"| mean rank | {' | '.join(_told(_ranks(values, sets, ways, goal)[way]) for way in ways)} |")
    return [*lines, "", *_verdict(values, sets, [way for way in ways if way.endswith(BY_HAND)], goal)]


def _verdict(values: Values, sets: Sequence[str], by_hand: Sequence[str], goal: str) -> list[str]:
    """The portfolio beside the networks by hand alone."""
    both = [name for name in sets if values.get((name, "portfolio")) and all(values[name, way] for way in by_hand)]
    if not both or not by_hand:
        return []
    ranks = _ranks(values, both, ["portfolio", *by_hand], goal)["portfolio"]
    sign = 1 if goal == "max" else -1
    best = max(by_hand, key=lambda way: sign * _mean_of(values, both, way))
    ahead = sign * (_mean_of(values, both, "portfolio") - _mean_of(values, both, best))
    lines = [
        f"- beside the networks by hand, on {len(both)} sets: mean rank {statistics.mean(ranks):.2f}; better by "
        f"{ahead:.4f} than {best}, the best of them on average"
    ]
    for name in both:
        mine = values[name, "portfolio"]
        rival = max((values[name, way] for way in by_hand), key=lambda some: sign * statistics.mean(some))
        lag, spread = sign * (statistics.mean(rival) - statistics.mean(mine)), max(_spread(mine), _spread(rival))
        if lag > 0:
            words = "more" if lag > spread else "less"
            lines.append(f"- behind on {name} by {lag:.4f}, {words} than the seeds' deviation of {spread:.4f}")
    return lines


def _ranks(values: Values, sets: Sequence[str], ways: Sequence[str], goal: str) -> dict[str, list[int]]:
    """Of every way on the sets that it has figures of; equal means have the same rank."""
    ranks: dict[str, list[int]] = {way: [] for way in ways}
    for name in sets:
        means = {way: round(statistics.mean(values[name, way]), 4) for way in ways if values[name, way]}
        for way, mean in means.items():
            ranks[way].append(1 + sum(other > mean if goal == "max" else other < mean for other in means.values()))
    return ranks


def _in_order(ways: set[str]) -> list[str]:
    """Networks by hand, the portfolio, other spaces."""
    return sorted(ways, key=lambda way: (not way.endswith(BY_HAND), way != "portfolio", way))


def _mean_of(values: Values, sets: Sequence[str], way: str) -> float:
    return statistics.mean(statistics.mean(values[name, way]) for name in sets)


def _told(ranks: Sequence[int]) -> str:
    return f"{statistics.mean(ranks):.2f}" if ranks else ""


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    return f"{statistics.mean(values):.4f}" + (f" ± {_spread(values):.4f}" if len(values) > 1 else "")
