"""The sets and the networks by hand that the portfolio is measured with."""

import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import ndimage
from sklearn.linear_model import Ridge

from benchmarks import training_defaults
from benchmarks.portfolio import CLASSIFYING, DENSE, load_sets, train_handwritten
from benchmarks.portfolio.compare import Plan, jobs_of, run
from benchmarks.portfolio.fields import FIELDS, make_fields
from benchmarks.portfolio.made import MADE, make_set
from benchmarks.portfolio.table import summary
from benchmarks.rows import read_rows

ALWAYS = {"digits", "Burgers", "Darcy", "Plucked string", *FIELDS, *MADE}


def test_sets_without_their_files_are_left_out(tmp_path):
    sets = load_sets(tmp_path)
    assert set(sets) == ALWAYS
    arrays = sets["digits"]()
    assert arrays["x_train"].shape == (1197, 1, 8, 8)
    assert arrays["y_test"].shape == (300,)
    (tmp_path / "timeseries").mkdir()
    x, y = np.zeros((4, 9), np.float32), np.arange(4)
    np.savez(tmp_path / "timeseries" / "Crop.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    sets = load_sets(tmp_path)
    assert set(sets) == {"Crop", *ALWAYS}
    assert sets["Crop"]()["x_train"].shape == (4, 1, 9)


@pytest.mark.parametrize("name", MADE)
def test_made_sets_are_always_the_same_and_have_all_classes(name):
    one, other = make_set(name), make_set(name)
    assert all(np.array_equal(one[key], other[key]) for key in one)
    assert np.isfinite(one["x_train"]).all()
    counts = np.bincount(one["y_train"])
    assert counts.min() > 0.8 * counts.mean()
    assert set(one["y_test"]) == set(one["y_train"])


@pytest.mark.parametrize("name", FIELDS)
def test_made_fields_are_always_the_same_and_nearly_linear(name):
    one, other = make_fields(name, 300, 100), make_fields(name, 300, 100)
    assert all(np.array_equal(one[key], other[key]) for key in one)
    parts = (one[key].astype(float) for key in ("x_train", "y_train", "x_test", "y_test"))
    x, y, new, wanted = (part.reshape(len(part), -1) for part in parts)
    errors = [Ridge(alpha=alpha).fit(x, y).predict(new) - wanted for alpha in (0.1, 1.0, 10.0, 100.0)]
    assert 0.001 < min(np.linalg.norm(error) for error in errors) / np.linalg.norm(wanted) < 0.5


def test_boards_are_connected_where_they_are_said_to_be():
    arrays = make_set("Boards")
    for (stones, others), answer in zip(arrays["x_test"][:300], arrays["y_test"], strict=False):
        assert np.array_equal(others, 1 - stones)
        groups, _ = ndimage.label(stones)
        assert bool(set(groups[0][groups[0] > 0]) & set(groups[-1])) == answer


@pytest.mark.parametrize("name", [*CLASSIFYING, *DENSE])
@pytest.mark.parametrize("space", [(20,), (6, 5), (5, 4, 5)])
def test_networks_by_hand_take_one_to_three_axes(name, space):
    model = (CLASSIFYING | DENSE)[name](len(space), 2, 3)
    assert model(torch.randn(2, 2, *space)).shape == ((2, 3) if name in CLASSIFYING else (2, 3, *space))


def test_a_network_by_hand_learns():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    x = np.sin((1 + 3 * y[:, None]) * np.linspace(0, 6, 24) + rng.uniform(0, 6, (120, 1)))[:, None]
    parts = {"train": slice(0, 40), "val": slice(40, 80), "test": slice(80, None)}
    arrays = {f"{kind}_{part}": v[rows] for part, rows in parts.items() for kind, v in (("x", x), ("y", y))}
    assert train_handwritten("resnet", arrays, seconds=3.0, seed=0, device="cpu") > 0.9


def test_a_network_by_hand_learns_fields():
    x = np.random.default_rng(0).normal(size=(90, 1, 16))
    y = 3 + np.roll(x, 1, 2) + x
    parts = {"train": slice(0, 60), "test": slice(60, None)}
    arrays = {f"{kind}_{part}": v[rows] for part, rows in parts.items() for kind, v in (("x", x), ("y", y))}
    assert train_handwritten("fno", arrays, seconds=2.0, seed=0, device="cpu") < 0.3


def test_networks_by_hand_come_early_and_where_they_fit():
    jobs = jobs_of(["digits", "Darcy"], [0, 1], ["xd", "portfolio"], ["resnet", "fno"])
    assert ("resnet by hand", "digits", 1) in jobs
    assert ("fno by hand", "Darcy", 1) in jobs
    assert ("resnet by hand", "Darcy", 0) not in jobs
    assert ("fno by hand", "digits", 0) not in jobs
    assert [way for way, *_ in jobs[-4:]] == ["xd"] * 4
    assert len(jobs) == 12


def test_a_comparison_is_made_in_pieces(tmp_path, capsys):
    rows, jobs = tmp_path / "rows.jsonl", jobs_of(["digits"], [0, 1], [], ["resnet"])
    plan = Plan(str(tmp_path), "cpu", minutes=1.0, seconds=0.2, ends=time.time() + 1000)
    rows.write_text('{"way": "resn')  # a sudden end
    run(jobs[:1], plan, 1, rows)
    (row,) = read_rows([rows])
    assert 0 <= row["test"] <= 1
    assert row["way"] == "resnet by hand"
    assert row["machine"]
    run(jobs, replace(plan, ends=time.time()), 1, rows)  # no time: the second one is left
    assert "1 left for another call" in capsys.readouterr().out
    assert read_rows([rows]) == [row]


def test_a_portfolio_may_have_a_name_of_its_own(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"way": "portfolio before", "set": "digits", "seed": 0}\n')
    plan = Plan(str(tmp_path), "cpu", minutes=1.0, seconds=0.2, ends=time.time() + 1000, called="portfolio before")
    assert (plan.name_of("portfolio"), plan.name_of("xd")) == ("portfolio before", "xd")
    run([("portfolio", "digits", 0)], plan, 1, rows)  # it is there
    assert len(read_rows([rows])) == 1


def test_the_table_ranks_every_way_and_says_where_the_portfolio_is_behind():
    common = {"machine": ["- date: today"], "minutes": 1.0, "hand_seconds": 18.0}

    def row(way, name, test, goal="max", seed=0):
        return {**common, "way": way, "set": name, "seed": seed, "test": test, "goal": goal}

    text = summary(
        [
            *(row("portfolio", "a", value, seed=seed) for seed, value in enumerate((0.8, 0.9))),
            row("resnet by hand", "a", 0.8),
            row("portfolio", "b", 0.5),
            row("resnet by hand", "b", 0.6),
            row("xd", "a", 0.9),
            {**common, "way": "xd", "set": "b", "seed": 0, "goal": "max", "refused": "not for tokens"},
            row("portfolio", "c", 0.1, "min"),
            row("fno by hand", "c", 0.2, "min"),
        ]
    ).splitlines()
    assert "| set | resnet by hand | portfolio | xd |" in text
    assert "| a | 0.8000 | 0.8500 ± 0.0707 | 0.9000 |" in text
    assert "| **mean of 2** | 0.7000 | 0.6750 |  |" in text
    assert "| mean rank | 2.00 | 2.00 | 1.00 |" in text
    assert any("mean rank 1.50; better by -0.0250 than resnet by hand" in line for line in text)
    assert "- behind on b by 0.1000, more than the seeds' deviation of 0.0000" in text
    assert any("mean rank 1.00; better by 0.1000 than fno by hand" in line for line in text)
    assert "- xd on b: not for tokens" in text


def test_candidates_are_configurations(tmp_path, monkeypatch):
    monkeypatch.setenv("ECLOSE_DATA", str(tmp_path))
    assert training_defaults.check(torch.device("cpu")).startswith("6 sets; ")
