import itertools
import math

import pytest
import torch

from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.train.augment import Augmentation, check_augmentation, told_changes, usual_changes
from eclose.train.changes import augmentations, crop, cutout, flip, jitter, mix, patch, scale

SPACES = [(7,), (1,), (5, 8), (3, 4, 5)]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.uint8, torch.int64]


def sample(space, batch=6, channels=3, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, 200, (batch, channels, *space), generator=generator).to(dtype)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def slow_crop(x, draw, padding, fill=0):
    out = torch.empty_like(x)
    for b in range(x.shape[0]):
        shift = [math.floor(u * (2 * padding + 1)) - padding for u in draw[b].tolist()]
        for position in itertools.product(*map(range, x.shape[2:])):
            source = tuple(i + s for i, s in zip(position, shift, strict=True))
            inside = all(0 <= i < n for i, n in zip(source, x.shape[2:], strict=True))
            out[(b, slice(None), *position)] = x[(b, slice(None), *source)] if inside else fill
    return out


def slow_flip(x, draw, probability):
    return torch.stack([s.flip(-1) if u < probability else s for s, u in zip(x, draw[:, 0], strict=True)])


def slow_cutout(x, draw, size, fill=0):
    out = x.clone()
    for b in range(x.shape[0]):
        hole = []
        for u, n in zip(draw[b].tolist(), x.shape[2:], strict=True):
            start = math.floor(u * n) - size // 2
            hole.append(slice(max(start, 0), max(min(start + size, n), 0)))
        out[(b, slice(None), *hole)] = torch.as_tensor(fill, dtype=x.dtype).view(-1, *[1] * len(hole))
    return out


def slow_mix(x, draw, strength):
    out = x.clone()
    for b in range(len(x)):
        other = b + 1 if b % 2 == 0 else b - 1
        if other < len(x):
            share = strength * draw[b, 0].item()
            mixed = (1 - share) * x[b].double() + share * x[other].double()
            out[b] = (mixed if x.is_floating_point() else mixed.round()).to(x.dtype)
    return out


def slow_patch(x, draw, share):
    """Changed samples, and the share of the partner in each."""
    out, shares, space = x.clone(), [], x.shape[2:]
    for b in range(len(x)):
        part = (share * (draw[b, 0].item() * 2**20 % 1)) ** (1 / len(space))
        cube, points = [], 1
        for u, n in zip(draw[b].tolist(), space, strict=True):
            side = round(part * n)
            start = math.floor(u * (n - side + 1))
            cube.append(slice(start, start + side))
            points *= side
        other = b ^ 1
        if other < len(x):
            out[(b, slice(None), *cube)] = x[(other, slice(None), *cube)]
        shares.append(points / math.prod(space))
    return out, shares


def draws(x, seed=5):
    return torch.rand(x.shape[0], x.ndim - 2, generator=seeded(seed), dtype=torch.float64)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_same_values_as_sample_by_sample(space, dtype):
    x = sample(space, dtype=dtype)
    draw = draws(x)
    for got, wanted in (
        (crop(x, draw, padding=2), slow_crop(x, draw, 2)),
        (flip(x, draw), slow_flip(x, draw, 0.5)),
        (cutout(x, draw, size=3), slow_cutout(x, draw, 3)),
        (cutout(x, draw, size=2), slow_cutout(x, draw, 2)),
    ):
        assert got.dtype is dtype
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("padding", [0, 1, 4, 20])
def test_any_padding(padding):
    x = sample((5, 4))
    assert torch.equal(crop(x, draws(x), padding=padding), slow_crop(x, draws(x), padding))


def test_layout_does_not_matter():
    x = sample((5, 8)).contiguous(memory_format=torch.channels_last)
    draw = draws(x)
    assert torch.equal(crop(x, draw, padding=2), slow_crop(x, draw, 2))


