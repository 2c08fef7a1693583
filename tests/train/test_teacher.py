"""Attention transfer: equation (6) written out, stages of known networks, what a pass leaves behind."""

import math

import pytest
import torch
from torch import Tensor, nn

from eclose.backbones import make_backbone
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces import assemble
from eclose.train.losses import make_loss
from eclose.train.objective import Objective
from eclose.train.teacher import Lesson, Place, Teacher, attention, distance, matched, resized, stages, watching

IMAGES = Signature("classification", 2, (16, 12), 3)
SPACES = {1: (20,), 2: (16, 12), 3: (8, 6, 9)}


def literal(student: Tensor, teacher: Tensor) -> Tensor:
    """Equation (6) for one stage of one sample, point by point; features are ``(channels, *space)``."""
    vectors = []
    for features in (student, teacher):
        points = features.flatten(1)
        accumulated = torch.stack(
            [sum(abs(points[i, p]) ** 2 for i in range(len(points))) for p in range(points.shape[1])]
        )
        vectors.append(accumulated / sum(value**2 for value in accumulated) ** 0.5)
    return 0.5 * sum((ours - theirs) ** 2 for ours, theirs in zip(*vectors, strict=True)) ** 0.5


def model_of(name: str, signature: Signature = IMAGES, seed: int = 0, **options: object) -> nn.Module:
    torch.manual_seed(seed)
    return assemble(make_backbone(name, signature, options), signature, None)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_equation_six_values_and_gradients(axes: int) -> None:
    space = (5, 3, 2)[:axes]
    draw = torch.Generator().manual_seed(axes)
    student = torch.randn(3, 4, *space, generator=draw, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 7, *space, generator=draw, dtype=torch.float64)
    ours = distance(attention(student), attention(teacher))
    theirs = torch.stack([literal(*pair) for pair in zip(student, teacher, strict=True)])
    torch.testing.assert_close(ours, theirs)
    found, wanted = (torch.autograd.grad(values.square().sum(), student)[0] for values in (ours, theirs))
    torch.testing.assert_close(found, wanted)
    assert found.abs().max() > 1e-3


def test_the_weight_in_the_units_of_attention_transfer() -> None:
    """Their loss is ``b`` times the mean of squares over the points; ours has its slope at ``4 b d / points``."""
    draw = torch.Generator().manual_seed(0)
    teacher = attention(torch.randn(1, 7, 8, 8, generator=draw, dtype=torch.float64))
    features = torch.randn(1, 4, 8, 8, generator=draw, dtype=torch.float64).requires_grad_()
    ours = distance(attention(features), teacher)
    unit = [maps / maps.flatten(1).norm() for maps in (attention(features), teacher)]
    theirs = 1000 * (unit[0] - unit[1]).square().mean()
    apart = 2 * float(ours.detach())  # the distance of maps of length one
    weight = 4 * 1000 * apart / 64
    slopes = [torch.autograd.grad(loss, features)[0] for loss in (weight * ours.sum(), theirs)]
    torch.testing.assert_close(*slopes)


def test_equal_maps_and_dead_features_have_finite_gradients() -> None:
    for values in (torch.ones(1, 2, 4), torch.zeros(1, 2, 4)):
        features = values.clone().requires_grad_(True)
        apart = distance(attention(features), attention(torch.ones(1, 3, 4)))
        (gradient,) = torch.autograd.grad(apart.sum(), features)
        assert gradient.isfinite().all()
    assert distance(torch.ones(1, 4), 7 * torch.ones(1, 4)) == 0


