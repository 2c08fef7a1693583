"""The stages beside a search: final trainings and a teacher, with the settings that they change in full."""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eclose.config import Config, FinalSection, TeacherSection
from eclose.engine.plan.training import complete_training
from eclose.engine.strategy import Strategy, gives_no_weights
from eclose.engine.teaching import teacher_genotype
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces import ContinuousSpace, Space


def complete_final(config: Config, space: Space, strategy: Strategy, signature: Signature) -> FinalSection:
    """How many networks are trained after the search, and with which settings, those that it changes in full."""
    given, relaxed = config.final, strategy.supernets and isinstance(space, ContinuousSpace)
    anew = gives_no_weights(strategy, space)
    if given.networks < 0 and relaxed and isinstance(space, ContinuousSpace) and space.offline:
        given = replace(given, networks=1, all_samples=False)  # a comparison is fair on the same samples
    networks = given.networks if given.networks >= 0 else int(anew or strategy.selection is not None)
    if anew and not networks:
        raise ConfigError(f"final.networks is 0, but what the space '{space.name}' finds is trained anew: leave it out")
    return replace(given, networks=networks, options=_stage_options(config, "final", given.options, signature))


def complete_teacher(config: Config, signature: Signature) -> TeacherSection:
    """The teacher with the options of its network and the settings of its training, those that it changes in full."""
    given = config.teacher
    if given.run and given.network:
        raise ConfigError("teacher.run and teacher.network name two teachers: leave one out")
    if not (given.run or given.network):
        open_ = [name for name in ("weights", "options", "final") if getattr(given, name)]
        if open_:
            raise ConfigError(f"teacher.{open_[0]} is given, but no teacher: name teacher.run or teacher.network")
        return given
    if given.run and (given.weights or given.options):
        named = "weights" if given.weights else next(iter(given.options))
        raise ConfigError(f"teacher.{named} does not concern the teacher {given.run}: leave it out")
    settings = {name: values for name, values in given.options.items() if name != "backbone"}
    if given.weights and settings:
        raise ConfigError(f"teacher.{next(iter(settings))} is of no use: {given.weights} is not trained")
    options = _stage_options(config, "teacher", settings, signature)
    if given.network:
        options["backbone"] = teacher_genotype(config, signature).choices["options"]
    places = {name: os.path.abspath(value) for name in ("run", "weights") if (value := getattr(given, name))}
    return replace(given, options=options, **places)


def _stage_options(config: Config, stage: str, given: Mapping[str, Any], signature: Signature) -> dict[str, Any]:
    """The settings that a stage of its own changes, section by section in full."""
    changed = config.with_stage(stage, given)
    epochs, batch = changed.train.epochs or config.train.epochs, changed.train.batch or config.train.batch
    try:
        changed = replace(changed, train=replace(changed.train, epochs=epochs, batch=batch))
        changed = complete_training(changed, signature)
    except ConfigError as error:
        raise ConfigError(f"[{stage}] {error}") from None
    return {name: dataclasses.asdict(getattr(changed, name)) for name in given}
