"""A bundle: the found network as files of data that ``eclose.load`` reads on any machine."""

import dataclasses
from pathlib import Path

from torch import nn

from eclose.backbones.consent import consent_now
from eclose.engine.saved_networks import SavedNetwork
from eclose.runs import Run, write_configuration, write_json, write_text
from eclose.train import save_tensors

BUNDLE = (
    "README.txt",
    "config.toml",
    "genotype.json",
    "genotype.safetensors",
    "result.json",
    "use.py",
    "weights.safetensors",
)

_README = """\
A network found by eclose.

use.py               how to use it
genotype.json        the network as data
weights.safetensors  its weights
config.toml          how it was trained
result.json          what it reached, and the shapes of input and output
"""

_USE = """\
import pathlib, eclose
model = eclose.load(pathlib.Path(__file__).parent)  # a plain torch.nn.Module that takes raw values
print(model)
"""


def write_bundle(run: Run, saved: SavedNetwork, model: nn.Module, folder: Path) -> list[Path]:
    """Write the bundle; a run folder without its trials, and without the places of the user's files."""
    config = dataclasses.replace(run.config, task=dataclasses.replace(run.config.task, data="", data_dir=""))
    result = {key: value for key, value in saved.result.items() if key != "run"}
    saved.genotype.save(folder)
    save_tensors(folder / "weights.safetensors", dict(model.state_dict()))
    # What is made of a foreign run stays foreign.
    write_configuration(folder, config, {} if run.agreed is None else consent_now().called)
    write_json(folder / "result.json", result)
    write_text(folder / "README.txt", _README)
    write_text(folder / "use.py", _USE)
    return [folder / name for name in BUNDLE if (folder / name).exists()]
