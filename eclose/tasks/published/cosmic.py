"""Cosmic (Zhang and Bloom 2020; NAS-Bench-360, Tu et al. 2022): which pixels of a telescope's image did a ray hit?"""

from eclose.tasks.own_data.files import Array, read_arrays
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.source import Context, Source, stored_arrays, stored_file, tasks

_FILE = "cosmic/cosmic.npz"
_NEEDED, _VALIDATION = ("x_train", "y_train", "x_test", "y_test"), ("x_val", "y_val")


@tasks.register("cosmic")
def cosmic(context: Context) -> Source:
    """Cosmic rays on images of a space telescope, pixel by pixel. From cosmic/cosmic.npz, made of deepCR's images."""
    content = "arrays x_train (n, height, width), y_train of 0 and 1, x_test, y_test, see docs/guide/data.md"
    path = stored_file(context, _FILE, content)
    arrays: dict[str, Array] = {**stored_arrays(path, _NEEDED), **read_arrays(path, _VALIDATION)}
    return Source(arrays, Reading(kind="segmentation", axes=2))
