"""What is trained next: the stages of a portfolio, and the networks of each."""

from collections.abc import Iterator, Sequence

from eclose.engine.portfolio.race import AGAIN, LONG, SHORT, Race, saw_all
from eclose.engine.standings import Network, network_named, network_of
from eclose.runs import Trial
from eclose.spaces import Genotype

Stage = tuple[str, list[Genotype]]


def under_way(race: Race) -> Stage:
    """The stage that the search is in, with those of its networks that have not begun; after the last one none.

    What is trained already of the networks that join a stage later does not keep the others of them waiting.
    """
    for stage, networks in _stages(race):
        state = {network_of(trial): trial.state for trial in race.of(stage)}
        asked = _by_name(networks)
        left = [network for key, network in asked.items() if key not in state]
        if left or any(state[key] == "running" for key in asked):
            return stage, left
    return "", []


def _stages(race: Race) -> Iterator[Stage]:
    usual = _usual(race)
    if race.room == 1 and not race.of(SHORT):
        yield LONG, usual
        return
    yield SHORT, usual
    plain = plain_networks(race)
    yield SHORT, plain
    if not (best := best_plain(race)):
        return
    short = [*plain, *_offered(race, best, race.room - len(plain))]
    yield SHORT, short
    of = _by_name(short)
    long = [of[network_of(trial)] for trial in _finalists(race, len(short))]
    yield LONG, long
    leader = race.among([trial for trial in race.trials if network_of(trial) in of]).order(LONG)[:1]
    if leader and race.overfits(leader[0]):
        network = of[network_of(leader[0])]
        changed = [network.on_changed_samples(change) for change in race.changes(len(short))]
        of |= _by_name(changed)
        yield LONG, [*long, *changed]
    if race.options.seeds and race.time_for_more:
        yield AGAIN, [of[network_of(trial)] for trial in _best_two(race)]


def plain_networks(race: Race) -> list[Genotype]:
    """The usual ones, and one that tells where features are, if these miss what a fitted model sees."""
    usual = _usual(race)
    return [*usual, *race.space.plain.by_regions(race.signature)] if _fitted_is_ahead(race) else usual


def _usual(race: Race) -> list[Genotype]:
    """The plain networks that there is time for; one place is left for another space.

    Once another space has its turn they are those that were trained.
    """
    space, room, short = race.space, race.room, race.of(SHORT)
    plain = space.offers(race.signature, [])
    if race.hurries:
        known = set(map(network_of, short))
        wide = [network for network in plain if network_named(network) in known]
        plain = list(_by_name([*wide, *space.plain.narrow(race.signature)]).values())
    names = _by_name(plain)
    begun = [network_of(trial) in names for trial in short]
    most = sum(begun)
    if all(begun) and not race.of(LONG):
        most = max(most, room - 1 if room > 2 and race.time_for_others else room)
    return plain[:most]


def _fitted_is_ahead(race: Race) -> bool:
    """Whether a fitted model is ahead of the short trainings of all the usual plain networks."""
    fitted, usual = race.fitted, _by_name(_usual(race))
    short = [trial for trial in race.of(SHORT) if network_of(trial) in usual]
    return bool(short) and fitted is not None and race.among([fitted, *short]).fitted_leads


def best_plain(race: Race) -> list[Genotype]:
    """The plain networks that had a short training, the best first: of these other spaces make theirs.

    One that did not see all samples in its time is left out, as what is made of it is slower still.
    """
    of = _by_name(plain_networks(race))
    order = [trial for trial in race.order(SHORT) if network_of(trial) in of]
    quick = [trial for trial in order if saw_all(trial)]
    return [of[network_of(trial)] for trial in quick or order[:1]]


def _offered(race: Race, best: Sequence[Genotype], places: int) -> list[Genotype]:
    """What is made of the best plain networks: behind a linear map, where one is ahead of them; by other spaces.

    There is a place for one behind the map in any case: plain networks need longer to come near it. If the narrow
    network by regions leads, its usual width has the next place. If it has not been tried, it has the last.
    """
    space, signature, ahead = race.space, race.signature, _fitted_is_ahead(race)
    behind = space.plain.behind_linear(signature, best) if ahead and _fitted_sees_all(race) else []
    wide = [] if race.hurries else space.plain.wide(signature, best[0])
    others = space.offers(signature, best) if race.time_for_others else []
    last = [] if race.hurries or ahead else space.plain.by_regions(signature)
    return [*behind, *wide, *others, *last][: max(places, min(1, len(behind)))]


def _fitted_sees_all(race: Race) -> bool:
    """Whether the fitted model is a map of all of the input."""
    return race.fitted is not None and race.fitted.genotype["options"].get("sees") == "all"


def _finalists(race: Race, networks: int) -> list[Trial]:
    """The best plain network, and the best of all; half of few networks."""
    order = race.order(SHORT)
    first = _first_plain(race, order)
    return [*first, *(trial for trial in order[: race.finalists(networks)] if trial not in first)]


def _best_two(race: Race) -> list[Trial]:
    """The best plain network and the best of all, or whoever comes after it: those that the run decides between."""
    order = race.order(LONG)
    first = _first_plain(race, order)
    return [*first, *(trial for trial in order if trial not in first)][:2]


def _first_plain(race: Race, order: Sequence[Trial]) -> list[Trial]:
    """The best plain network, if one was trained."""
    return [trial for trial in order if trial.space == race.space.plain.name][:1]


def _by_name(networks: Sequence[Genotype]) -> dict[Network, Genotype]:
    """As :func:`network_of` names the trial of one."""
    return {network_named(network): network for network in networks}
