"""Image tasks: digits comes with the package, MNIST and CIFAR are read from the data folder."""

from pathlib import Path

import numpy as np

from eclose.errors import TaskError
from eclose.tasks.own_data.files import Array
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.published.archives import CIFAR10, CIFAR100, Edition, find_cifar, find_mnist
from eclose.tasks.source import Context, Pairs, Source, hold_out, named, stored_arrays, stored_file, tasks
from eclose.tasks.task import random_orders

IMAGE_CLASSES = Reading(kind="classification", axes=2)


@tasks.register("digits")
def digits(context: Context) -> Source:
    """Handwritten digits, 1797 images of 8 x 8 (UCI optdigits); comes with the package."""
    data = np.load(Path(__file__).with_name("digits8x8.npz"), allow_pickle=False)
    x, y = data["x"], data["y"]
    train = int(data["n_train"])
    val = train + int(data["n_val"])
    parts = {"train": slice(0, train), "val": slice(train, val), "test": slice(val, None)}
    return Source(named({part: (x[rows], y[rows]) for part, rows in parts.items()}), IMAGE_CLASSES)


@tasks.register("mnist")
def mnist(context: Context, *, val: int = 5000) -> Source:
    """MNIST, 60000 + 10000 images of 28 x 28, from the usual files in the data folder."""
    return Source(named(hold_out(mnist_images(context), val)), IMAGE_CLASSES)


@tasks.register("permuted-mnist")
def permuted_mnist(context: Context, *, val: int = 5000, seed: int = 0) -> Source:
    """MNIST with rows and columns in one fixed random order, as `task.permuted` makes of any task. From MNIST."""
    pairs = mnist_images(context)
    rows, columns = (order.numpy() for order in random_orders(pairs["train"][0].shape[1:], seed, "task.seed"))
    mixed = {part: (x[:, rows][:, :, columns], y) for part, (x, y) in pairs.items()}
    return Source(named(hold_out(mixed, val)), IMAGE_CLASSES)


@tasks.register("cifar10")
def cifar10(context: Context, *, val: int = 5000, shards: int = 5) -> Source:
    """CIFAR-10, 50000 + 10000 colour images of 32 x 32, from the usual archive in the data folder."""
    return Source(named(hold_out(cifar10_images(context, shards), val)), IMAGE_CLASSES)


@tasks.register("sequential-cifar10")
def sequential_cifar10(context: Context, *, val: int = 5000, shards: int = 5) -> Source:
    """CIFAR-10 in grey, pixel after pixel: 1024 steps (Long Range Arena, Image). From the files of cifar10."""
    pairs = {part: (_grey(x).reshape(len(x), -1), y) for part, (x, y) in cifar10_images(context, shards).items()}
    return Source(named(hold_out(pairs, val)), Reading(kind="classification", axes=1))


_WEIGHTS = np.array([299, 587, 114], np.int32)  # of red, green and blue, in thousandths (ITU-R 601)


def _grey(images: Array) -> Array:  # (n, 3, height, width) to (n, height, width)
    """Brightness, rounded to bytes; image by image, because four bytes for every value are many."""
    grey = np.empty((len(images), *images.shape[2:]), np.uint8)
    for number, image in enumerate(images.astype(np.uint8)):
        grey[number] = (np.tensordot(_WEIGHTS, image.astype(np.int32), 1) + 500) // 1000
    return grey


@tasks.register("cifar100")
def cifar100(context: Context, *, val: int = 5000) -> Source:
    """CIFAR-100, 50000 + 10000 colour images of 32 x 32 in 100 classes, from the usual archive in the data folder."""
    found = find_cifar(context, CIFAR100)
    if found is None:
        raise _missing_cifar(context, CIFAR100)
    return Source(named(hold_out(found, val)), IMAGE_CLASSES)


def mnist_images(context: Context) -> Pairs:
    """``train`` and ``test``: images ``(n, 28, 28)`` and digits."""
    path = context.data_folder / "mnist" / "mnist.npz"
    if not path.is_file():
        found = find_mnist(context)
        if found is None:
            raise TaskError(
                f"there is no MNIST in {context.data_folder}: put the four files train-images-idx3-ubyte.gz ... there "
                "(torchvision's folder does as well), or name another folder with --data-dir or $ECLOSE_DATA"
            )
        return found
    data = stored_arrays(path, ("x_train", "y_train", "x_test", "y_test"))
    return {part: (data[f"x_{part}"], data[f"y_{part}"]) for part in ("train", "test")}


def cifar10_images(context: Context, shards: int = 5) -> Pairs:
    """``train`` (of the first ``shards`` files) and ``test``: images ``(n, 3, 32, 32)`` and classes."""
    if not 1 <= shards <= 5:
        raise TaskError(f"task.shards is {shards}, but must lie between 1 and 5")
    if not (context.data_folder / "cifar10" / "cifar10_train1.npz").is_file():
        found = find_cifar(context, CIFAR10, shards)
        if found is None:
            raise _missing_cifar(context, CIFAR10)
        return found
    names = [f"train{number}" for number in range(1, shards + 1)]
    shard = "arrays residual (10000, 3, 32, 32) and labels, see docs/guide/data.md"
    paths = {name: stored_file(context, f"cifar10/cifar10_{name}.npz", shard) for name in (*names, "test")}
    parts = {}
    for done, (name, path) in enumerate(paths.items()):
        context.progress(done, len(paths))
        data = stored_arrays(path, ("residual", "labels"))
        parts[name] = _decode(data["residual"]), data["labels"]
    train = tuple(np.concatenate([parts[name][i] for name in names]) for i in (0, 1))
    return {"train": (train[0], train[1]), "test": parts["test"]}


def _missing_cifar(context: Context, edition: Edition) -> TaskError:
    return TaskError(
        f"there is no {edition.name} in {context.data_folder}: put {' or '.join(edition.archives)} there, "
        "packed or not (torchvision's folder does as well), or name another folder with --data-dir or $ECLOSE_DATA"
    )


def _decode(residual: Array) -> Array:
    """Images from differences over rows and columns (mod 256) of G, R-G, B-G."""
    sums = np.cumsum(residual, axis=2, dtype=np.uint8)
    sums = np.cumsum(sums, axis=3, dtype=np.uint8)
    green = sums[:, 0]
    return np.stack([sums[:, 1] + green, green, sums[:, 2] + green], axis=1)