def test_half_precision_features_are_summed_in_single() -> None:
    features = torch.full((1, 4, 2), 300.0, dtype=torch.float16)
    assert attention(features).tolist() == [[360000.0, 360000.0]]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_maps_are_resized_by_averages(axes: int) -> None:
    maps = torch.rand(2, *SPACES[axes])
    halved = resized(maps, [size // 2 for size in SPACES[axes]])
    assert halved.shape == (2, *(size // 2 for size in SPACES[axes]))
    assert resized(maps, SPACES[axes]) is maps


def test_stages_end_with_the_last_block_of_their_size() -> None:
    found = stages(model_of("resnet20", width=2), IMAGES)
    assert found == {
        (16, 12): Place("network.5", 0),
        (8, 6): Place("network.8", 0),
        (4, 3): Place("network.11", 0),
    }
    pyramid = stages(model_of("pyramidnet", depth=20, alpha=4), IMAGES)
    assert pyramid == {(16, 12): Place("network.3", 0), (8, 6): Place("network.5", 0), (4, 3): Place("network.9", 0)}


class Reused(nn.Module):
    """One activation for all layers; the answer is a map of the size of the last stage."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(2, 3, 3, padding=1), nn.Conv1d(3, 3, 3, stride=2, padding=1)
        self.answer, self.relu = nn.Conv1d(3, 1, 1), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.answer(self.relu(self.second(self.relu(self.first(x)))))


def test_a_module_of_several_calls_and_an_answer_that_is_no_stage() -> None:
    signature = Signature("dense", 2, (8,), 1)
    model = assemble(Reused(), signature, None)
    found = stages(model, signature)
    assert found == {(8,): Place("network.relu", 0), (4,): Place("network.relu", 1)}
    with watching(model, list(found.values())) as features:
        model(torch.randn(2, 2, 8))
    assert [tuple(features[place].shape[2:]) for place in found.values()] == [(8,), (4,)]


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("name", ["resnet", "resnet20", "tcn", "fno", "lenet"])
def test_every_kind_of_network_has_stages(name: str, axes: int) -> None:
    signature = Signature("classification", 2, SPACES[axes], 3)
    model = model_of(name, signature, **({"width": 4} if name != "lenet" else {}))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    drawn = torch.get_rng_state()
    assert stages(model, signature)
    assert model.training
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_tokens_have_stages_behind_their_embedding() -> None:
    signature = Signature("classification", 1, (9,), 3, vocabulary=5)
    assert (9,) in stages(model_of("resnet", signature, width=4), signature)


def test_sizes_are_matched_to_the_nearest_within_a_halving() -> None:
    ends = {sizes: Place(str(sizes), 0) for sizes in [(32, 32), (28, 28), (16, 16), (8, 8), (4, 4), (10, 10)]}

    def sides(student: list[int], teacher: list[int]) -> list[tuple[str, str]]:
        pairs = matched({(s, s): ends[s, s] for s in student}, {(t, t): ends[t, t] for t in teacher})
        return [(ours.module, theirs.module) for ours, theirs in pairs]

    assert sides([32, 16, 4], [32, 16, 8]) == [("(32, 32)", "(32, 32)"), ("(16, 16)", "(16, 16)")]
    assert sides([28, 10], [32, 16, 8]) == [("(28, 28)", "(32, 32)"), ("(10, 10)", "(8, 8)")]
    with pytest.raises(ConfigError) as refusal:
        sides([32], [8, 4])
    assert str(refusal.value) == (
        "no stage of the teacher (features of 8x8, 4x4 points) has about the sizes of one of the network (32x32): "
        "choose another teacher, or leave it out"
    )


def lesson_and_batch(weight: float = 3.0) -> tuple[Lesson, Tensor]:
    teacher = Teacher(model_of("resnet20", width=3, seed=1), IMAGES, weight)
    return Lesson(teacher, model_of("resnet20", width=2)), torch.randn(4, 2, 16, 12)


def test_the_loss_of_a_pass_is_that_of_its_features() -> None:
    lesson, x = lesson_and_batch()
    lesson.student.eval()
    output, losses = lesson(x)
    assert torch.equal(output, lesson.student(x))
    wanted = torch.zeros(4)
    for end in (6, 9, 12):
        student, teacher = lesson.student.network[:end](x), lesson.teacher.model.network[:end](x)
        wanted = wanted + 3.0 * torch.stack([literal(*pair) for pair in zip(student, teacher, strict=True)])
    torch.testing.assert_close(losses, wanted, rtol=1e-4, atol=1e-5)
    assert lesson.distance(x) == pytest.approx(float(wanted.detach().mean()) / 3, rel=1e-4)
    assert 0 < lesson.distance(x) < 3 * math.sqrt(0.5)


def test_the_teacher_stays_as_it_is_and_looks_once_a_batch() -> None:
    lesson, x = lesson_and_batch()
    before = {key: value.clone() for key, value in lesson.teacher.model.state_dict().items()}
    passes = []
    lesson.teacher.model.register_forward_hook(lambda *_: passes.append(torch.is_grad_enabled()))
    objective = Objective(make_loss("cross_entropy", {}), None, lesson)
    y = torch.tensor([0, 1, 2, 0])
    for _ in range(3):
        objective(lesson.student, x, y).sum().backward()
    assert passes == [False]
    assert all(p.grad is not None for p in lesson.student.parameters())
    assert all(p.grad is None for p in lesson.teacher.model.parameters())
    assert all(torch.equal(before[key], value) for key, value in lesson.teacher.model.state_dict().items())
    assert not lesson.teacher.model.training
    x.mul_(2)  # another batch in the same tensor
    objective(lesson.student, x, y)
    assert len(passes) == 2
    assert not any(module._forward_hooks for module in lesson.student.modules())


def test_the_objective_adds_the_weighted_loss() -> None:
    lesson, x = lesson_and_batch()
    y = torch.tensor([0, 1, 2, 0])
    loss = make_loss("cross_entropy", {})
    lesson.student.eval()
    plain = Objective(loss, None)(lesson.student, x, y)
    torch.testing.assert_close(Objective(loss, None, lesson)(lesson.student, x, y), plain + lesson(x)[1])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_graph_asks_the_teacher_at_every_replay() -> None:
    from eclose.train import GradientStep, World
    from eclose.train.graph import GraphStep

    device, ends = torch.device("cuda"), []
    for graph in (False, True):
        teacher = Teacher(model_of("resnet20", width=3, seed=1).to(device), IMAGES, 3.0)
        model = model_of("resnet20", width=2).to(device)
        objective = Objective(make_loss("cross_entropy", {}), None, Lesson(teacher, model))
        optimiser = torch.optim.SGD(model.parameters(), 0.05, fused=True)
        step = GradientStep(model, objective, [optimiser], 0.0, "float32", device, World())
        moved = GraphStep(step) if graph else step
        draw = torch.Generator().manual_seed(0)
        for _ in range(8):
            x = torch.randn(4, 2, 16, 12, generator=draw).to(device)
            moved(x, torch.randint(3, (4,), generator=draw).to(device), 4)
        ends.append([p.detach().cpu() for p in model.parameters()])
    for plain, replayed in zip(*ends, strict=True):
        torch.testing.assert_close(replayed, plain, rtol=1e-3, atol=1e-4)
