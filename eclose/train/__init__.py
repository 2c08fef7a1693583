"""One training: loop, optimisers and schedules, losses, metrics, augmentation, checkpoints."""

from eclose.train.checkpoint import load_tensors, save_tensors
from eclose.train.cost import measure_cost, measure_latency
from eclose.train.data import Batches, usual_batch
from eclose.train.device import choose_device, device_answers, few_threads, torch_settings, usual_torch
from eclose.train.evaluation import evaluate, predict
from eclose.train.loop import Progress, Surroundings, Training
from eclose.train.objective import Objective
from eclose.train.parallel import World, join_world, share_batch_norm
from eclose.train.seeds import generator_for, seed_for
from eclose.train.step import GradientStep, Step

__all__ = [
    "Batches",
    "GradientStep",
    "Objective",
    "Progress",
    "Step",
    "Surroundings",
    "Training",
    "World",
    "choose_device",
    "device_answers",
    "evaluate",
    "few_threads",
    "generator_for",
    "join_world",
    "load_tensors",
    "measure_cost",
    "measure_latency",
    "predict",
    "save_tensors",
    "seed_for",
    "share_batch_norm",
    "torch_settings",
    "usual_batch",
    "usual_torch",
]
