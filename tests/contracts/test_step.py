"""What every step promises. Those of strategies are under contract with their strategies; others have a class here."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from eclose.engine.strategy import Prepared, plain_training
from eclose.errors import Interrupted
from eclose.train import Surroundings, Training, torch_settings
from eclose.train.graph import GraphStep
from tests.contracts.cases import AROUND, Case, images


def weights(model: nn.Module) -> list[Tensor]:
    return [value.detach().clone() for value in model.state_dict().values()]


def same(ones: list[Tensor], others: list[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(ones, others, strict=True))


class StepContract:
    """From a batch to moved weights; ``prepare`` gives a training that is about to begin, always the same."""

    around: Surroundings = AROUND

    def prepare(self) -> Prepared:
        raise NotImplementedError

    def training(self, **around: Any) -> Training:
        torch.manual_seed(self.around.seed)
        prepared = self.prepare()
        prepared.model.train()
        config = replace(prepared.config, train=replace(prepared.config.train, epochs=2, keep="last"))
        around_it = replace(self.around, **around)
        return Training(prepared.model, prepared.task, prepared.step, config, around_it, prepared.phases)

    def test_it_goes_on_from_a_checkpoint_with_the_same_bits(self, tmp_path: Path) -> None:
        whole = self.training()
        history = whole.run().history
        every = 2 * whole.steps
        for steps in (1, every // 2 + 1):  # in either epoch
            path, calls = tmp_path / f"{steps}.safetensors", iter(range(1, 100))
            with pytest.raises(Interrupted):
                self.training(checkpoint=path, stop=lambda calls=calls, steps=steps: next(calls) == steps).run()
            resumed = self.training(checkpoint=path)
            again = resumed.run().history
            assert same(weights(resumed.model), weights(whole.model)), steps
            assert [entry["train_loss"] for entry in again] == [entry["train_loss"] for entry in history]

    def test_a_factor_holds_for_the_next_step_only(self) -> None:
        """It multiplies the rates that the step began with, not those of the step before."""
        one, other = self.training(), self.training()
        for training, factors in ((one, (1.0,)), (other, (0.5, 0.1, 1.0))):
            for factor in factors:
                training.step.set_rate(factor, 0.0)
            torch.manual_seed(0)
            training.step(*training.feed.batch(0))
        assert same(weights(one.model), weights(other.model))

    def test_it_moves_weights_and_gives_the_sum_of_the_losses(self) -> None:
        training = self.training()
        before = weights(training.model)
        training.step.set_rate(1.0, 0.0)
        total = training.step(*training.feed.batch(0))
        assert total.shape == ()
        assert total.isfinite()
        assert not total.requires_grad
        assert not same(weights(training.model), before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestGraphStep(StepContract):
    around = replace(AROUND, device=torch.device("cuda"))
    case = Case(
        images, {"backbone.name": "lenet", "train.graph": "on", "run.device": "cuda", "run.deterministic": True}
    )

    @pytest.fixture(autouse=True)
    def _the_same_bits(self) -> Iterator[None]:
        config = self.case.search().config
        with torch_settings(config.run, config.train.precision):
            yield

    def prepare(self) -> Prepared:
        search = self.case.search()
        prepared = plain_training(search, search.start, self.around)
        assert isinstance(prepared.step, GraphStep)
        return prepared
