"""The linear model as a row of the trial table: genotype and weights lie in a folder, as those of a trained network."""

from dataclasses import replace

import torch

from eclose.engine.predictors import Predictor
from eclose.engine.strategy import Search
from eclose.runs import Run, Trial
from eclose.spaces import assemble, unit_scale
from eclose.train import measure_cost, save_tensors


def record_linear(run: Run, search: Search, predictor: Predictor, row: Trial) -> Trial:
    """Write the files of a fitted model, then its row, which ``row`` is the beginning of."""
    signature, setting = search.task.signature, search.config.task.standardise
    # It takes raw values as they are: what a network is assembled with changes nothing of them.
    model = assemble(predictor.model, signature, unit_scale(signature, setting))
    folder = run.trial_folder(row.number)
    predictor.genotype.save(folder)
    save_tensors(folder / "weights.safetensors", dict(model.state_dict()))
    flops = measure_cost(model, signature, torch.device("cpu")).flops
    size = predictor.row()["parameters"]
    row = replace(row, state="done", parameters=size, architecture_parameters=0, flops=flops, seconds=predictor.seconds)
    run.table.put(row)
    return row
