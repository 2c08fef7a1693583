"""From a run folder to one self-contained HTML page, which works from a mail attachment."""

import json
import re
import shlex
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from eclose.config import Config
from eclose.display.asked import asked, task_name
from eclose.display.explanation.html import environment, shown
from eclose.display.networks import COLOURS, Metric, Network, metric_of, networks_of, objectives_of
from eclose.display.samples.draw import draw_samples
from eclose.display.sections.front import front_of
from eclose.display.sections.genealogy import genealogy
from eclose.display.sections.headline import chance, fitted_won, headline
from eclose.display.sections.plots import attention_plot, complexity_plot, loss_plot, rate_plot, trials_plot, valid_plot
from eclose.display.sections.rows import columns_of, network_rows, trial_rows
from eclose.display.terminal.tables import correlation_text
from eclose.display.under_way import trials_so_far
from eclose.display.wording import SHARES, duration, finite, metric_noun, share
from eclose.engine.saved_networks import saved_explanation
from eclose.runs import STAGES, Run, Trial, write_text
from eclose.signature import Signature
from eclose.tasks import Layout

_OTHERS = 40  # curves of further search trials behind those of the networks


def write_page(run: Run) -> Path:
    """Write ``report.html`` into the run folder, of a finished run or of what there is so far."""
    path = run.path / "report.html"
    write_text(path, environment().get_template("page.html.j2").render(_view(run)))
    return path


def _view(run: Run) -> dict[str, Any]:
    config, result = run.config, run.result
    metric = metric_of(config, result)
    trials = trials_so_far(run, metric)
    signature = _signature(result)
    networks = networks_of(trials, result, metric)
    found = next((network for network in networks if network.found), None)
    task = task_name(config, result)
    search = [trial for trial in trials if trial.role == "search"]
    chosen = _chosen(found, search, metric)
    told = (result or {}).get("search") or {}
    tried = told.get("networks", len(search)) if any(trial.origin for trial in search) else 0  # that were compared
    tokens = signature.tokens if signature else config.task.tokens
    kind = signature.kind if signature else config.task.kind
    layout = Layout.from_dict((result or {}).get("layout"), signature) if signature else Layout()
    return {
        "name": _folder_name(run),
        "task": task,
        "finished": result is not None,
        "progress": _progress(trials, config),
        "headline": headline(
            networks, metric, task, _split(networks, result), result is not None, tried, fitted_won(told)
        ),
        "chance": _chance(told),
        "facts": _facts(run, result, trials),
        "tried": tried,
        "stages": any(trial.origin in STAGES for trial in search),
        "compared": sum(network.done for network in networks) > 1,
        "asked": asked(config, result, signature, layout),
        "config": _config_text(run),
        "metric": {"noun": metric_noun(metric.name), "goal": metric.goal},
        "searched": config.space.name != "backbone",
        "keeps_best": config.train.keep == "best",
        "final": found is not None and found.trial.role == "final",
        "fitted": found is not None and found.fitted,
        "all_samples": found is not None and not _judged(found.trial),
        "explanation": shown(saved_explanation(run) or []),
        "network_text": (result or {}).get("network"),
        "networks": networks,
        "legend": [network for network in networks if network.colour < COLOURS and network.trial.history],
        "grey": sum(network.colour == COLOURS and bool(network.trial.history) for network in networks),
        "predictors": any(not network.trained for network in networks),
        "correlation": _correlation(result),
        "genealogy": genealogy(search, chosen, metric, config),
        "front": front_of(search, objectives_of(config), metric, chosen),
        **_tables(networks, search, chosen, metric),
        **_curves(networks, search, chosen, metric, config),
        "samples": draw_samples(run.path / "samples.safetensors", kind, tokens, networks, layout),
        "one_sample": _one_sample(result, kind, metric),
        "before_final": _before_final(found),
        "columns_of_x": bool(layout.columns),
        "usage": _usage(_folder_name(run), signature, layout),
    }


def _chance(told: dict[str, Any]) -> str:
    """As a sentence: of the winner, or of the best network where a fitted model has won."""
    text = chance(told)
    if not text:
        return ""
    return f"{text[0].upper()}{text[1:]}" if told.get("fitted") else f"The winner is {text}"


def _correlation(result: dict[str, Any] | None) -> str:
    """How well scores foretold the trainings, of a search that filtered by them."""
    measured = ((result or {}).get("search") or {}).get("rank_correlation")
    return correlation_text(measured) if measured else ""


def _tables(networks: list[Network], search: list[Trial], chosen: int | None, metric: Metric) -> dict[str, Any]:
    columns = columns_of([network.trial for network in networks])
    view: dict[str, Any] = {
        "columns": columns,
        "rows": network_rows(networks, metric, columns),
        "trials": None,
    }
    if len(search) > 1:
        trial_columns = [figure for figure in columns_of(search) if figure.name != "test"]
        view["trials"] = {
            "columns": trial_columns,
            "rows": trial_rows(search, metric, trial_columns, chosen),
            "plot": trials_plot(search, chosen, metric),
            "failed": sum(trial.state == "failed" for trial in search),
            "stopped": sum(trial.state == "done" and bool(trial.reason) for trial in search),
        }
    return view


