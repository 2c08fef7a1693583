"""What came out, in plain words."""

from collections.abc import Mapping, Sequence
from typing import Any

from eclose.backbones.reference import own_label
from eclose.display.networks import Metric, Network
from eclose.display.wording import listed, metric_noun, metric_phrase, score, shortened
from eclose.plural import plural

_PREFERRED = "of equals a plain network is preferred"
_COLLAPSED = " It has collapsed: it answers the same whatever it is shown."


def headline(
    networks: Sequence[Network], metric: Metric, task: str, split: str, finished: bool, tried: int, won: str = ""
) -> str:
    """A few sentences; a network that lost is said to have lost.

    ``tried``: networks that a search compared. ``won``: how a fitted model has won, where it has.
    """
    task = shortened(task)
    found = next((network for network in networks if network.found), None)
    if not finished:
        return _unfinished(found, metric, task)
    if found is None:
        return f"The run on {task} has ended without a network."
    name = f"The best of {tried} networks, {shortened(found.label)}," if tried > 1 else shortened(found.label)
    if won:
        name = f"{won[0].upper()}{won[1:]}. It"
    value = found.value(split)
    where = f"on the {'test' if split == 'test' else 'validation'} set of {task}"
    if value is None:
        return f"{name} was trained, but its {metric_noun(metric.name)} {where} is not a finite number."
    others = [network for network in networks if not network.found and network.value(split) is not None]
    rivals = [network for network in others if network.trained]
    predictors = [network for network in others if not network.trained]
    return (
        f"{name} reaches {metric_phrase(metric.name)} {score(metric.name, value)} {where}"
        f"{_Comparison(metric, split, predictors).among(found, rivals)}."
        f"{_COLLAPSED if found.trial.collapsed else ''}"
        f"{_without_training(found, predictors, metric, split)}{_failures(networks)}"
    )


def fitted_won(search: Mapping[str, Any]) -> str:
    """That no network is ahead of what was fitted in closed form, where that is so."""
    won = search.get("fitted")
    return f"the {won} won: no network was better" if won else ""


def chance(search: Mapping[str, Any]) -> str:
    """Whether a portfolio's winner is ahead of its rival by more than two seeds are apart; or nothing.

    The rival is the best plain network, or the best found one where a plain network won. That of a fitted model is
    the best of all.
    """
    ahead, apart, name = search.get("ahead"), search.get("seeds_apart"), search.get("rival")
    if ahead is None:
        return ""
    kind = "" if search.get("fitted") else "found " if search.get("plain") else "plain "
    rival = f"the best {kind}network{f', {name},' if name else ''}"
    if search.get("fitted"):
        return _behind_fitted(rival, ahead)
    if ahead < 0:
        return f"one right answer behind {rival} on validation samples, which is no lead: {_PREFERRED}"
    if ahead == 0:
        why = _PREFERRED if search.get("plain") else "its validation loss is lower"
        return f"as good as {rival} on validation samples: {why}"
    told = f"ahead of {rival} by {ahead:.3g} on validation samples"
    if apart is None:
        return told
    return f"{told}, {'more' if ahead > apart else 'no more'} than two seeds of one network are apart ({apart:.3g})"


def _behind_fitted(rival: str, ahead: float) -> str:
    if ahead > 0:
        return f"{rival} is behind by {ahead:.3g} on validation samples"
    return f"{rival} is as good on validation samples"


def _unfinished(found: Network | None, metric: Metric, task: str) -> str:
    value = found.value("valid") if found else None
    if found is None or value is None:
        return f"The run on {task} has not finished; there are no figures yet."
    return (
        f"The run on {task} has not finished; so far {shortened(found.label)} reaches "
        f"{metric_phrase(metric.name)} {score(metric.name, value)} on the validation set."
    )


