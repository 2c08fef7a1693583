"""The end of a run: test figures, the found network in its place, ``result.json``."""

import platform
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy
import torch

import eclose
from eclose.config import FORMAT
from eclose.engine.attention_maps import attention_section
from eclose.engine.predictors import Predictor, unbeaten
from eclose.engine.prefilter import rank_correlation
from eclose.engine.saved_networks import explained, load_trial_model
from eclose.engine.selection import front, ranked
from eclose.engine.strategy import COMPARED, Search, Strategy, compared, is_trained_anew
from eclose.plural import plural
from eclose.runs import Run, Trial, with_earlier
from eclose.spaces import Genotype
from eclose.tasks import Task
from eclose.tasks.splits import spread
from eclose.tasks.summary import summary
from eclose.train import Batches, World, evaluate, load_tensors, predict, save_tensors
from eclose.train.device import repeats
from eclose.train.metrics import Metric, make_metric

_CPU = torch.device("cpu")
_SAMPLES = 6
_DRAWN = 4  # networks whose predictions the page shows beside those of the best
_TESTED = 2  # of those that were compared, even if it is late


def finish(
    run: Run,
    search: Search,
    strategy: Strategy,
    best: Trial,
    trials: list[Trial],
    predictors: list[Predictor],  # of the first process
    device: torch.device,
    world: World,
    late: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Test the best trial, final trainings, baselines and predictors once, put the best in place, write the result.

    Once it is ``late``, networks that were only compared with the best are not tested.
    """
    task = search.task
    searched = [trial for trial in trials if trial.role == "search"]
    judged = {trial.number: trial.valid for trial in strategy.shown(search, searched)}  # perhaps means of seeds
    beside = list(judged)
    pairs = _pairs(search, strategy, trials)
    asked = {best.number, *beside[:_TESTED], *(supernet for supernet, _ in pairs)}
    asked |= {trial.number for trial in trials if trial.role not in COMPARED and trial.state == "done"}
    tested: dict[int, Trial] = {}
    for number in dict.fromkeys([*sorted(asked), *beside]):
        if number in asked or not world.tell(late()):
            tested[number] = _tested(run, task, trials[number], device, world)
    for pair in pairs:
        tested |= _evaluated_twice(run, [tested[number] for number in pair], world)
    best = replace(tested[best.number], valid=judged.get(best.number, best.valid))
    trials = [tested.get(trial.number, trial) for trial in trials]
    rivals = [replace(trials[number], valid=judged[number]) for number in beside if trials[number].name != best.name]
    baselines = [*rivals, *(trial for trial in trials if trial.role in ("baseline", "teacher"))]
    metric = make_metric(run.config.task.metric)
    # A fitted model has one place in tables.
    predictors = [each.tested(task, metric) for each in predictors if each.name != best.name or not is_fitted(best)]
    rows = world.tell([predictor.row() for predictor in predictors])
    result = _result(run, task, best, baselines, rows, trials, device)
    result |= _comparison(search, strategy, best, trials)
    if world.rank == 0:
        _write_samples(run, task, [best, *baselines[:_DRAWN]], _strongest(predictors, metric), device)
        result["explanation"] = _put_in_place(run, search, best, device)
        run.write_result(result)
    return result


def _put_in_place(run: Run, search: Search, best: Trial, device: torch.device) -> list[dict[str, Any]]:
    """What was found becomes the network of the run; the sections that explain it."""
    folder = run.trial_folder(best.number)
    genotype = Genotype.load(folder)
    model = load_trial_model(run, best, search.task.signature)
    sections = explained(run, genotype, model.get_submodule("network"))
    if search.teacher is not None:
        section = attention_section(search.teacher, model.to(device), _unseen(search.task)[0].to(device))
        sections += [section] if section is not None else []
    genotype.save(run.path)
    save_tensors(run.path / "weights.safetensors", load_tensors(folder / "weights.safetensors"))
    return [section.as_dict() for section in sections]


def _pairs(search: Search, strategy: Strategy, trials: list[Trial]) -> list[tuple[int, int]]:
    """Numbers of trainings of a supernet, and of those that gave new weights to what it found."""
    if not strategy.supernets or is_trained_anew(search):
        return []
    searched = {trial.hash: trial.number for trial in trials if trial.role == "search" and trial.state == "done"}
    anew = [trial for trial in trials if trial.role == "final" and trial.state == "done" and trial.hash in searched]
    return [(searched[trial.hash], trial.number) for trial in anew]


def _evaluated_twice(run: Run, pair: list[Trial], world: World) -> dict[int, Trial]:
    """Both with the figures of both."""
    supernet, offline = (trial.valid if trial.test is None else trial.test for trial in pair)
    rows = [replace(trial, supernet=supernet, offline=offline) for trial in pair]
    if world.rank == 0:
        for row in rows:
            run.table.put(row)
    return {row.number: row for row in rows}


def is_fitted(trial: Trial) -> bool:
    """Whether it was fitted in closed form: no training stands behind it."""
    return trial.genotype.get("fitted") is True


def _tested(run: Run, task: Task, trial: Trial, device: torch.device, world: World) -> Trial:
    if task.test is None or trial.test is not None or not world.agree(_has_weights(run, trial)):
        return trial
    # A fit is judged as it was made: by the CPU, in full precision.
    device, precision = (_CPU, "float32") if is_fitted(trial) else (device, run.config.train.precision)
    model = load_trial_model(run, trial, task.signature).to(device)
    data = Batches(task.test, task.signature, device)
    metric = make_metric(run.config.task.metric)
    trial = replace(trial, test=evaluate(model, data, metric, world, precision))
    if world.rank == 0:
        run.table.put(trial)
    return trial


def _has_weights(run: Run, trial: Trial) -> bool:
    """Not so where a supernet was trained of which another network is derived."""
    return (run.trial_folder(trial.number) / "weights.safetensors").exists()


def _strongest(predictors: list[Predictor], metric: Metric) -> list[Predictor]:
    """The best of them; none where none has a figure."""
    split = "test" if any(predictor.test is not None for predictor in predictors) else "valid"
    known = [predictor for predictor in predictors if getattr(predictor, split) is not None]
    known.sort(key=lambda predictor: getattr(predictor, split), reverse=metric.goal == "max")
    return known[:1]


def _write_samples(
    run: Run, task: Task, trials: list[Trial], predictors: list[Predictor], device: torch.device
) -> None:
    """A few samples that no training saw, with what every network and predictor makes of them."""
    x, y = _unseen(task)
    tensors = {"x": x, "y": y}
    for trial in trials:
        if trial.state == "done" and _has_weights(run, trial):
            model = load_trial_model(run, trial, task.signature).to(device)
            tensors[f"prediction.{trial.name}"] = predict(model, x, device)
    for predictor in predictors:
        tensors[f"prediction.{predictor.name}"] = predict(predictor.model, x, _CPU)
    save_tensors(run.path / "samples.safetensors", tensors)


def _unseen(task: Task) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples from all over a split that no training saw."""
    split = task.test or task.val
    return split.take(spread(len(split), _SAMPLES))


def _result(
    run: Run,
    task: Task,
    best: Trial,
    baselines: list[Trial],
    predictors: list[dict[str, Any]],
    trials: list[Trial],
    device: torch.device,
) -> dict[str, Any]:
    config = run.config
    metric = make_metric(config.task.metric)
    best, *baselines = (with_earlier(trial, trials) for trial in (best, *baselines))
    return {
        "format": FORMAT,
        "task": task.name,
        "space": config.space.name,
        "strategy": config.strategy.name,
        "seed": config.run.seed,
        "trial": best.number,
        "trial_seed": best.seed,
        "metric": {"name": metric.name, "goal": metric.goal},
        "name": best.name,
        "collapsed": best.collapsed,
        "note": best.note,
        **best.figures(),
        "trials": sum(trial.role == "search" for trial in trials),
        "seconds": sum(trial.seconds or 0.0 for trial in trials),
        "trial_seconds": best.seconds,
        "device": _device_name(device),
        "precision": config.train.precision,
        "deterministic": repeats(config.run),
        "versions": {
            "eclose": eclose.__version__,
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "python": platform.python_version(),
        },
        "signature": task.signature.as_dict(),
        "layout": task.layout.as_dict(),
        "data": {"text": summary(task), "doubts": list(task.doubts)},
        "about": task.about,
        "baselines": [*map(_baseline, baselines), *predictors],
        "unbeaten": unbeaten(best.test, best.valid, predictors, metric.goal),
        "run": str(run.path),
    }


def _baseline(trial: Trial) -> dict[str, Any]:
    return {"trial": trial.number, "name": trial.name, "kind": "network", **trial.outcome()}


def _comparison(search: Search, strategy: Strategy, best: Trial, trials: list[Trial]) -> dict[str, Any]:
    """What a search that compared many networks adds: the network as text, the search in figures, the best ones."""
    config = search.config
    found: dict[str, Any] = {}
    genotype = Genotype(best.space, best.genotype)
    if text := search.space_of(genotype).text(genotype):
        found["network"] = text
    finals = [_figures(trial) for trial in trials if trial.role == "final"]
    if finals:
        found["finals"] = finals
    if strategy.selection is None:
        return found
    searched = [trial for trial in trials if trial.role == "search"]
    goal, objectives = make_metric(config.task.metric).goal, strategy.selection.objectives
    order, competing = ranked(searched, goal, objectives), compared(trials)
    values = [trial.valid for trial in order if trial.valid is not None]
    found["search"] = {
        "failed": sum(trial.state == "failed" for trial in searched),
        "stopped": sum(bool(trial.reason) for trial in order),
        "best": strategy.standing(search, competing)[0].valid,
        "mean": sum(values) / len(values),  # what random sampling finds
        **strategy.summary(search, competing),
    }
    correlation = rank_correlation(searched, goal)
    if correlation:
        found["search"]["rank_correlation"] = correlation
    if len(objectives) > 1:
        found["front"] = [_figures(trial) for trial in front(searched, goal, objectives)]
    return found


def _figures(trial: Trial) -> dict[str, Any]:
    return {"trial": trial.number, "name": trial.name, **trial.outcome()}


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    return f"cpu ({plural(torch.get_num_threads(), 'thread')})"
