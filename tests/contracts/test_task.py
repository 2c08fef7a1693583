"""What every registered task promises. A new task has a class here: its name, small options, what comes out."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from eclose.config import Config, TaskSection
from eclose.errors import ConfigError, TaskError
from eclose.signature import Signature
from eclose.tasks import Task, complete_task, fingerprint, load_task, tasks
from eclose.tasks.published.archives import CIFAR100
from eclose.train import Batches
from tests.contracts.cases import AROUND, own_members, under_contract
from tests.tasks.published import test_archives as archives
from tests.tasks.published.pieces import (
    aan_folder,
    cifar10_folder,
    cosmic_folder,
    gutenberg_folder,
    imagenet_folder,
    imdb_folder,
    language_folder,
    mnist_folder,
    sentences_folder,
)


class TaskContract:
    """Data by name, the same for everybody. A task that is read from files says how to ``fill`` a folder with some."""

    name: str  # in the registry
    options: dict[str, Any] = {}
    signature: Signature
    sizes: tuple[int, int, int]  # of train, val and test
    fill: Any = None

    def load(self, folder: Path, **options: Any) -> Task:
        section = TaskSection(name=self.name, data_dir=str(folder), options={**self.options, **options})
        return load_task(complete_task(section), lambda done, total: None)

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        path = tmp_path_factory.mktemp(cls.name)
        if cls.fill:
            cls.fill(path)
        return path

    def test_samples_are_as_the_signature_says(self, folder: Path) -> None:
        task = self.load(folder)
        assert task.signature == self.signature
        assert tuple(len(split) for split in task.splits.values()) == self.sizes
        for split in task.splits.values():
            ((x, y),) = Batches(split, self.signature, AROUND.device).batches([torch.arange(len(split))])
            assert x.shape == self.signature.input_shape(len(split))
            assert x.isfinite().all()
            if self.signature.labels:
                assert y.shape == (len(split), *(() if self.signature.pooled else self.signature.sizes))
                assert 0 <= y.min() <= y.max() < self.signature.outputs
            else:
                assert y.shape == self.signature.output_shape(len(split))
                assert y.isfinite().all()

    def test_no_sample_serves_two_splits(self, folder: Path) -> None:
        parts = [{row.numpy().tobytes() for row in split.all()[0]} for split in self.load(folder).splits.values()]
        assert sum(map(len, parts)) == len(set.union(*parts))

    def test_it_is_the_same_every_time(self, folder: Path) -> None:
        first, second = self.load(folder), self.load(folder)
        assert json.dumps(fingerprint(first)) == json.dumps(fingerprint(second))
        for part, split in first.splits.items():
            assert all(torch.equal(a, b) for a, b in zip(split.all(), second.splits[part].all(), strict=True))
        fewer = TaskSection(name=self.name, data_dir=str(folder), options=self.options, subset=self.sizes[0] - 1)
        assert fingerprint(load_task(fewer, lambda done, total: None)) != fingerprint(first)

    def test_it_tells_what_it_is(self, folder: Path) -> None:
        assert tasks[self.name].summary.endswith((".", "generated", "the package"))
        section = complete_task(TaskSection(name=self.name, options=self.options))
        assert complete_task(section) == section
        Config(task=section).to_toml()
        assert self.load(folder).about.items() >= section.options.items()

    def test_an_unknown_option_is_refused(self, folder: Path) -> None:
        with pytest.raises(ConfigError, match=f"'{self.name}' has no option 'colour'; "):
            self.load(folder, colour="red")

    def test_without_its_files_it_says_where_they_go(self, tmp_path: Path) -> None:
        if self.fill:
            with pytest.raises(TaskError, match="name another folder with --data-dir") as error:
                self.load(tmp_path)
            assert str(tmp_path) in str(error.value)
            assert "\n" not in str(error.value)


EQUATION: dict[str, Any] = {"points": 16, "train": 5, "val": 2, "test": 3}


class TestBurgers(TaskContract):
    name, options, sizes = "burgers", EQUATION, (5, 2, 3)
    signature = Signature("dense", 1, (16,), 1)


class TestDarcy(TaskContract):
    name, options, sizes = "darcy", EQUATION, (5, 2, 3)
    signature = Signature("dense", 1, (16, 16), 1)


class TestPluckedString(TaskContract):
    name, options, sizes = "plucked-string", EQUATION, (5, 2, 3)
    signature = Signature("dense", 1, (16,), 1)


class TestDigits(TaskContract):
    name, sizes = "digits", (1197, 300, 300)
    signature = Signature("classification", 1, (8, 8), 10)


class TestImageNet(TaskContract):
    name, options, sizes = "imagenet", {"size": 16, "val": 2}, (9, 6, 6)
    signature = Signature("classification", 3, (16, 16), 3)
    fill = staticmethod(imagenet_folder)


class TestMNIST(TaskContract):
    name, options, sizes = "mnist", {"val": 50}, (350, 50, 60)
    signature = Signature("classification", 1, (3, 2), 10)
    fill = staticmethod(mnist_folder)


class TestPermutedMNIST(TestMNIST):
    name, options = "permuted-mnist", {"val": 50, "seed": 3}


class TestSphericalMNIST(TestMNIST):
    name, options = "spherical-mnist", {"val": 50, "points": 8}
    signature = Signature("classification", 1, (8, 8), 10)


class TestRotatedSphericalMNIST(TestSphericalMNIST):
    name, options = "spherical-mnist-rotated", {"val": 50, "points": 8, "seed": 3}


class TestCIFAR10(TaskContract):
    name, options, sizes = "cifar10", {"val": 50}, (450, 50, 50)
    signature = Signature("classification", 3, (4, 2), 10)
    fill = staticmethod(cifar10_folder)


class TestSequentialCIFAR10(TaskContract):
    name, options, sizes = "sequential-cifar10", {"val": 50}, (450, 50, 50)
    signature = Signature("classification", 1, (8,), 10)
    fill = staticmethod(cifar10_folder)


class TestCIFAR100(TaskContract):
    name, options, sizes = "cifar100", {"val": 5}, (15, 5, 20)
    signature = Signature("classification", 3, (32, 32), 10)  # as many classes as the few images have

    @staticmethod
    def fill(folder: Path) -> None:
        archives.write(folder, CIFAR100, True, archives.batches(CIFAR100))


COMPOSED: dict[str, Any] = {"train": 60, "val": 40, "test": 20}


class TestAddNIST(TaskContract):
    name, options, sizes = "addnist", COMPOSED, (60, 40, 20)
    signature = Signature("classification", 3, (3, 2), 20)
    fill = staticmethod(mnist_folder)


class TestMultNIST(TaskContract):
    name, options, sizes = "multnist", COMPOSED, (60, 40, 20)
    signature = Signature("classification", 3, (3, 2), 10)
    fill = staticmethod(mnist_folder)


class TestCIFARTile(TaskContract):
    name, options, sizes = "cifartile", COMPOSED, (60, 40, 20)
    signature = Signature("classification", 3, (8, 4), 4)
    fill = staticmethod(cifar10_folder)


class TestLanguage(TaskContract):
    name, options, sizes = "language", COMPOSED, (60, 40, 20)
    signature = Signature("classification", 1, (24, 24), 10)
    fill = staticmethod(language_folder)


class TestGutenberg(TaskContract):
    name, sizes = "gutenberg", (30, 12, 7)
    signature = Signature("classification", 1, (27, 18), 6)
    fill = staticmethod(gutenberg_folder)


class TestAAN(TaskContract):
    name, options, sizes = "aan", {"length": 20}, (12, 12, 12)
    signature = Signature("classification", 1, (40,), 2, 123)
    fill = staticmethod(aan_folder)


class TestCosmic(TaskContract):
    name, sizes = "cosmic", (8, 3, 4)
    signature = Signature("segmentation", 1, (6, 5), 2)
    fill = staticmethod(cosmic_folder)


class TestIMDB(TaskContract):
    name, options, sizes = "imdb", {"length": 24, "val": 10}, (30, 10, 20)
    signature = Signature("classification", 1, (24,), 2, 123)  # up to the byte of z
    fill = staticmethod(imdb_folder)


class TestListOps(TaskContract):
    name, sizes = "listops", (60, 20, 20)
    options: dict[str, Any] = {"shortest": 8, "longest": 30, "depth": 4, "train": 60, "val": 20, "test": 20}
    signature = Signature("classification", 1, (32,), 10, 16)


class SentenceContract(TaskContract):
    options, sizes = {"length": 8}, (49, 5, 6)
    signature = Signature("classification", 4, (8,), 2)
    fill = staticmethod(sentences_folder)


class TestMR(SentenceContract):
    name, options = "mr", {"length": 8, "fold": 9}


class TestCR(SentenceContract):
    name = "cr"


class TestMPQA(SentenceContract):
    name = "mpqa"


class TestSubj(SentenceContract):
    name = "subj"


class TestSST1(SentenceContract):
    name, sizes = "sst-1", (60, 60, 60)
    signature = Signature("classification", 4, (8,), 5)


class TestSST2(SentenceContract):
    name, sizes = "sst-2", (60, 60, 60)


class TestTREC(SentenceContract):
    name, sizes = "trec", (54, 6, 60)
    signature = Signature("classification", 4, (8,), 6)


class TestPathfinder(TaskContract):
    name, sizes = "pathfinder", (12, 4, 6)
    options: dict[str, Any] = {"dashes": 6, "train": 12, "val": 4, "test": 6}
    signature = Signature("classification", 1, (1024,), 2)


def test_every_task_is_under_contract() -> None:
    assert under_contract(TaskContract) >= own_members(tasks)