def _chosen(found: Network | None, search: list[Trial], metric: Metric) -> int | None:
    """The number of the search trial that the found network is, or was trained anew after."""
    if found is None or found.trial.role == "search":
        return found.trial.number if found else None
    same = [t for t in search if (t.space, t.genotype) == (found.trial.space, found.trial.genotype)]
    longer = [trial for trial in same if trial.origin in STAGES[1:]] or same
    exact = [trial.number for trial in longer if trial.valid == found.trial.valid]
    best = metric.best(trial.valid for trial in longer)  # beside it the found one may have the mean of two seeds
    return next(iter([*exact, *(trial.number for trial in longer if trial.valid == best)]), None)


def _curves(
    networks: list[Network], search: list[Trial], chosen: int | None, metric: Metric, config: Config
) -> dict[str, Any]:
    others = [trial for trial in search if trial.history and trial.number != chosen][-_OTHERS:]
    return {
        "others": len(others),
        "loss_plot": loss_plot(networks, others),
        "attention_plot": attention_plot(networks, others),
        "complexity_plot": complexity_plot(networks, others),
        "valid_plot": valid_plot([_validated(network, search, chosen) for network in networks], others, metric),
        "rate_plot": rate_plot(networks, config.optimiser.learning_rate or 1.0),
        "rate_known": config.optimiser.learning_rate > 0,
    }


def _judged(trial: Trial) -> bool:
    """Whether validation samples were left to judge it by."""
    return any(entry.get("valid") is not None for entry in trial.history)


def _before_final(found: Network | None) -> str:
    """The found network, if its final training has no validation samples left."""
    trained = found is not None and found.trial.role == "final" and not found.fitted
    return found.label if found and trained and not _judged(found.trial) else ""


def _validated(network: Network, search: list[Trial], chosen: int | None) -> Network:
    """Without validation samples of its own a final training has the curve of its trial."""
    if not network.found or not _before_final(network):
        return network
    return next((replace(network, trial=trial) for trial in search if trial.number == chosen), network)


def _signature(result: dict[str, Any] | None) -> Signature | None:
    data = (result or {}).get("signature")
    return Signature.from_dict(data) if data else None


def _one_sample(result: dict[str, Any] | None, kind: str, metric: Metric) -> str:
    """How much a single test sample counts, where that is much."""
    samples = ((result or {}).get("about") or {}).get("samples") or {}
    size = samples.get("test") if isinstance(samples, dict) else None
    if kind != "classification" or metric.name not in SHARES or not isinstance(size, int) or not 0 < size <= 1000:
        return ""
    return share(1 / size)


def _split(networks: list[Network], result: dict[str, Any] | None) -> str:
    """The set that the headline speaks of: the test set, where the task has one."""
    samples = ((result or {}).get("about") or {}).get("samples") or {}
    tested = "test" in samples or any(network.value("test") is not None for network in networks)
    return "test" if tested else "valid"


def _facts(run: Run, result: dict[str, Any] | None, trials: list[Trial]) -> list[str]:
    """The quiet line under the headline."""
    data = result or {}
    seconds = data.get("seconds")
    if not finite(seconds):
        seconds = sum(trial.seconds or 0.0 for trial in trials)
    versions = data.get("versions") or {}
    return [
        _date(run),
        f"seed {run.config.run.seed}",
        str(data.get("device") or run.config.run.device),
        f"{duration(seconds)} of training",
        ", ".join(f"{package} {version}" for package, version in versions.items()),
    ]


def _date(run: Run) -> str:
    """When the run began: its name says it, else the age of its configuration does."""
    start = re.match(r"\d{4}-\d\d-\d\d", _folder_name(run))
    if start:
        return start[0]
    file = run.path / "config.toml"
    return date.fromtimestamp(file.stat().st_mtime).isoformat() if file.exists() else date.today().isoformat()


def _folder_name(run: Run) -> str:
    return run.path.resolve().name or "run"


def _config_text(run: Run) -> str:
    """The file as it stands, which may hold more than the configuration can say."""
    file = run.path / "config.toml"
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else run.config.to_toml()


def _progress(trials: list[Trial], config: Config) -> dict[str, int]:
    states = [trial.state for trial in trials if trial.role != "fitted"]
    begun = {trial.name.removesuffix(" (default)") for trial in trials if trial.role == "baseline"}
    waiting = set(config.compare.baselines) - begun
    return {
        "done": states.count("done"),
        "failed": states.count("failed"),
        "running": states.count("running"),
        "waiting": len(waiting),
    }


def _usage(name: str, signature: Signature | None, layout: Layout) -> dict[str, str]:
    """Lines to copy; the folder's name is quoted as each language wants it."""
    shape = ", ".join(map(str, ("batch", *signature.input_shape(1)[1:]))) if signature else ""
    kind = "tokens, " if signature and signature.tokens else ""
    remark = f"  # x: {kind}({shape})" if signature else ""
    folder, file = shlex.quote(name), "new.csv" if layout.columns else "new.npz"
    return {
        "python": f"import eclose\nmodel = eclose.load({json.dumps(name, ensure_ascii=False)})\ny = model(x){remark}",
        "shell": f"eclose predict {folder} {file} --out predictions.npz\n"
        f"eclose export {folder} --to exported --format pt2",
        "resume": f"eclose resume {folder}",
    }