def test_extreme_draws():
    x = sample((5,), batch=2)
    draw = torch.tensor([[0.0], [math.nextafter(1.0, 0.0)]], dtype=torch.float64)
    moved = crop(x, draw, padding=2)
    assert torch.equal(moved[0, :, 2:], x[0, :, :3])  # from two positions before
    assert torch.equal(moved[1, :, :3], x[1, :, 2:])
    assert (moved[0, :, :2] == 0).all()
    assert (moved[1, :, 3:] == 0).all()
    holed = cutout(x, draw, size=3)
    assert torch.equal(holed == 0, torch.tensor([[1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]).bool()[:, None].expand(2, 3, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_fill_by_number_and_by_channel(dtype):
    x = sample((5, 4), dtype=dtype)
    draw = draws(x)
    number = crop(x, draw, 6.6, padding=2)
    assert torch.equal(number, slow_crop(x, draw, 2, 6.6 if dtype is torch.float32 else 7))
    fill = torch.tensor([1.4, 120.6, 3.0])
    wanted = fill if dtype is torch.float32 else fill.round().to(dtype)
    assert torch.equal(cutout(x, draw, fill, size=3), slow_cutout(x, draw, 3, wanted))
    assert torch.equal(crop(x, draw, fill, padding=2), slow_crop(x, draw, 2, wanted))
    assert torch.equal(crop(x, draw, torch.tensor(9), padding=2), slow_crop(x, draw, 2, 9))


def test_shifts_holes_and_flips_are_uniform():
    batch = 20000
    x = torch.arange(1, 8).float().expand(batch, 1, 7)
    draw = draws(x)
    middle = crop(x, draw, padding=2)[:, 0, 3]  # shows the shift
    counts = torch.stack([(middle == value).sum() for value in (2, 3, 4, 5, 6)])
    assert counts.sum() == batch
    assert ((counts / batch - 0.2).abs() < 0.02).all()
    flipped = (flip(x, draw)[:, 0, 0] == 7).float().mean()
    assert abs(flipped - 0.5) < 0.02
    rarely = (flip(x, draw, probability=0.1)[:, 0, 0] == 7).float().mean()
    assert abs(rarely - 0.1) < 0.02
    holes = (cutout(x, draw, size=1)[:, 0] == 0).float()
    assert (holes.sum(1) == 1).all()
    assert ((holes.mean(0) - 1 / 7).abs() < 0.02).all()


def test_a_share_follows_the_length_of_each_axis():
    for space, padding, size in (((20, 10), (4, 2), (8, 4)), ((7, 100), (1, 20), (3, 40))):
        x = sample(space)
        draw = draws(x)
        moved, holed = crop(x, draw, share=0.2), cutout(x, draw, share=0.4)
        for axis in range(2):
            along = draw.clone()
            along[:, 1 - axis] = 0.5  # no shift there
            wanted = slow_crop(x, along, padding[axis])
            assert torch.equal(crop(x, along, share=0.2), wanted)
        assert not torch.equal(moved, x)
        holes = (holed == 0).all(1)
        assert max(int(hole.any(1).sum()) for hole in holes) <= size[0]
        assert max(int(hole.any(0).sum()) for hole in holes) <= size[1]
    with pytest.raises(ConfigError, match="augmentation 'crop': share is 2.0, but must lie between 0 and 1"):
        Augmentation(["crop"], {"crop": {"share": 2.0}})


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16])
def test_fill_by_the_mean_of_every_sample(dtype):
    """For samples of very different size: what lies between those of all samples would be large beside many."""
    sizes = 10.0 ** torch.arange(5).view(-1, 1, 1, 1)
    x = (sizes * torch.randn(5, 2, 9, 8, generator=torch.Generator().manual_seed(0))).to(dtype)
    draw = torch.rand(5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    means = x.double().mean((2, 3), keepdim=True)
    means = (means if dtype is torch.float32 else means.round()).to(dtype)
    for name, options in (("cutout", {"size": 3}), ("crop", {"padding": 2}), ("scale", {"strength": 0.5})):
        got = augmentations[name].make(x, draw, None, **options)
        each = [
            augmentations[name].make(one[None], row[None], mean[:, 0, 0], **options)
            for one, row, mean in zip(x, draw, means, strict=True)
        ]
        assert got.dtype == dtype
        assert torch.equal(got, torch.cat(each)), name
    assert augmentations["cutout"].make(x[:0], draw[:0], None).shape == (0, 2, 9, 8)


@pytest.mark.parametrize("name", ["mix", "patch"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.int32])
def test_a_partner_is_as_large_as_its_sample_where_sizes_differ_very_much(name, dtype):
    generator = torch.Generator().manual_seed(0)
    shapes = torch.randn(4, 2, 9, 8, generator=generator)
    place, size = torch.tensor([[3.0, 0.5, -2.0, 1.0], [1e2, 1e6, 1e4, 1e8]])[..., None, None, None].double()
    draw = torch.rand(4, 2, generator=generator, dtype=torch.float64)
    means, deviations = shapes.mean((2, 3), keepdim=True), shapes.std((2, 3), correction=0, keepdim=True)
    alike = (shapes - means) / deviations
    x = (size * (place + alike)).to(dtype)
    wanted = augmentations[name].make(alike, draw, 0.0)
    got = augmentations[name].make(x, draw, None)
    assert got.dtype == dtype
    torch.testing.assert_close(
        (got / size - place).float(), wanted, rtol=0, atol=1e-4 if dtype.is_floating_point else 0.05
    )
    flat = torch.zeros_like(x)
    assert augmentations[name].make(flat, draw, None).eq(0).all()
    assert augmentations[name].make(x[:0], draw[:0], None).shape == (0, 2, 9, 8)


@pytest.mark.parametrize("name", ["mix", "patch"])
def test_quantities_in_proportion_to_their_samples_stay_so(name):
    x = torch.randn(4, 1, 9, generator=torch.Generator().manual_seed(0))
    x = x * torch.tensor([1e-2, 1e2, 1.0, 1e3]).view(4, 1, 1)
    got, y = Augmentation([name], {}, None).pair(x, 2 * x, torch.Generator().manual_seed(1), True)
    assert not torch.equal(got, x)
    torch.testing.assert_close(y, 2 * got)
    labels = torch.arange(4)
    classes, _ = Augmentation([name], {}, None).pair(x, labels, torch.Generator().manual_seed(1), False, classes=4)
    assert classes[2].abs().max() < 10 < got[2].abs().max()


def test_scale_is_about_the_fill():
    x, mean = sample((6, 5)), torch.tensor([100.0, 20.0, 0.0])
    draw = draws(x)
    factor = (1 + 0.3 * (2 * draw[:, 0] - 1)).float()[:, None, None, None]
    middle = mean[:, None, None]
    torch.testing.assert_close(scale(x, draw, mean, strength=0.3), middle + (x - middle) * factor)
    assert (factor.min(), factor.max()) != (1, 1)


def test_jitter_is_white_noise_of_the_size_of_each_channel():
    x = torch.randn(40, 2, 500, generator=seeded()) * torch.tensor([1.0, 30.0])[:, None] + 7
    noise = (jitter(x, draws(x), strength=0.1) - x).double()
    deviation = x.std(2, correction=0).double()
    torch.testing.assert_close(noise.std(2), 0.1 * deviation, rtol=0.15, atol=0)
    units = noise / noise.std(2, keepdim=True)
    assert units.mean().abs() < 0.02
    for shifted in (units.roll(1, 0), units.roll(1, 1), units.roll(1, 2), units.roll(64, 2)):
        assert (units * shifted).mean().abs() < 0.02
    assert not torch.equal(jitter(x, draws(x, 1)), jitter(x, draws(x, 2)))
    with pytest.raises(ConfigError, match="augmentation 'jitter': strength is -1.0, but must lie between 0 and 1"):
        Augmentation(["jitter"], {"jitter": {"strength": -1.0}})


@pytest.mark.parametrize("augment", [scale, jitter])
def test_whole_numbers_stay_in_their_range(augment):
    x = torch.tensor([0, 255], dtype=torch.uint8).repeat(8, 3, 20)
    changed = augment(x, draws(x), 127.5, strength=1.0)
    assert changed.dtype is torch.uint8
    low, high = changed[..., ::2], changed[..., 1::2]
    assert low.double().mean() < 128 < high.double().mean()


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("batch", [1, 2, 5, 8])
def test_samples_are_mixed_in_pairs(space, dtype, batch):
    x = sample(space, batch=batch, dtype=dtype)
    got, wanted = mix(x, draws(x), strength=0.7), slow_mix(x, draws(x), 0.7)
    assert got.dtype is dtype
    torch.testing.assert_close(got.double(), wanted.double(), rtol=1e-2 if dtype is torch.bfloat16 else 1e-6, atol=1)
    if batch % 2:
        assert torch.equal(got[-1], x[-1])  # nobody is left to mix it with
    assert torch.equal(mix(x, draws(x), strength=0.0), x)


@pytest.mark.parametrize("space", [(7,), (5, 8)])
def test_targets_are_mixed_as_their_samples_are(space):
    x, axes = sample(space, batch=7), len(space)
    augmentation = Augmentation(["mix", "crop"], {"mix": {"strength": 0.6}, "crop": {"padding": 0}})
    generator = seeded()
    draw = [torch.rand(7, axes, generator=generator, dtype=torch.float64) for _ in range(2)][1]  # mixed at last
    share = 0.6 * draw[:, 0]
    partner = [1, 0, 3, 2, 5, 4, 6]

    labels = torch.tensor([2, 0, 1, 1, 0, 2, 2])
    mixed, y = augmentation.pair(x, labels, seeded(), False, classes=4)
    wanted = torch.zeros(7, 4, dtype=torch.float64)
    for b, other in enumerate(partner):
        wanted[b, labels[b]] += 1 - share[b]
        wanted[b, labels[other]] += share[b]
    torch.testing.assert_close(y.double(), wanted, rtol=0, atol=1e-6)
    torch.testing.assert_close(mixed, slow_mix(x, draw, 0.6))

    values = torch.randn(7, 3, generator=seeded(1))
    torch.testing.assert_close(augmentation.pair(x, values, seeded(), False)[1], slow_mix(values, draw, 0.6))
    fields = torch.randn(7, 2, *space, generator=seeded(1))
    torch.testing.assert_close(augmentation.pair(x, fields, seeded(), True)[1], slow_mix(fields, draw, 0.6))

    places = torch.randint(0, 4, (7, *space), generator=seeded(2))
    y = augmentation.pair(x, places, seeded(), True, classes=4)[1]
    one_hot = torch.nn.functional.one_hot(places, 4).movedim(-1, 1).float()
    torch.testing.assert_close(y, slow_mix(one_hot, draw, 0.6))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
def test_patches_come_from_the_same_place_of_the_partner(space, dtype):
    x = sample(space, batch=9, dtype=dtype)
    for share in (1.0, 0.4, 0.0):
        got = patch(x, draws(x), share=share)
        assert got.dtype is dtype
        assert torch.equal(got, slow_patch(x, draws(x), share)[0])
    assert torch.equal(patch(x, draws(x), share=0.0), x)


@pytest.mark.parametrize("space", [(7,), (5, 8), (3, 4, 5)])
def test_targets_have_the_share_of_their_patches(space):
    x, augmentation = sample(space, batch=7), Augmentation(["patch"], {"patch": {"share": 0.8}})
    draw = torch.rand(7, len(space), generator=seeded(), dtype=torch.float64)
    patched, shares = slow_patch(x, draw, 0.8)
    labels = torch.tensor([2, 0, 1, 1, 0, 2, 2])
    got, y = augmentation.pair(x, labels, seeded(), False, classes=3)
    assert torch.equal(got, patched)
    hot = torch.nn.functional.one_hot(labels, 3).float()
    wanted = [hot[b] + shares[b] * (hot[b ^ 1 if b < 6 else b] - hot[b]) for b in range(7)]
    torch.testing.assert_close(y, torch.stack(wanted))
    # What has positions is patched itself.
    places = x[:, 0].long() % 5
    got, y = augmentation.pair(x, places, seeded(), True, classes=5)
    assert torch.equal(y, patched[:, 0].long() % 5)
    assert torch.equal(augmentation.pair(x, x[:, :2], seeded(), True)[1], patched[:, :2])


def test_patches_lie_anywhere_and_have_any_size():
    x = torch.arange(2.0).repeat(10000)[:, None, None].expand(20000, 1, 30).contiguous()
    changed = (patch(x, draws(x)) != x)[:, 0].float()
    part = changed.mean(1)
    torch.testing.assert_close(part.sort().values, torch.linspace(0, 1, 20000), rtol=0, atol=0.04)
    torch.testing.assert_close(changed.mean(0), changed.mean(0).flip(0), rtol=0, atol=0.03)
    place = changed.argmax(1) / (30 * (1 - part) + 1)
    some = (part > 0.2) & (part < 0.8)
    assert abs(torch.corrcoef(torch.stack((place[some], part[some])))[0, 1]) < 0.05
    with pytest.raises(ConfigError, match="augmentation 'patch': share is 2.0, but must lie between 0 and 1"):
        Augmentation(["patch"], {"patch": {"share": 2.0}})


def test_mixing_is_uniform_up_to_its_strength():
    x = torch.arange(2.0).repeat(10000)[:, None, None]
    share = (mix(x, draws(x), strength=0.5) - x).abs().flatten()
    assert share.max() < 0.5
    torch.testing.assert_close(share.sort().values, torch.linspace(0, 0.5, 20000), rtol=0, atol=0.01)


def test_parts_of_even_length_are_mixed_as_in_the_whole():
    x = sample((5,), batch=10)
    augmentation = Augmentation(["mix"], {})
    whole = augmentation(x, seeded())
    for part in (slice(0, 4), slice(4, 10)):
        assert torch.equal(augmentation(x[part], seeded(), batch=10, start=part.start), whole[part])


def test_usual_changes_suit_their_data():
    for kind, sizes in (
        ("classification", (20, 9)),
        ("regression", (8, 8)),
        ("dense", (16, 16)),
        ("segmentation", (6, 6, 6)),
    ):
        signature = Signature(kind, 3, sizes, 2)
        for pointwise in (False, True):
            for change in usual_changes(signature, pointwise=pointwise):
                check_augmentation(list(change), signature, pointwise=pointwise)
                assert Augmentation(list(change), change).options
                assert told_changes(change)
        assert usual_changes(signature)
    assert usual_changes(Signature("classification", 3, (20,), 4)) == []
    assert usual_changes(Signature("classification", 1, (20,), 4, vocabulary=9)) == []
    assert told_changes({"crop": {}, "flip": {}, "mix": {}}) == "shifted, mirrored and mixed"


def test_axes_and_steps_are_drawn_independently():
    x = torch.zeros(5000, 1, 9, 9)
    x[:, :, 4, 4] = 1
    y = Augmentation(["crop"], {"crop": {"padding": 2}})(x, seeded())
    where = y.flatten(1).argmax(1)
    rows, columns = where // 9 - 4, where % 9 - 4
    assert set(rows.tolist()) == set(columns.tolist()) == {-2, -1, 0, 1, 2}
    assert abs(torch.corrcoef(torch.stack((rows, columns)).double())[0, 1]) < 0.05
    ramp = torch.arange(1.0, 8.0).expand(5000, 1, 7)
    both = Augmentation(["flip", "flip"], {})(ramp, seeded())
    assert abs((both[:, 0, 0] == 7).float().mean() - 0.5) < 0.03


def test_steps_follow_each_other_with_the_draws_of_the_generator():
    x = sample((6, 5))
    options = {"crop": {"padding": 1}, "cutout": {"size": 2}}
    got = Augmentation(["crop", "flip", "cutout"], options, fill=3)(x, seeded(7))
    generator = seeded(7)
    first, second, third = (torch.rand(6, 2, generator=generator, dtype=torch.float64) for _ in range(3))
    wanted = slow_cutout(slow_flip(slow_crop(x, first, 1, 3), second, 0.5), third, 2, 3)
    assert torch.equal(got, wanted)
    assert not torch.equal(got, Augmentation(["crop", "flip", "cutout"], options, fill=3)(x, seeded(8)))


def test_the_input_is_left_alone():
    x = sample((6, 5))
    before = x.clone()
    Augmentation(["crop", "flip", "cutout"], {})(x, seeded())
    assert torch.equal(x, before)


def test_no_augmentation_returns_the_input_and_draws_nothing():
    x, y, generator = sample((5,)), torch.zeros(6, 5), seeded()
    state = generator.get_state()
    nothing = Augmentation([], {})
    assert nothing(x, generator) is x
    got_x, got_y = nothing.pair(x, y, generator, True)
    assert got_x is x
    assert got_y is y
    assert torch.equal(generator.get_state(), state)


@pytest.mark.parametrize("space", SPACES)
def test_a_part_of_a_batch_is_changed_as_in_the_whole(space):
    x = sample(space, batch=7)
    names = ["crop", "flip", "cutout", "scale", "jitter"]
    augmentation = Augmentation(names, {"crop": {"padding": 2}, "cutout": {"size": 2}})
    whole_generator = seeded()
    whole = augmentation(x, whole_generator)
    for start, end in ((0, 3), (3, 7), (7, 7)):
        generator = seeded()
        part = augmentation(x[start:end], generator, batch=7, start=start)
        assert torch.equal(part, whole[start:end])
        assert torch.equal(generator.get_state(), whole_generator.get_state())


@pytest.mark.parametrize("space", SPACES)
def test_dense_targets_move_with_the_inputs(space):
    x = sample(space, batch=8)
    augmentation = Augmentation(["crop", "flip"], {"crop": {"padding": 2}})
    moved = augmentation(x, seeded())
    fields = x[:, :2] / 10
    got_x, got_y = augmentation.pair(x, fields, seeded(), True)
    assert torch.equal(got_x, moved)
    assert torch.equal(got_y, moved[:, :2] / 10)
    labels = x[:, 0].long()
    got_x, got_y = augmentation.pair(x, labels, seeded(), True)
    assert got_y.dtype is torch.int64
    assert torch.equal(got_y, moved[:, 0].long())


def test_targets_are_padded_with_zero_whatever_fills_the_inputs():
    x = torch.full((50, 1, 5), 4.0)
    augmentation = Augmentation(["crop"], {"crop": {"padding": 2}}, fill=9)
    got_x, got_y = augmentation.pair(x, x[:, 0].long(), seeded(), True)
    assert set(got_x.flatten().tolist()) == {4.0, 9.0}
    assert torch.equal(got_y, (got_x[:, 0] == 4).long() * 4)


def test_holes_and_pooled_targets_leave_the_target_alone():
    x, y = sample((6, 6)), torch.arange(6)
    got_x, got_y = Augmentation(["crop", "cutout"], {}).pair(x, y, seeded(), False)
    assert got_y is y
    assert torch.equal(got_x, Augmentation(["crop", "cutout"], {})(x, seeded()))
    field = sample((6, 6), seed=1)
    assert Augmentation(["cutout"], {"cutout": {"size": 2}}).pair(x, field, seeded(), True)[1] is field


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="unknown augmentation 'crap'; did you mean 'crop'"):
        Augmentation(["crap"], {})
    with pytest.raises(ConfigError, match=r"augmentation.crop: 'crop' has no option 'size'"):
        Augmentation(["crop"], {"crop": {"size": 3}})
    with pytest.raises(ConfigError, match=r"options for augmentation 'cutout', which is not among \['flip'\]"):
        Augmentation(["flip"], {"cutout": {"size": 3}})
    with pytest.raises(ConfigError, match="padding is -1, but must be at least 0"):
        Augmentation(["crop"], {"crop": {"padding": -1}})
    with pytest.raises(ConfigError, match="size is -1, but must be at least 0"):
        Augmentation(["cutout"], {"cutout": {"size": -1}})
    with pytest.raises(ConfigError, match="padding is 1{20}, but must be at most 2147483648"):
        Augmentation(["crop"], {"crop": {"padding": int("1" * 20)}})
    with pytest.raises(ConfigError, match=r"augment.crop is 3, but must be a table: set augment.crop.padding"):
        Augmentation(["crop"], {"crop": 3})
    with pytest.raises(ConfigError, match="probability is 50.0, but must lie between 0 and 1"):
        Augmentation(["flip"], {"flip": {"probability": 50}})


def test_tokens_are_refused():
    tokens = Signature(kind="classification", channels=1, sizes=(8,), outputs=2, vocabulary=5)
    check_augmentation([], tokens)
    with pytest.raises(ConfigError, match="'flip' cannot serve a task of tokens; leave it out"):
        check_augmentation(["flip"], tokens)
    images = Signature(kind="classification", channels=3, sizes=(8, 8), outputs=2)
    check_augmentation(list(augmentations), images)
    check_augmentation(["cutout"], images, pointwise=True)
    with pytest.raises(ConfigError, match="'crop' moves points, and with task.standardise=pointwise every point has"):
        check_augmentation(["crop"], images, pointwise=True)


def test_a_hole_is_filled_with_the_mean_of_every_point():
    x, mean = sample((5, 8)), torch.rand(3, 5, 8)
    filled = cutout(x, torch.full((6, 2), 0.5), mean, size=100)
    assert torch.equal(filled, mean.expand_as(x))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_gpu_changes_samples_alike_and_is_not_waited_for():
    x = sample((9, 8), batch=32)
    augmentation = Augmentation(list(augmentations), {"cutout": {"size": 3}})
    labels = torch.arange(32) % 5
    wanted, wanted_labels = augmentation.pair(x, labels, seeded(), False, classes=5)
    device_x, device_labels = x.cuda(), labels.cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        got, got_labels = augmentation.pair(device_x, device_labels, seeded(), False, classes=5)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(got_labels.cpu(), wanted_labels)
    torch.testing.assert_close(got.cpu(), wanted)  # sums of the deviation may round differently
