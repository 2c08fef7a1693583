import json

import pytest
import torch

from eclose.errors import RunError
from eclose.spaces import Genotype

CHOICES = {"backbone": "lenet", "options": {"width": 3, "kernels": [1, 2], "rate": 0.5, "none": None}}


def test_equal_as_data():
    one = Genotype("s", {"a": 1, "b": [1, 2]})
    assert one == Genotype("s", {"b": (1, 2), "a": 1})
    assert hash(one) == hash(Genotype("s", {"b": [1, 2], "a": 1}))
    assert one != Genotype("t", {"a": 1, "b": [1, 2]})
    assert one != Genotype("s", {"a": 2, "b": [1, 2]})
    assert one != Genotype("s", {"a": 1, "b": [1, 2]}, {"w": torch.zeros(1)})
    assert one != {"a": 1}
    assert len({one, Genotype("s", {"b": [1, 2], "a": 1})}) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_count_by_name_shape_type_and_value(dtype):
    def made(tensor, name="w"):
        return Genotype("s", {}, {name: tensor})

    tensor = torch.ones(2, 3).to(dtype)
    assert made(tensor) == made(tensor.clone())
    assert made(tensor) == made(tensor.T.contiguous().T)
    assert made(tensor) != made(tensor.view(3, 2))
    assert made(tensor) != made(tensor, "v")
    assert made(tensor) != made(tensor.to(torch.float16))
    other = tensor.clone()
    other[1, 2] = 0
    assert made(tensor) != made(other)


@pytest.mark.parametrize("tensor", [torch.tensor(3.0), torch.zeros(0, 2), torch.ones(2, requires_grad=True)])
def test_odd_tensors(tmp_path, tensor):
    genotype = Genotype("s", {}, {"w": tensor})
    genotype.save(tmp_path)
    assert Genotype.load(tmp_path) == genotype


def test_hash_is_written_down():
    """It stands in run folders."""
    assert Genotype("backbone", CHOICES).hash == "22caf79d38ef053e"
    assert Genotype("xd", {}, {"w": torch.arange(3.0)}).hash == "ab12e4e59db41dd1"


def test_save_and_load(tmp_path):
    plain = Genotype("s", CHOICES)
    plain.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["genotype.json"]
    assert Genotype.load(tmp_path) == plain
    assert Genotype.load(tmp_path).choices == CHOICES
    rich = Genotype("s", CHOICES, {"b": torch.randn(3), "a": torch.ones(2).bfloat16()})
    rich.save(tmp_path, "start")
    back = Genotype.load(tmp_path, "start")
    assert back == rich
    assert torch.equal(back.tensors["b"], rich.tensors["b"])
    assert Genotype.load(tmp_path) == plain


def test_a_description_is_kept_and_older_files_have_none(tmp_path):
    told = Genotype("s", CHOICES, description="child of resnet18: softmax added")
    told.save(tmp_path)
    assert Genotype.load(tmp_path).description == told.description
    assert told == Genotype("s", CHOICES), "words make no other network"
    (tmp_path / "genotype.json").write_text('{"space": "s", "choices": {}, "tensors": []}')
    assert Genotype.load(tmp_path).description == ""
    (tmp_path / "genotype.json").write_text('{"space": "s", "choices": {}, "tensors": [], "description": 3}')
    assert "is damaged" in refused(tmp_path)


def refused(folder):
    with pytest.raises(RunError) as error:
        Genotype.load(folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_changes_of_samples_are_kept_and_make_no_other_network(tmp_path):
    plain = Genotype("backbone", {"backbone": "lenet", "options": {}})
    changed = Genotype("backbone", plain.choices, augment={"mix": {"strength": 0.3}})
    changed.save(tmp_path)
    assert Genotype.load(tmp_path).augment == {"mix": {"strength": 0.3}}
    assert changed == plain
    plain.save(tmp_path)
    assert Genotype.load(tmp_path).augment == {}


@pytest.mark.parametrize(
    ("choices", "label"),
    [({"backbone": "lenet", "options": {}}, "lenet"), ({"tree": [], "digest": "0", "kin": "child"}, "child ")],
)
def test_a_name_says_how_samples_are_changed_as_long_as_they_are(choices, label):
    plain = Genotype("s", choices)
    patched = plain.on_changed_samples({"patch": {}})
    assert patched.label == f"{plain.label} on patched samples"
    assert patched.label.startswith(label)
    assert patched == plain
    mirrored = patched.on_changed_samples({"flip": {}, "mix": {}})
    assert mirrored.label == f"{plain.label} on mirrored and mixed samples"
    assert mirrored.on_changed_samples({}).label == plain.label
    assert mirrored.on_changed_samples({}).augment == {}


@pytest.mark.parametrize(
    ("augment", "says"),
    [
        ({"squeeze": {}}, "unknown augmentation 'squeeze'"),
        ({"patch": 3}, "augment.patch is 3, but must be a table"),
        ({"patch": {"shares": 1.0}}, "'patch' has no option 'shares'"),
        ({"mix": {"strength": 2.0}}, "strength is 2.0, but must lie between 0 and 1"),
    ],
)
def test_changes_of_samples_that_no_training_knows(tmp_path, augment, says):
    Genotype("backbone", {"backbone": "lenet", "options": {}}, augment=augment).save(tmp_path)
    text = refused(tmp_path)
    assert text.startswith(f"{tmp_path / 'genotype.json'} is damaged (")
    assert says in text


def test_missing(tmp_path):
    path = tmp_path / "genotype.json"
    assert refused(tmp_path) == f"{path} is missing: the run has not finished (resume it), or its folder was changed"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[]", b"3", b'{"space": "s"}', b'{"space": 3, "choices": {}, "tensors": []}']
    + [b'{"space": "s", "choices": 3, "tensors": []}', b'{"space": "s", "choices": {}, "tensors": "w"}'],
)
def test_damaged(tmp_path, content):
    path = tmp_path / "genotype.json"
    path.write_bytes(content)
    text = refused(tmp_path)
    assert text.startswith(f"{path} is damaged (")
    assert text.endswith("): restore it from a copy, or start a new run")


def test_damaged_tensors(tmp_path):
    Genotype("s", {}, {"w": torch.ones(2)}).save(tmp_path)
    tensors = tmp_path / "genotype.safetensors"
    content = tensors.read_bytes()
    tensors.write_bytes(content[:20])
    assert refused(tmp_path).startswith(f"{tensors} is damaged (")
    tensors.unlink()
    assert refused(tmp_path).startswith(f"{tensors} is missing: ")
    tensors.write_bytes(content)
    data = json.loads((tmp_path / "genotype.json").read_text())
    (tmp_path / "genotype.json").write_text(json.dumps({**data, "tensors": ["v"]}))
    assert "genotype.json and genotype.safetensors do not belong together" in refused(tmp_path)