class _Comparison:
    """The found network beside those that were trained with the same settings."""

    def __init__(self, metric: Metric, split: str, predictors: Sequence[Network]) -> None:
        self.metric = metric
        self.split = split
        self.trivial = _best([each for each in predictors if each.trial.role == "trivial"], metric, split)

    def among(self, found: Network, rivals: Sequence[Network]) -> str:
        """``, better than the cnn it started from (0.889) but worse than fno (0.0272)``."""
        start = _start(found, rivals)
        others = [rival for rival in rivals if rival is not start]
        said: dict[str, list[str]] = {"beside": [], "better than": [], "no better than": [], "worse than": []}
        if start is not None:
            article = "" if start.label.startswith("your ") else "the "
            said[self._verdict(found, start)].append(f"{article}{self._named(start, ' it started from')}")
        if others:
            verdict, text = self._strongest(found, others, "other " if start else "")
            said[verdict].append(text)
        parts = [f"{verdict} {' and '.join(texts)}" for verdict, texts in said.items() if texts]
        return f", {', but '.join(parts)}" if parts else ""

    def _strongest(self, found: Network, others: Sequence[Network], other: str) -> tuple[str, str]:
        """How the found network stands to the best of the others, and who that is."""
        best = _best(others, self.metric, self.split) or others[0]
        verdict, name, number = self._verdict(found, best), self._named(best), len(others)
        if number == 1:
            return verdict, name
        every = "both" if number == 2 else f"all {number}"
        if verdict in ("beside", "no better than"):
            return verdict, f"{name}, {'one' if verdict == 'beside' else 'the best'} of {number} {other}baselines"
        ahead = sum(self._verdict(found, each) == "worse than" for each in others)
        if ahead == 1:
            return verdict, f"{name}, one of {number} {other}baselines"
        which = every if ahead in (0, number) else f"{ahead} of {number}"
        return verdict, f"{which} {other}baselines, the best of which is {name}"

    def _verdict(self, found: Network, rival: Network) -> str:
        """By the digits that are shown."""
        mine, theirs = found.value(self.split), rival.value(self.split)
        if not self.metric.goal or rival.trial.collapsed:  # nobody is praised for beating a constant
            return "beside"
        if score(self.metric.name, mine) == score(self.metric.name, theirs):
            return "no better than"
        return "better than" if self.metric.better(mine, theirs) else "worse than"

    def _named(self, rival: Network, addition: str = "") -> str:
        """With its figure; a network that is no better than a guess is said to be one, so that nobody is praised."""
        value = rival.value(self.split)
        text = f"{shortened(rival.label)}{addition} ({score(self.metric.name, value)}"
        if rival.trial.collapsed:
            return f"{text}, collapsed)"
        if self.trivial and self.metric.goal and not self.metric.better(value, self.trivial.value(self.split)):
            return f"{text}, no better than the {self.trivial.label})"
        return f"{text})"


def _start(found: Network, rivals: Sequence[Network]) -> Network | None:
    """The network that a search started from, if it was trained too."""
    backbone = found.trial.genotype.get("backbone") if found.trial.space != "backbone" else None
    names = (backbone, own_label(backbone)) if isinstance(backbone, str) else ()
    return next((rival for rival in rivals if rival.trial.name in names), None)


def _best(networks: Sequence[Network], metric: Metric, split: str) -> Network | None:
    best = metric.best(network.value(split) for network in networks)
    return next((network for network in networks if best is not None and network.value(split) == best), None)


def _without_training(found: Network, predictors: Sequence[Network], metric: Metric, split: str) -> str:
    """How the best predictor that needs no training does, and whether it is beaten."""
    best = _best(predictors, metric, split)
    if best is None:
        return ""
    figure = score(metric.name, best.value(split))
    if metric.better(found.value(split), best.value(split)):
        if found.fitted:  # it needs none either
            return f" The {best.label} reaches {figure}."
        return f" The best without training, the {best.label}, reaches {figure}."
    if figure == score(metric.name, found.value(split)):
        return f" It is no better than the {best.label}, which needs no training ({figure})."
    return f" It is worse than the {best.label}, which needs no training ({figure})."


def _failures(networks: Sequence[Network]) -> str:
    failed = [shortened(network.label) for network in networks if network.trial.state == "failed"]
    if not failed:
        return ""
    if len(failed) > 3:
        return f" {plural(len(failed), 'baseline')} failed to train."
    return f" {listed(failed)} failed to train."
