"""Changes of samples, one way at a time, in trainings that are long enough to overfit.

``python -m benchmarks.changes --help`` has the options. Sets are cut to few samples and networks are narrow, so that a
CPU trains them for many epochs. Every training is a process of its own and ends as a line of ``--rows``; the same
command goes on where it stopped.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import eclose
from benchmarks.portfolio.sets import PHYSICS, load_sets
from benchmarks.rows import Row, facts_of, make_rows, read_rows, row_options, spread, words
from benchmarks.runner import RESULTS
from eclose.tasks.source import Context, tasks

Arrays = dict[str, np.ndarray]
Job = tuple[str, str, int]  # set, way, seed

EPOCHS, WIDTH, TESTED = 30, 16, 1000
SETS = {  # training samples kept
    "digits": 400,
    "CIFAR-10": 1200,
    "Language": 800,
    "AddNIST": 1000,
    "ECG5000": 400,
    "JapaneseVowels": 270,
    "Crop": 600,
    "ElectricDevices": 600,
    "Darcy": 200,
}
WAYS: dict[str, dict[str, dict[str, Any]]] = {
    "none": {},
    "mix": {"mix": {}},
    "patch": {"patch": {}},
    "crop": {"crop": {"share": 0.1}},
    "crop, mix": {"crop": {"share": 0.1}, "mix": {}},
    "crop, flip, mix": {"crop": {"share": 0.1}, "flip": {}, "mix": {}},
    "flip": {"flip": {}},
}


def train(job: Job, data: Path, device: str, ends: float) -> Row | None:
    """One training; None if there is no time left to begin it."""
    name, way, seed = job
    if time.time() > ends:
        return None
    changes = WAYS[way]
    settings: dict[str, Any] = {"augment.names": list(changes), "augment.options": changes, "run.threads": 1}
    settings |= {"backbone.width": WIDTH} if name not in PHYSICS else {}
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        result = eclose.search(
            data=_arrays(name, data),
            space="backbone",
            backbone="fno" if name in PHYSICS else "resnet",
            epochs=EPOCHS,
            seed=seed,
            device=device,
            settings=settings,
            out=Path(folder) / "run",
            progress=False,
        )
    told = {key: result.metrics[key] for key in ("test", "valid", "metric", "parameters")}
    return {"set": name, "way": way, "seed": seed, **told, "seconds": time.perf_counter() - begun}


def _arrays(name: str, data: Path) -> Arrays:
    """A set with few samples in a fixed random order; fields and colours on half of their points."""
    rng = np.random.default_rng(1)
    if name == "CIFAR-10":
        made = tasks["cifar10"].make(Context(data, lambda done, total: None), shards=1).arrays
        arrays = {key: np.asarray(value) for key, value in made.items()}
    else:
        arrays = load_sets(data)[name]()
    kept = {"train": SETS[name], "val": SETS[name] // 2, "test": TESTED}
    parts = [part for part in kept if f"x_{part}" in arrays]
    rows = {part: rng.permutation(len(arrays[f"y_{part}"]))[: kept[part]] for part in parts}
    cut = {f"{kind}_{part}": arrays[f"{kind}_{part}"][rows[part]] for part in parts for kind in "xy"}
    coarse = {"CIFAR-10": "x", "Darcy": "xy"}.get(name, "")
    return {key: value[..., ::2, ::2] if key[0] in coarse else value for key, value in cut.items()}


def table(rows: Sequence[Row]) -> list[str]:
    """One line a set, one column a way."""
    ways = [way for way in WAYS if any(row["way"] == way for row in rows)]
    head = ("set", "training samples", *ways)
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, count in SETS.items():
        cells = [spread([row["test"] for row in rows if (row["set"], row["way"]) == (name, way)]) for way in ways]
        if any(cells):
            lines.append(f"| {name} | {count} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Train what is missing, write what is there."""
    parser = row_options("benchmarks.changes", __doc__, minutes=60.0, side=1, rows=Path("changes.jsonl"))
    parser.add_argument("--sets", type=words, default=list(SETS))
    parser.add_argument("--ways", type=lambda text: words(text, ";"), default=list(WAYS), help="between semicolons")
    parser.add_argument("--to", type=Path, default=RESULTS, help="the folder of the dated file")
    options = parser.parse_args()
    known = {(row["set"], row["way"], row["seed"]) for row in read_rows([options.rows])}
    wanted = [(name, way, seed) for seed in options.seeds for name in options.sets for way in options.ways]
    jobs = [
        job for job in wanted if job not in known and (job[0] not in PHYSICS or set(WAYS[job[1]]) <= {"mix", "flip"})
    ]
    facts = facts_of("benchmarks.changes", options.device)
    figures = partial(train, data=options.data, device=options.device, ends=time.time() + 60 * options.minutes)
    make_rows(jobs, figures, _told, side=options.side, rows=options.rows, facts=facts)
    rows = read_rows([options.rows])
    seconds = statistics.median(row["seconds"] for row in rows)
    about = (
        f"`resnet` of width {WIDTH} (`fno` on fields), {EPOCHS} epochs, else the defaults; {seconds:.0f} s a training "
        "in the median, on one thread. Colours and fields are at every second point. Test accuracy of "
        f"{TESTED} samples at most (relative error on Darcy), mean and deviation of the seeds."
    )
    file = options.to / f"{date.today()}-changes-{options.device}.md"
    file.write_text("\n".join(["# Changes of samples", "", *facts, "", about, "", *table(rows)]) + "\n")
    print(file)


def _told(row: Row) -> str:
    return f"{row['set']}, {row['way']}, seed {row['seed']}: {row['test']:.4f}, {row['seconds']:.0f} s"


if __name__ == "__main__":
    main()
