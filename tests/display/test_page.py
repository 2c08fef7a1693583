"""The page from real run folders: what it says, what it draws, and that nothing in a folder breaks it."""

import math
import re
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from eclose.display.page import write_page
from eclose.display.terminal.listing import listing
from eclose.runs import Run
from eclose.signature import Signature
from eclose.train import Progress, save_tensors
from eclose.train.checkpoint import save_state
from tests.display.folders import SPACES, config, finished_run, history, result, samples, trial, trials

VOID = {"meta", "link", "img", "br", "hr", "input"}
KINDS = ("classification", "regression", "dense", "segmentation")
EVIL = "<script>alert('x')</script>"


class Page(HTMLParser):
    """A page taken apart; complains about tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.addresses += [values[key] or "" for key in ("src", "href", "xlink:href") if key in values]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page(run: Run) -> Page:
    path = write_page(run)
    assert path == run.path / "report.html"
    parsed = Page(path.read_text(encoding="utf-8"))
    assert "script" not in parsed.tags
    assert all(address.startswith(("data:", "#")) for address in parsed.addresses)
    assert not re.search(r"https?://|url\((?!#)|@import", parsed.source)
    assert len(parsed.ids) == len(set(parsed.ids))
    references = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', parsed.source)
    assert {a or b for a, b in references} <= set(parsed.ids)
    assert str(run.path) not in parsed.source
    return parsed


def signature(kind: str, axes: int, channels: int = 2, outputs: int = 3) -> Signature:
    return Signature(kind, channels, SPACES[axes], outputs)  # type: ignore[arg-type]


BURGERS = Signature("dense", 1, (48,), 1)


def with_predictors(mean: float, linear: float) -> dict[str, Any]:
    """A result with the baseline ``fno`` and predictors that reach these test values."""
    common = {"state": "done", "parameters": 7, "architecture_parameters": 0, "seconds": 0.1, "reason": ""}
    rows = [("mean of the targets", "trivial", mean), ("linear model", "fitted", linear)]
    network = {"name": "fno", "kind": "network", "valid": 0.1, "test": 0.0145, **common}
    return {
        "baselines": [network]
        + [{"name": name, "kind": kind, "test": test, "valid": test + 0.1, **common} for name, kind, test in rows]
    }


class TestKinds:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("axes", [1, 2, 3])
    def test_every_kind_is_drawn(self, tmp_path: Path, kind: str, axes: int) -> None:
        parsed = page(finished_run(tmp_path / "r", signature(kind, axes), shown=6, epochs=30))
        assert parsed.source.count('<svg class="plot"') == 3 + (6 if axes == 1 else 0)  # loss, metric, rate
        assert parsed.tags.count("img") > 0 or axes == 1
        assert "Sample 6" in parsed.text or "sample 6" in parsed.text or (kind == "dense" and axes > 1)
        assert "cannot be shown" not in parsed.text

    @pytest.mark.parametrize("kind", KINDS)
    def test_tokens(self, tmp_path: Path, kind: str) -> None:
        tokens = Signature(kind, 1, (64,), 3, vocabulary=30)  # type: ignore[arg-type]
        parsed = page(finished_run(tmp_path / "r", tokens))
        assert "a sequence of 64 tokens out of 30" in parsed.text
        assert "first 40 of 64 tokens" in parsed.text

    def test_right_and_wrong_are_words(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", signature("classification", 2))
        x, y = torch.rand(2, 1, 4, 4), torch.tensor([1, 0])
        scores = torch.tensor([[0.0, 2.0], [0.0, math.nan]])
        save_tensors(run.path / "samples.safetensors", {"x": x, "y": y, "prediction.cnn": scores})
        text = page(run).text
        assert "class 1 88.1 % ✓ right" in text
        assert "no answer its scores are not finite ✗ wrong" in text

    def test_single_output_is_log_odds(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", signature("classification", 1, outputs=2))
        tensors = {"x": torch.rand(1, 1, 9), "y": torch.tensor([0]), "prediction.cnn": torch.tensor([[-2.0]])}
        save_tensors(run.path / "samples.safetensors", tensors)
        assert "class 0 88.1 % ✓ right" in page(run).text

    def test_regression_values(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", signature("regression", 1, outputs=2))
        y = torch.tensor([[1.5, -2.25]])
        tensors = {"x": torch.rand(1, 1, 9), "y": y, "prediction.cnn": y + 0.125}
        save_tensors(run.path / "samples.safetensors", tensors)
        text = page(run).text
        assert "1.50, −2.25" in text
        assert "1.62, −2.12 within 0.125" in text

    def test_dense_figures_by_sample(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", Signature("dense", 1, (4, 4), 1))
        y = torch.ones(1, 1, 4, 4)
        save_tensors(run.path / "samples.safetensors", {"x": y, "y": y, "prediction.cnn": 1.5 * y})
        assert "relative error 0.500" in page(run).text


class TestFinal:
    def test_what_was_trained_anew_stands_for_the_trial_that_was_chosen(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, (), {"network": "seq(norm, <relu>)"}, space__name="einspace")
        rows = [trial(n, "search", "einspace", test=None, history=history(3, 1.0, 0.02, "min", n)) for n in range(4)]
        final = trial(4, "final", "einspace", valid=rows[2].valid, test=0.01, history=[])
        for row in [*rows, replace(final, hash=rows[2].hash)]:
            run.table.put(row)
        parsed = page(run)
        assert "einspace reaches a relative L2 error of 0.0100 on the test set" in parsed.text
        assert "its validation figure is that of the search" in parsed.text
        assert "einspace: the training before its final one, which had no validation samples left" in parsed.text
        assert "2 · einspace chosen" in parsed.text
        assert "The found network The network as text seq(norm, <relu>)" in parsed.text

    def test_a_fitted_model_has_no_training_before_it(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, ())
        fitted = {"backbone": "linear", "fitted": True}
        run.table.put(replace(trial(1, "final", "linear model", test=0.001, history=[]), genotype=fitted))
        assert "the training before its final one" not in page(run).text

    def test_one_on_the_training_samples_alone_has_a_validation_of_its_own(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, ())
        final = trial(1, "final", "cnn", valid=0.02, test=0.01, history=history(3, 1.0, 0.02, "min", 1))
        run.table.put(replace(final, hash=run.table.all()[0].hash))
        text = page(run).text
        assert "what was found was trained anew on the same training samples." in text
        assert "validation samples together" not in text
        assert "the training before its final one" not in text

    @pytest.mark.parametrize("final", [True, False])
    def test_a_portfolio_says_whether_there_was_a_final_training(self, tmp_path: Path, final: bool) -> None:
        run = finished_run(tmp_path / "r", BURGERS, ())
        (first,) = run.table.all()
        run.table.put(replace(first, origin="long"))
        if final:
            run.table.put(replace(trial(1, "final", "cnn", test=0.01, history=[]), hash=first.hash))
        text = page(run).text
        assert ("What was found went on once more, with validation samples too;" in text) == final
        assert ("What was found has the weights of its longest training;" in text) != final

    def test_its_row_has_the_epochs_and_seconds_of_the_trainings_that_it_went_on_from(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, ())
        (short,) = run.table.all()
        run.table.put(replace(short, origin="short"))
        run.table.put(replace(short, number=1, origin="long", goes_on=0, epochs=2, seconds=100.0))
        run.table.put(replace(short, number=2, role="final", goes_on=1, epochs=3, seconds=60.0, history=[]))
        text = page(run).text
        assert "98.8 M 35 6 min" in text, "that found"
        assert "98.8 M 2 1 min 40 s" in text, "in the list of the search it stands by itself"

    def test_a_final_training_that_failed_leaves_the_best_trial(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, ())
        run.table.put(trial(1, "final", "cnn", state="failed", valid=0.01, test=None, reason="too hot"))
        text = page(run).text
        assert "cnn reaches a relative L2 error of 0.0123" in text
        assert "its validation figure" not in text


class TestTable:
    def test_a_row_is_told_by_its_columns(self, tmp_path: Path) -> None:
        layout = {"channels": "columns", "columns": ["age", "<b>weight</b>"], "label": "price"}
        table = Signature("regression", 2, (1,), 1)
        run = finished_run(tmp_path / "r", table, changes={"layout": layout})
        tensors = {"x": torch.tensor([[[41.0], [2.5]]]), "y": torch.ones(1, 1), "prediction.cnn": torch.ones(1, 1)}
        save_tensors(run.path / "samples.safetensors", tensors)
        parsed = page(run)
        assert "Input a table of 2 columns: age and <b>weight</b> Output 1 number, column 'price'" in parsed.text
        assert "sample 1 age 41.0 <b>weight</b> 2.50 true 1.00" in parsed.text
        assert "eclose predict r new.csv" in parsed.text
        assert "(a file with the same columns)" in parsed.text
        assert '<svg class="plot"' not in parsed.source, "no dots for samples"

    def test_a_wide_row_shows_its_first_columns(self, tmp_path: Path) -> None:
        run = finished_run(
            tmp_path / "r", Signature("regression", 30, (1,), 1), changes={"layout": {"channels": "columns"}}
        )
        text = page(run).text
        assert "a table of 30 columns Output 1 number" in text
        assert "column 12" in text
        assert "column 13" not in text
        assert "first 12 of 30 columns" in text
        assert "(an array x )" in text, "it came as arrays"


class TestText:
    def test_a_search_names_what_it_started_from(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, ("cnn (xd)", "cnn", "fno"), space__name="xd")
        found = run.table.all()[0]
        run.table.put(replace(found, space="xd", genotype={"backbone": "cnn"}))
        start = next(trial for trial in run.table.all() if (trial.role, trial.name) == ("baseline", "cnn"))
        text = page(run).text
        assert (
            f"cnn reaches a relative L2 error of 0.0123 on the test set of burgers, better than the cnn it started "
            f"from ({start.test:.3g}) and both other baselines, the best of which is cnn (xd) (0.0145)." in text
        )
        run.table.put(replace(start, test=0.01))
        behind = "the best of which is cnn (xd) (0.0145), but worse than the cnn it started from (0.0100)."
        assert f"burgers, better than both other baselines, {behind}" in page(run).text

    def test_a_network_that_was_handed_in_is_the_users(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, ("your Sequential",), space__name="xd")
        found = run.table.all()[0]
        run.table.put(replace(found, space="xd", genotype={"backbone": "python:Sequential_0123abcd"}))
        assert "better than your Sequential it started from (0.0145)." in page(run).text

    def test_a_start_that_learned_nothing_is_no_praise(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, ("cnn",), with_predictors(1.0, 0.5), space__name="xd")
        found, start = run.table.all()
        run.table.put(replace(found, space="xd", genotype={"backbone": "cnn"}))
        run.table.put(replace(start, test=1.0))
        text = page(run).text
        assert "better than the cnn it started from (1.00, no better than the mean of the targets)." in text
        assert "The best without training, the linear model, reaches 0.500." in text

    def test_a_constant_is_neither_praised_nor_a_foil(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, ("cnn",), space__name="xd")
        found, start = run.table.all()
        run.table.put(replace(found, space="xd", genotype={"backbone": "cnn"}))
        run.table.put(replace(start, test=1.0, collapsed=True, note="ended at a constant"))
        parsed = page(run)
        assert "burgers, beside the cnn it started from (1.00, collapsed)." in parsed.text
        assert "better than" not in parsed.text
        assert "ended at a constant" in parsed.text
        run.table.put(replace(found, collapsed=True))
        assert "It has collapsed: it answers the same whatever it is shown." in page(run).text

    def test_what_does_not_beat_a_predictor_is_said_not_to(self, tmp_path: Path) -> None:
        parsed = page(finished_run(tmp_path / "r", BURGERS, ("fno",), with_predictors(0.3, 0.01)))
        assert "It is worse than the linear model, which needs no training (0.0100)." in parsed.text
        assert "mean of the targets 0.400 0.300" in parsed.text
        assert "linear model 0.110 0.0100 7" in parsed.text
        assert '<b class="best">0.0100</b>' in parsed.source
        assert '<b class="best">7</b>' not in parsed.source, "sizes of networks are compared with those of networks"
        assert "Below the rule: predictors that need no training" in parsed.text

    def test_a_predictor_that_is_as_good_is_not_said_to_be_better(self, tmp_path: Path) -> None:
        parsed = page(finished_run(tmp_path / "r", BURGERS, ("fno",), with_predictors(0.3, 0.0123)))
        assert "It is no better than the linear model, which needs no training (0.0123)." in parsed.text

    def test_the_predictor_of_the_samples_is_drawn(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, tuple("abcdefgh"), with_predictors(0.3, 0.2))
        names = ("cnn", *"abcdefgh", "linear model")
        save_tensors(run.path / "samples.safetensors", samples(BURGERS, names, 1))
        text = page(run).text
        assert "target cnn a b c d e linear model" in text
        assert "3 further networks left out here" in text

    def test_headline_and_facts(self, tmp_path: Path) -> None:
        parsed = page(finished_run(tmp_path / "2026-11-15-burgers", BURGERS))
        assert (
            "cnn reaches a relative L2 error of 0.0123 on the test set of burgers, better than fno (0.0145)."
            in parsed.text
        )
        assert "2026-11-15 seed 7 cpu (2 threads) 6 min 41 s of training" in parsed.text
        assert "torch 2.13.0" in parsed.text
        assert "differences between single runs include chance" in parsed.text

    def test_table(self, tmp_path: Path) -> None:
        parsed = page(finished_run(tmp_path / "r", BURGERS))
        assert "1.23 M" in parsed.text
        assert "98.8 M" in parsed.text
        assert "3 min 20 s" in parsed.text
        assert '<b class="best">0.0123</b>' in parsed.source
        assert '<b class="best">0.0145</b>' not in parsed.source
        assert '<b class="best">98.8 M</b>' not in parsed.source  # equal for all

    def test_figures_have_their_heads_where_a_phone_shows_no_columns(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS)
        run.table.put(trial(2, "search", "other"))
        source = page(run).source
        assert source.count("<td") == source.count('<td data-head="') == 2 * 6 + 2 * 5
        assert re.search('<td data-head="validation" title="0.0135[0-9]*">0.0135</td>', source)
        assert "min-width: 640px" not in source, "no drawing is wider than a phone"

    def test_architecture_parameters_are_told_where_there_are_some(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS)
        assert "architecture" not in page(run).text.lower(), "a run from before they were counted"
        found, fno = run.table.all()
        run.table.put(replace(found, architecture_parameters=0))
        assert "architecture" not in page(run).text.lower()
        run.table.put(replace(found, architecture_parameters=215_040))
        run.table.put(replace(fno, architecture_parameters=0))
        parsed = page(run)
        assert "network validation test parameters architecture FLOPs" in parsed.text
        assert "1.23 M 215 k 98.8 M" in parsed.text
        assert "2.47 M 0 98.8 M" in parsed.text
        assert 'title="215,040">215 k</td>' in parsed.source
        assert '<b class="best">0</b>' not in parsed.source, "fewer are not better"
        assert "Architecture: those of the parameters" in parsed.text

    def test_what_was_asked(self, tmp_path: Path) -> None:
        parsed = page(finished_run(tmp_path / "r", BURGERS, budget__training_seconds=90.0, compare__width=8))
        assert "fno: width 8" in parsed.text
        assert "1,000 for training, 100 for validation and 200 for the test" in parsed.text
        assert "1 channel on 48 positions" in parsed.text
        assert "viscosity 0.0625, constant mode yes" in parsed.text
        assert "30 epochs a training, at most 1 min 30 s" in parsed.text
        assert "learning_rate = 0.002" in parsed.text

    def test_options_are_told_where_they_are_not_the_default(self, tmp_path: Path) -> None:
        changed = {"space__name": "xd", "space__largest": 7, "space__kinds": ["conv", "fno"]}
        text = page(finished_run(tmp_path / "r", BURGERS, **changed)).text
        assert "Space xd: largest 7 Backbone cnn: width 32 Strategy" in text
        assert "largest = 7" in text, "the whole configuration is there, too"

    def test_figures_come_first_and_links_lead_on(self, tmp_path: Path) -> None:
        parsed = page(finished_run(tmp_path / "r", BURGERS))
        places = [parsed.text.index(title) for title in ("Next: use it", "Result", "What was asked", "How to use it")]
        assert places == sorted(places)
        assert [each for each in parsed.addresses if each[0] == "#"][:4] == ["#use", "#result", "#asked", "#samples"]
        (run_path := tmp_path / "r" / "result.json").unlink()
        assert "Next:" not in page(Run.open(run_path.parent)).text, "there is nothing to use yet"

    @pytest.mark.parametrize(("tested", "told"), [(200, "One of the test samples is 0.50 %."), (20_000, "")])
    def test_how_much_a_test_sample_counts(self, tmp_path: Path, tested: int, told: str) -> None:
        about = {"about": {"samples": {"train": 1000, "val": 100, "test": tested}}}
        text = page(finished_run(tmp_path / "r", signature("classification", 1), changes=about)).text
        assert ("One of the test samples" in text) == bool(told)
        assert told in text

    def test_usage_names_the_folder_only(self, tmp_path: Path) -> None:
        parsed = page(finished_run(tmp_path / "it's mine", BURGERS))
        assert 'import eclose model = eclose.load("it\'s mine") y = model(x) # x: (batch, 1, 48)' in parsed.text
        assert "eclose predict 'it'\"'\"'s mine' new.npz --out predictions.npz" in parsed.text
        assert "/home/someone" not in parsed.source

    def test_a_better_baseline_is_said_plainly(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS)
        run.table.put(replace(trials("dense", ("fno",))[1], test=0.005))
        assert "on the test set of burgers, worse than fno (0.00500)." in page(run).text

    @pytest.mark.parametrize(
        ("tests", "words"),
        [
            ((0.02, 0.03), "better than both baselines, the best of which is a (0.0200)."),
            ((0.01, 0.03), "worse than a (0.0100), one of 2 baselines."),
            ((0.01, 0.011), "worse than both baselines, the best of which is a (0.0100)."),
            ((0.0123, 0.02), "no better than a (0.0123), the best of 2 baselines."),
            ((0.01232, 0.02), "no better than a (0.0123), the best of 2 baselines."),
            ((0.01228, 0.02), "no better than a (0.0123), the best of 2 baselines."),
        ],
    )
    def test_several_baselines(self, tmp_path: Path, tests: tuple[float, float], words: str) -> None:
        run = finished_run(tmp_path / "r", BURGERS, ("a", "b"))
        for row, test in zip(trials("dense", ("a", "b"))[1:], tests, strict=True):
            run.table.put(replace(row, test=test))
        assert words in page(run).text

    def test_without_a_test_set_validation_counts(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, (), changes={"test": None, "about": {}})
        run.table.put(replace(trials("dense", ())[0], test=None))
        text = page(run).text
        assert "on the validation set of burgers." in text
        assert "another seed gives a somewhat different figure" in text

    def test_a_figure_that_is_not_finite(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS)
        run.table.put(replace(trials("dense", ())[0], test=math.nan))
        assert "relative L2 error on the test set of burgers is not a finite number" in page(run).text

    def test_failed_baseline(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, ("fno", "unet"))
        reason = "the training loss became nan in epoch 3: lower --set optimiser.learning_rate"
        failed = trial(2, "baseline", "unet", state="failed", reason=reason, valid=None, test=None, history=[])
        run.table.put(failed)
        text = page(run).text
        assert "unet failed to train." in text
        assert reason in text

    def test_everything_from_outside_is_escaped(self, tmp_path: Path) -> None:
        run = finished_run(
            tmp_path / "r", BURGERS, (EVIL,), task__name=EVIL, changes={"task": EVIL, "about": {EVIL: EVIL}}
        )
        run.table.put(trial(2, "baseline", EVIL + "2", state="failed", reason=EVIL))
        parsed = page(run)
        assert "<script" not in parsed.source
        assert parsed.text.count(EVIL) > 8


class TestSearch:
    def test_trials_are_plotted_and_listed(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, space__name="einspace", epochs=30)
        for number in range(2, 9):
            run.table.put(trial(number, "search", "einspace", valid=0.3 / number))
        run.table.put(trial(9, "search", "einspace", state="failed", valid=None, reason="no output"))
        parsed = page(run)
        assert parsed.source.count('<svg class="plot"') == 3 + 1 + 1
        assert "All 9 trials" in parsed.text
        assert "no output" in parsed.text
        assert "8 other trials" in parsed.text
        assert "cnn found" in parsed.text

    @pytest.mark.parametrize(("epochs", "drawn"), [(1, False), (2, True)])
    def test_costs_are_drawn_over_several_epochs(self, tmp_path: Path, epochs: int, drawn: bool) -> None:
        run = finished_run(tmp_path / "r", BURGERS)
        costs = [{"epoch": epoch, "train_loss": 1.0, "complexity": 1.0} for epoch in range(1, epochs + 1)]
        run.table.put(trial(2, "search", "ccnn", test=None, history=costs))
        assert ("Cost, in units of the target" in page(run).text) is drawn

    def test_a_final_training_is_the_found_network(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, ())
        run.table.put(trial(5, "final", "derived", test=0.25))
        assert "derived reaches a relative L2 error of 0.250" in page(run).text

    def test_the_best_network_tells_where_it_comes_from(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS, (), {"network": "norm"}, space__name="einspace")
        trees = [
            ["seq", "norm", "relu"],
            ["seq", "norm", "softmax"],
            "relu",
            ["branch", "clone(2)", "relu", "norm", "add"],
        ]
        parents: list[list[int]] = [[], [0], [], [1, 2]]
        for number, (tree, of) in enumerate(zip(trees, parents, strict=True)):
            born = {"origin": "mutated" if of else "drawn", "parents": of, "valid": 0.5 - 0.1 * number}
            row = trial(number, "search", f"net{number}", test=0.1 if number == 3 else None, history=[], **born)
            run.table.put(replace(row, space="einspace", genotype={"tree": tree}))
        text = page(run).text
        assert "The best of 4 networks, net3, reaches a relative L2 error of 0.100" in text
        assert "Its ancestors net0 validation 0.500 seq(norm, relu) net1 of net0 validation 0.400" in text
        assert "net3 of net1 and net2 validation 0.200 branch(clone(2), relu, norm, add)" in text
        assert "1 · net1 of net0" in text
        run.table.put(replace(run.table.all()[1], description="child of net0: softmax in place of leaky ReLU"))
        assert "net1 of net0 softmax in place of leaky ReLU validation 0.400" in page(run).text
        run.table.put(replace(run.table.all()[0], test=0.1, valid=0.01))
        run.table.put(replace(run.table.all()[3], test=None))
        assert "Its ancestors" not in page(run).text, "a network without parents"

    def test_several_objectives_have_a_front(self, tmp_path: Path) -> None:
        settings = {"strategy__name": "evolution", "strategy__objectives": ("error", "latency", "flops")}
        run = finished_run(tmp_path / "r", BURGERS, (), space__name="einspace", **settings)
        for number in range(1, 5):
            figures = {"latency": 0.5 * number, "flops": 100 * number, "valid": 0.4 if number == 4 else 0.3 / number}
            run.table.put(trial(number, "search", f"net{number}", test=None, history=[], **figures))
        parsed = page(run)
        front = parsed.text[parsed.text.index("Front") : parsed.text.index("All 5 trials")]
        assert "2 · net2 0.150 200 1.00 ms" in " ".join(front.split())
        assert [name for name in ("net1", "net2", "net3", "net4") if name in front] == ["net1", "net2", "net3"]
        assert "Validation by latency" in front
        assert "Validation by FLOPs" in front
        assert parsed.source.count('<svg class="plot"') == 2 + 1 + 1


class TestUnfinished:
    def test_nothing_yet(self, tmp_path: Path) -> None:
        text = page(Run.create(tmp_path / "r", config("dense"))).text
        assert "The run on burgers has not finished; there are no figures yet." in text
        assert "eclose resume r" in text

    def test_between_two_trainings(self, tmp_path: Path) -> None:
        run = Run.create(tmp_path / "r", config("dense", **{"compare.baselines": ("fno", "unet")}))
        run.table.put(trial(0, "search", "cnn", test=None))
        run.table.put(trial(1, "baseline", "fno", state="running", valid=None, test=None, parameters=None, history=[]))
        parsed = page(run)
        assert "so far cnn reaches a relative L2 error of 0.0200 on the validation set" in parsed.text
        assert "1 training done, 1 under way, 1 baseline to come" in parsed.text
        assert parsed.source.count('<svg class="plot"') == 3

    def test_epochs_so_far_come_from_the_log(self, tmp_path: Path) -> None:
        run = Run.create(tmp_path / "r", config("dense"))
        run.table.put(trial(0, "search", "cnn", state="running", valid=None, test=None, epochs=None, history=[]))
        for entry in [*history(4, 1.0, 0.02, "min"), {"epoch": 4, "train_loss": 0.5, "valid": 0.03, "rate": 0.1}]:
            run.log("epoch", {"trial": 0, "epochs": 30, **entry})
        with open(run.path / "events.jsonl", "a", encoding="utf-8") as file:
            file.write('{"event": "epoch", "trial"')  # killed while it wrote
        parsed = page(run)
        assert parsed.source.count('<svg class="plot"') == 3
        assert "so far cnn reaches a relative L2 error of 0.0300 on the validation set" in parsed.text
        assert "cnn found under way 0.0300" in parsed.text or "cnn this run under way 0.0300" in parsed.text
        (row,) = listing(str(run.path))[0]["trials"]
        assert (row["state"], row["epochs"], row["valid"]) == ("running", 4, 0.03)

    def test_epochs_so_far_come_from_the_checkpoint_of_a_worker(self, tmp_path: Path) -> None:
        run = Run.create(tmp_path / "r", config("dense"))
        run.table.put(trial(0, "search", "cnn", state="running", valid=None, test=None, epochs=None, history=[]))
        progress = asdict(Progress(epoch=3, history=history(3, 1.0, 0.02, "min")))
        save_state(run.trial_folder(0) / "checkpoint.safetensors", {"progress": progress, "model": torch.ones(3)})
        assert page(run).source.count('<svg class="plot"') == 3
        (run.trial_folder(0) / "checkpoint.safetensors").write_bytes(b"not a checkpoint")
        assert "No training has finished an epoch" in page(run).text

    def test_fresh_configuration(self, tmp_path: Path) -> None:
        from eclose.config import Config

        assert "has not finished" in page(Run.create(tmp_path / "r", Config())).text

    def test_samples_without_a_result(self, tmp_path: Path) -> None:
        run = Run.create(tmp_path / "r", config("dense"))
        run.table.put(trial(0, "search", "cnn"))
        save_tensors(run.path / "samples.safetensors", samples(BURGERS, ("cnn",), 2))
        assert page(run).source.count('<svg class="plot"') == 3 + 2


class TestRobustness:
    def test_result_without_its_trial_table(self, tmp_path: Path) -> None:
        run = Run.create(tmp_path / "r", config("dense"))
        written = result(trials("dense", ("fno",)), BURGERS, "dense", architecture_parameters=215_040)
        run.write_result(written)
        text = page(run).text
        assert "1.23 M 215 k" in text
        assert "cnn reaches a relative L2 error of 0.0123 on the test set of burgers, better than fno" in text
        assert "No training has finished an epoch" in text

    def test_forty_baselines(self, tmp_path: Path) -> None:
        parsed = page(finished_run(tmp_path / "r", BURGERS, tuple(f"net{n}" for n in range(40)), epochs=5))
        assert "better than all 40 baselines" in parsed.text
        assert "35 further networks left out here" in parsed.text
        assert "35 further networks" in parsed.text

    @pytest.mark.parametrize("kind", KINDS)
    def test_numbers_that_are_none(self, tmp_path: Path, kind: str) -> None:
        run = finished_run(tmp_path / "r", signature(kind, 2), changes={"seconds": None, "versions": None})
        for row in trials(kind, ("fno",)):
            empty = dict.fromkeys(("valid", "test", "parameters", "flops", "epochs", "seconds"))
            run.table.put(replace(row, **empty, history=[{"epoch": 1}]))  # type: ignore[arg-type]
        assert "is not a finite number" in page(run).text

    @pytest.mark.parametrize("bad", [math.nan, 1e38])
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("axes", [1, 2])
    def test_predictions_that_broke(self, tmp_path: Path, kind: str, axes: int, bad: float) -> None:
        wanted = signature(kind, axes)
        run = finished_run(tmp_path / "r", wanted)
        tensors = samples(wanted, ("cnn", "fno"), 1)
        tensors["prediction.cnn"] = torch.full_like(tensors["prediction.cnn"], bad)
        tensors["prediction.fno"].view(-1)[::3] = bad
        save_tensors(run.path / "samples.safetensors", tensors)
        text = page(run).text
        assert "cannot be shown" not in text
        assert ("Not all outputs of cnn and fno are finite numbers" in text) == math.isnan(bad)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("space", [(1,), (1, 1), (1, 1, 1), (2, 700), (5000,)])
    def test_odd_shapes(self, tmp_path: Path, kind: str, space: tuple[int, ...]) -> None:
        odd = Signature(kind, 17, space, 5)  # type: ignore[arg-type]
        run = finished_run(tmp_path / "r", odd)
        save_tensors(run.path / "samples.safetensors", samples(odd, ("cnn", "fno"), 1))
        assert "cannot be shown" not in page(run).text

    def test_hundreds_of_classes(self, tmp_path: Path) -> None:
        assert "class 11" in page(finished_run(tmp_path / "r", Signature("segmentation", 1, (9, 9), 300))).text

    @pytest.mark.parametrize("epochs", [0, 1, 2])
    def test_short_histories(self, tmp_path: Path, epochs: int) -> None:
        run = finished_run(tmp_path / "r", BURGERS)
        for row in trials("dense", ("fno",)):
            run.table.put(replace(row, history=history(epochs, 1.0, 0.5, "min")))
        page(run)

    def test_wild_histories(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS)
        losses = [1e308, -1e308, 1e-320, 0.0, math.nan, None, 1e30, 1e-30]
        entries = [{"epoch": n, "train_loss": loss, "valid": loss, "rate": loss} for n, loss in enumerate(losses, 1)]
        run.table.put(replace(trials("dense", ())[0], history=entries))
        page(run)

    def test_huge_names(self, tmp_path: Path) -> None:
        name = "wide" * 500
        text = page(finished_run(tmp_path / "r", BURGERS, (name,))).text
        assert f"burgers, better than {name[:59]}… (0.0145)." in text

    def test_damaged_samples_cost_a_notice(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS)
        (run.path / "samples.safetensors").write_bytes(b"not tensors")
        text = page(run).text
        assert "The samples cannot be shown: samples.safetensors is damaged" in text
        assert "0.0123" in text

    def test_samples_that_do_not_fit(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS)
        tensors = samples(BURGERS, ("cnn",), 6) | {"prediction.fno": torch.zeros(6, 1, 7)}
        save_tensors(run.path / "samples.safetensors", tensors)
        assert "The predictions of fno do not fit the samples (shape (6, 1, 7))." in page(run).text
        for wrong in ({"x": torch.zeros(2, 1, 4)}, {"x": torch.zeros(2, 1, 4), "y": torch.zeros(3)}):
            save_tensors(run.path / "samples.safetensors", wrong)
            assert "The samples cannot be shown" in page(run).text

    def test_no_samples_file(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "r", BURGERS)
        (run.path / "samples.safetensors").unlink()
        assert "The run kept no samples." in page(run).text

    def test_same_folder_same_page(self, tmp_path: Path) -> None:
        run = finished_run(tmp_path / "2026-11-15-r", signature("dense", 2))
        first = write_page(run).read_bytes()
        assert write_page(run).read_bytes() == first

    def test_style_of_the_user_does_not_leak(self, tmp_path: Path) -> None:
        import matplotlib

        run = finished_run(tmp_path / "2026-11-15-r", BURGERS, epochs=3)
        plain = write_page(run).read_bytes()
        with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 40, "axes.grid": True}):
            assert write_page(run).read_bytes() == plain
            assert matplotlib.rcParams["font.size"] == 40
