"""Numbers and words that a setting may have."""

import math
import os

from eclose.config import Config
from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.train import choose_device
from eclose.train.device import PRECISIONS

_MANY = 2**31
_RANGES: dict[str, tuple[int, float]] = {
    "train.epochs": (0, _MANY),
    "train.batch": (0, _MANY),
    "train.evaluate_every": (1, _MANY),
    "train.ema": (0, 0.5),
    "train.patience": (0, _MANY),
    "final.networks": (-1, _MANY),
    "teacher.weight": (0, math.inf),
    "budget.trials": (0, _MANY),
    "budget.minutes": (0, math.inf),
    "budget.training_seconds": (0, math.inf),
    "run.seed": (0, 2**63),
    "run.checkpoint_seconds": (0, math.inf),
    "run.workers": (1, _MANY),
    "optimiser.learning_rate": (0, math.inf),
    "optimiser.weight_decay": (0, math.inf),
    "optimiser.clip": (0, math.inf),
    "optimiser.widest": (0, _MANY),
    "schedule.warmup": (0, 1),
    "schedule.warmup_epochs": (0, math.inf),
    "task.subset": (0, _MANY),
    "task.subset_eval": (0, _MANY),
}


def check_ranges(config: Config) -> None:
    """Refuse what is out of range, and say what is allowed."""
    ranges = {**_RANGES, "run.threads": (0, 4 * (os.cpu_count() or 1))}
    for name, (least, most) in ranges.items():
        section, _, field = name.partition(".")
        value = getattr(getattr(config, section), field)
        if not least <= value <= most or math.isinf(value):
            highest = f"at most {most}" if most < math.inf else "finite"
            wanted = highest if value > least else f"at least {least}"
            raise ConfigError(f"{name} is {value}, but must be {wanted}")
    device, precision = choose_device(config.run.device).type, config.train.precision
    if config.train.graph == "on" and (device != "cuda" or precision == "float16"):
        raise ConfigError("train.graph needs a CUDA device and another precision than float16: leave it out")
    for name, value, known in (
        ("train.keep", config.train.keep, ("best", "last")),
        ("train.precision", config.train.precision, ("auto", *PRECISIONS)),
        ("train.graph", config.train.graph, ("auto", "on", "off")),
    ):
        if value not in known:
            raise ConfigError(f"{name} is '{value}'; {nearest(value, known)}")
