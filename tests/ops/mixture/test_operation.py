"""Mixtures against the sum of torch's own layers, one by one: values and gradients, away from the start."""

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eclose.ops.mixture import CONVOLUTIONS, OPERATIONS, Mixture, mixture_of_conv, mixture_of_pool, mixture_of_skip

CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def conv(axes: int, *args: Any, **options: Any) -> Any:
    torch.manual_seed(3)
    return CONV[axes](*args, dtype=torch.float64, **options)


def signal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def doubles() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def moved(mixture: Mixture) -> Mixture:
    with torch.no_grad():
        mixture.alpha.copy_(signal(len(mixture.alpha), seed=7))
    return mixture


def wide(x: Tensor, mode: str, value: float, far: int) -> Tensor:
    """The input with ``far`` more points on every side, one axis and one point at a time."""
    for axis in range(2, x.dim()):
        size = x.shape[axis]
        columns = []
        for place in range(-far, size + far):
            inside = {"zeros": place, "circular": place % size, "replicate": min(max(place, 0), size - 1)}[mode]
            if 0 <= inside < size:
                columns.append(x.select(axis, inside))
            else:
                columns.append(torch.full_like(x.select(axis, 0), value))
        x = torch.stack(columns, dim=axis)
    return x


def keep(y: Tensor, c_out: int, groups: int) -> Tensor:
    """Channel by channel: zeros where the output has more channels, in every group."""
    found = []
    for part in y.chunk(groups, dim=1):
        extra = c_out // groups - part.shape[1]
        before = extra // 2
        for channel in range(c_out // groups):
            inside = 0 <= channel - before < part.shape[1]
            found.append(part[:, channel - before] if inside else torch.zeros_like(part[:, 0]))
    return torch.stack(found, dim=1)


def one(name: str, mixture: Mixture, x: Tensor, starts: list[int], outs: list[int]) -> Tensor:
    """An operation on its own, by torch's layers at stride 1 on a widened input, read at its outputs."""
    far, axes = 12, x.dim() - 2
    groups, c_out = mixture.groups, mixture.channels[1]
    mode = "zeros" if mixture.mode == "constant" else mixture.mode
    around = wide(x, mode, -float("inf") if name == "max_pool3" else 0.0, far)
    shift = [0] * axes
    if name == "zero":
        return torch.zeros(len(x), c_out, *outs, dtype=x.dtype)
    if name == "identity":
        y = keep(around, c_out, groups)
    elif name == "max_pool3":
        y, shift = keep(MAX_POOL[axes](around, 3, 1), c_out, groups), [1] * axes
    elif name == "average_pool3":
        y, shift = keep(AVG_POOL[axes](around, 3, 1), c_out, groups), [1] * axes
    else:
        layer = mixture.convolutions[name]
        y = getattr(F, f"conv{axes}d")(around, layer.weight, layer.bias, dilation=layer.dilation, groups=groups)
        shift = [d * (k - 1) // 2 for k, d in zip(layer.kernel_size, layer.dilation, strict=True)]
    for axis, (start, out, before) in enumerate(zip(starts, outs, shift, strict=True)):
        places = [far + start + p * mixture.windows[axis].stride - before for p in range(out)]
        y = torch.stack([y.select(axis + 2, place) for place in places], dim=axis + 2)
    return y


def truth(mixture: Mixture, x: Tensor, starts: list[int], outs: list[int]) -> Tensor:
    shares = mixture.alpha.exp() / mixture.alpha.exp().sum()
    parts = [one(name, mixture, x, starts, outs) for name in mixture.operations]
    return sum(share * part for share, part in zip(shares, parts, strict=True))


def agree(mixture: Mixture, x: Tensor, starts: list[int], outs: list[int]) -> None:
    x.requires_grad_()
    y, wanted = mixture(x), truth(mixture, x, starts, outs)
    torch.testing.assert_close(y, wanted, rtol=1e-11, atol=1e-11)
    inputs = [x, *mixture.parameters()]
    cotangent = signal(*y.shape, seed=5)
    ours = torch.autograd.grad((y * cotangent).sum(), inputs)
    theirs = torch.autograd.grad((wanted * cotangent).sum(), inputs)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-10)


CASES: dict[str, tuple[Any, tuple[int, ...], list[int]]] = {  # layer, size of the input, point under output 0
    "1d": (conv(1, 3, 5, 3, padding=1), (11,), [0]),
    "1d one point": (conv(1, 2, 2, 5, padding=2), (1,), [0]),
    "1d no padding": (conv(1, 2, 2, 5), (7,), [2]),
    "1d strided": (conv(1, 2, 3, 3, padding=1, stride=3, bias=False), (13,), [0]),
    "1d own of 7": (conv(1, 3, 2, 7, padding=3), (10,), [0]),
    "1d own of 4": (conv(1, 2, 2, 4, padding=1, stride=2), (12,), [0]),
    "1d own of 6": (conv(1, 2, 2, 6, padding="same", padding_mode="circular"), (9,), [0]),
    "1d own with dilation": (conv(1, 2, 2, 3, padding=4, dilation=4), (9,), [0]),
    "1d circular own of 17": (conv(1, 3, 3, 17, padding="same", padding_mode="circular", bias=False), (19,), [0]),
    "1d depthwise": (conv(1, 4, 4, 3, padding=1, groups=4), (8,), [0]),
    "1d multiplier": (conv(1, 2, 6, 3, padding=1, groups=2), (8,), [0]),
    "1d fewer channels": (conv(1, 6, 3, 3, padding=1), (8,), [0]),
    "2d": (conv(2, 3, 6, 5, padding=2), (7, 6), [0, 0]),
    "2d no padding": (conv(2, 2, 2, 5), (5, 9), [2, 2]),
    "2d oblong": (conv(2, 2, 3, (3, 5), padding=(1, 2), stride=(2, 1)), (7, 5), [0, 0]),
    "2d dilated": (conv(2, 2, 2, 3, padding=2, dilation=2), (6, 5), [0, 0]),
    "2d circular": (conv(2, 2, 2, 3, padding=1, padding_mode="circular", stride=2), (5, 8), [0, 0]),
    "2d circular, no padding": (conv(2, 2, 2, 3, padding_mode="circular"), (5, 6), [1, 1]),
    "2d replicate": (conv(2, 2, 2, 5, padding=2, padding_mode="replicate"), (3, 4), [0, 0]),
    "3d": (conv(3, 2, 1, 3, padding=1, stride=(1, 2, 1)), (2, 5, 3), [0, 0, 0]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_convolution_becomes_the_sum_of_all_operations(case: str) -> None:
    layer, sizes, starts = CASES[case]
    mixture = moved(mixture_of_conv(copy.deepcopy(layer)))
    x = signal(2, layer.in_channels, *sizes)
    outs = list(layer(x).shape[2:])
    agree(mixture, x, starts, outs)


POOLS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "1d": (nn.MaxPool1d(3, 2, padding=1), (9,)),
    "2d of two": (nn.MaxPool2d(2), (8, 7)),
    "2d mean of two": (nn.AvgPool2d((2, 3), stride=(2, 1)), (6, 7)),
    "3d": (nn.AvgPool3d(2), (4, 5, 2)),
}


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("case", POOLS)
def test_poolings(case: str) -> None:
    layer, sizes = POOLS[case]
    x = signal(2, 3, *sizes)
    wanted = layer(x)
    mixture = mixture_of_pool(layer, 3)
    start = torch.zeros(3, 3, *sizes)
    assert mixture(start).shape[2:] == wanted.shape[2:]
    axes = len(sizes)
    taps = [each if isinstance(each, int) else each[0] for each in (layer.kernel_size, layer.padding)]
    starts = [(taps[0] - 1) // 2 - taps[1]] * axes
    if case == "2d mean of two":
        starts = [0, 1]
    agree(moved(mixture), x, starts, list(wanted.shape[2:]))


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize(("channels", "stride"), [((4, 4), 1), ((3, 6), 2), ((5, 2), 3)])
def test_skips(channels: tuple[int, int], stride: int) -> None:
    x = signal(2, channels[0], 7, 5)
    outs = [-(-size // stride) for size in (7, 5)]
    agree(moved(mixture_of_skip(channels, 2, stride)), x, [0, 0], outs)


@pytest.mark.parametrize(("kernel", "dilation"), CONVOLUTIONS.values())
@pytest.mark.parametrize("axes", [1, 2])
def test_the_layer_itself_is_one_of_the_operations(kernel: int, dilation: int, axes: int) -> None:
    layer = conv(axes, 2, 2, kernel, padding=dilation * (kernel // 2), dilation=dilation)
    mixture = mixture_of_conv(layer, perturb=1e-9)
    assert mixture.operations == OPERATIONS
    name = next(name for name, each in mixture.convolutions.items() if each is layer)
    assert CONVOLUTIONS[name] == (kernel, dilation)
    x = signal(2, 2, *(9, 8)[:axes])
    torch.testing.assert_close(mixture(x), layer(x), rtol=0, atol=1e-7)


def test_other_layers_are_added() -> None:
    layer = conv(2, 2, 2, (7, 3), padding=(3, 1))
    mixture = mixture_of_conv(layer, perturb=1e-9)
    assert mixture.operations == (*OPERATIONS, "own")
    x = signal(2, 2, 9, 8)
    torch.testing.assert_close(mixture(x), layer(x), rtol=0, atol=1e-7)


def test_pooling_starts_as_pooling_of_three() -> None:
    """What the paper takes for LeNet's pooling of two."""
    x = signal(2, 3, 8, 10)
    found = mixture_of_pool(nn.MaxPool2d(2), 3, perturb=1e-9).double()(x)
    torch.testing.assert_close(found, F.max_pool2d(x, 3, 2, 1), rtol=0, atol=1e-7)
    found = mixture_of_pool(nn.AvgPool2d(2), 3, perturb=1e-9).double()(x)
    torch.testing.assert_close(found, F.avg_pool2d(x, 3, 2, 1), rtol=0, atol=1e-7)


@pytest.mark.parametrize(("perturb", "first"), [(0.1, 0.9), (0.875, 0.125), (0.5, 0.5)])
def test_perturb(perturb: float, first: float) -> None:
    shares = mixture_of_conv(conv(1, 2, 2, 3, padding=1), perturb=perturb).alpha.softmax(0).tolist()
    place = OPERATIONS.index("conv3")
    assert shares[place] == pytest.approx(first)
    assert shares[:place] + shares[place + 1 :] == pytest.approx([perturb / 7] * 7)


def test_few_convolutions_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from eclose.ops.mixture import operation

    called = []
    for axes, real in operation._CONVOLVE.items():

        def counted(*args: Any, real: Any = real) -> Tensor:
            called.append(args[1].shape[2:])
            return real(*args)

        monkeypatch.setitem(operation._CONVOLVE, axes, counted)
    mixture_of_conv(conv(2, 2, 2, 3, padding=1))(signal(1, 2, 6, 6))
    assert [tuple(shape) for shape in called] == [(5, 5), (5, 5)]
    called.clear()
    wide_filter = conv(1, 2, 2, 13, padding="same", padding_mode="circular")
    mixture_of_conv(wide_filter)(signal(1, 2, 16))
    assert [tuple(shape) for shape in called] == [(13,)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_mixed_precision(dtype: torch.dtype) -> None:
    mixture = mixture_of_conv(conv(2, 3, 4, 3, padding=1).float())
    x = signal(2, 3, 8, 8).float()
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        y = mixture(x)
    assert y.dtype == dtype
    torch.testing.assert_close(y.float(), mixture(x), rtol=0.05, atol=0.05)


def test_copies_states_and_other_sizes() -> None:
    mixture = moved(mixture_of_conv(conv(2, 2, 3, 3, padding=1)))
    copied = copy.deepcopy(mixture)
    for sizes in itertools.product((4, 7), (5,)):
        x = signal(1, 2, *sizes)
        assert torch.equal(copied(x), mixture(x))
    names = list(mixture.state_dict())
    assert names == ["alpha", *(f"convolutions.{n}.{part}" for n in CONVOLUTIONS for part in ("weight", "bias"))]
    assert [id(p) for p in copied.arch_parameters()] == [id(copied.alpha)]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: mixture_of_conv(conv(1, 2, 2, 3, padding=2)), "its padding of 2 is more than 1, half the width"),
        (lambda: mixture_of_conv(conv(1, 2, 2, 3, padding=1), perturb=1.0), "perturb is 1.0, but must lie between"),
        (lambda: mixture_of_conv(conv(1, 2, 2, 4, dilation=3)), "has no point in its middle"),
        (lambda: mixture_of_pool(nn.MaxPool1d(2, ceil_mode=True), 2), "it rounds its size up"),
        (lambda: mixture_of_pool(nn.MaxPool1d(2, return_indices=True), 2), "it returns indices"),
        (
            lambda: mixture_of_conv(nn.utils.parametrizations.weight_norm(conv(1, 2, 2, 3))),
            "the weight of the convolution is computed",
        ),
    ],
)
def test_mistakes(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()
