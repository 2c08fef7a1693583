"""What came out, in plain words."""

from collections.abc import Sequence

from eclose.report.networks import Metric, Network
from eclose.report.wording import listed, metric_noun, metric_phrase, plural, score, shortened


def headline(networks: Sequence[Network], metric: Metric, task: str, split: str, finished: bool, tried: int) -> str:
    """One or two sentences; a network that lost is said to have lost. ``tried``: networks that a search compared."""
    task = shortened(task)
    found = next((network for network in networks if network.found), None)
    if not finished:
        return _unfinished(found, metric, task)
    if found is None:
        return f"The run on {task} has ended without a network."
    name = f"The best of {tried} networks, {shortened(found.label)}," if tried > 1 else shortened(found.label)
    value = found.value(split)
    where = f"on the {'test' if split == 'test' else 'validation'} set of {task}"
    if value is None:
        return f"{name} was trained, but its {metric_noun(metric.name)} {where} is not a finite number."
    start = f"{name} reaches {metric_phrase(metric.name)} {score(metric.name, value)} {where}"
    rivals = [network for network in networks if not network.found and network.value(split) is not None]
    ending = _comparison(value, rivals, metric, split)
    return f"{start}{_origin(found, rivals, metric, split)}{ending}.{_failures(networks)}"


def _origin(found: Network, rivals: list[Network], metric: Metric, split: str) -> str:
    """The figure of the network that a search started from, if it was trained too."""
    backbone = found.trial.genotype.get("backbone") if found.trial.space != "backbone" else None
    for rival in rivals:
        if rival.trial.name == backbone:
            return f" (the {shortened(rival.label)} it started from: {score(metric.name, rival.value(split))})"
    return ""


def _unfinished(found: Network | None, metric: Metric, task: str) -> str:
    value = found.value("valid") if found else None
    if found is None or value is None:
        return f"The run on {task} has not finished; there are no figures yet."
    return (
        f"The run on {task} has not finished; so far {shortened(found.label)} reaches "
        f"{metric_phrase(metric.name)} {score(metric.name, value)} on the validation set."
    )


def _comparison(value: float, rivals: list[Network], metric: Metric, split: str) -> str:
    if not rivals or (len(rivals) > 1 and not metric.goal):
        return ""
    best = metric.best(rival.value(split) for rival in rivals)
    strongest = next((rival for rival in rivals if rival.value(split) == best), rivals[0])
    name, figure = shortened(strongest.label), score(metric.name, strongest.value(split))
    if len(rivals) == 1:
        if _ahead(best, value, metric):
            return f"; {name}, trained with the same settings, does better: {figure}"
        if score(metric.name, value) == figure:
            return f"; {name}, trained with the same settings, the same {figure}"
        return f"; {name}, trained with the same settings, {figure}"
    all_of = "both" if len(rivals) == 2 else f"all {len(rivals)}"
    if _ahead(value, best, metric):
        rest = f"baselines trained with the same settings, the best of which is {name} with {figure}"
        return f", better than {all_of} {rest}"
    ahead = sum(_ahead(rival.value(split), value, metric) for rival in rivals)
    if ahead == 0:
        return f"; none of the {len(rivals)} baselines trained with the same settings does better than {figure}"
    if ahead == 1:
        return f"; {name}, one of {len(rivals)} baselines trained with the same settings, does better: {figure}"
    which = all_of if ahead == len(rivals) else f"{ahead} of the {len(rivals)}"
    return f"; {which} baselines trained with the same settings do better, the best of them {name} with {figure}"


def _ahead(a: float | None, b: float | None, metric: Metric) -> bool:
    """Better, in the digits that are shown."""
    return metric.better(a, b) and score(metric.name, a) != score(metric.name, b)


def _failures(networks: Sequence[Network]) -> str:
    failed = [shortened(network.label) for network in networks if network.trial.state == "failed"]
    if not failed:
        return ""
    if len(failed) > 3:
        return f" {plural(len(failed), 'baseline')} failed to train."
    return f" {listed(failed)} failed to train."
