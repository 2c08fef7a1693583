"""What becomes of trials: failures, final trainings, retraining; in a space of networks that train in no time."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

import eclose
from eclose.config import Config, TaskSection
from eclose.engine import complete
from eclose.engine.plan import USUAL_RATES, completion
from eclose.errors import ConfigError, EcloseError, RunError
from eclose.runs import Run, Trial
from eclose.tasks import load_task
from tests.engine import widths

SETTINGS: dict[str, Any] = {
    "run.threads": 1,
    "task.subset": 150,
    "task.subset_eval": 80,
    "train.batch": 32,
    "strategy.halving": 0,
}


def search(folder: Path, **arguments: Any) -> eclose.Result:
    settings = {**SETTINGS, **arguments.pop("settings", {})}
    given = {"task": "digits", "space": "widths", "epochs": 1, "trials": 12, "out": folder, **arguments}
    return eclose.search(settings=settings, **given)


def rows(run: Path, role: str = "search") -> list[Trial]:
    return [trial for trial in Run.open(run).table.all() if trial.role == role]


def test_failures_are_recorded_and_the_search_goes_on(tmp_path: Path) -> None:
    result = search(tmp_path / "run", trials=30, settings={"final.networks": 2})
    reasons = {trial.genotype["width"] % 10: trial for trial in rows(result.run) if trial.state == "failed"}
    assert reasons.keys() == {widths.UNBUILDABLE, widths.DIVERGING, widths.TOO_LARGE}
    assert reasons[widths.UNBUILDABLE].reason.startswith("RuntimeError: no network is ")
    assert reasons[widths.DIVERGING].reason.startswith("the training loss became")
    assert reasons[widths.TOO_LARGE].reason.startswith("out of memory")
    assert len(rows(result.run)) == 30
    assert result.metrics["search"]["failed"] == 9
    page = (result.run / "report.html").read_text(encoding="utf-8")
    assert "no network is" in page
    finals = rows(result.run, "final")
    values = sorted((trial.valid or 0.0 for trial in rows(result.run) if trial.state == "done"), reverse=True)
    assert list(dict.fromkeys(trial.valid for trial in finals)) == values[:2]
    found = next(trial for trial in Run.open(result.run).table.all() if trial.number == result.metrics["trial"])
    assert result.metrics["test"] == found.test
    assert all(trial.test is not None for trial in finals)


def test_a_search_without_a_success_says_why(tmp_path: Path) -> None:
    settings = {"optimiser.name": "sgd", "optimiser.learning_rate": 1e30}
    with pytest.raises(EcloseError, match="no training succeeded: the training loss became"):
        search(tmp_path / "run", trials=2, settings={**settings, "space.widest": 2})


def test_values_that_are_no_numbers_cannot_be_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = load_task(TaskSection(name="digits", subset=150), lambda done, total: None).train.all()
    one, other = y == 0, y == 1
    few = {"x_train": x[one | other], "y_train": y[one | other], "x_val": x[one], "y_val": y[one]}
    given: dict[str, Any] = {"trials": 2, "settings": {"task.metric": "auroc", "space.widest": 2}}
    with pytest.raises(EcloseError, match="task.metric is 'auroc', but the validation samples are of one class"):
        search(tmp_path / "refused", task="", data=few, **given)
    monkeypatch.setattr(completion, "targets_of", lambda split: y)  # whatever a plan does not see
    with pytest.raises(EcloseError, match="no training succeeded: auroc of the validation samples is not a number"):
        search(tmp_path / "run", task="", data=few, **given)
    assert [trial.state for trial in rows(tmp_path / "run")] == ["failed"] * 2


def test_a_space_without_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widths.Widths, "sample", lambda *_: None)
    with pytest.raises(EcloseError, match="no training succeeded: the space gave no network"):
        search(tmp_path / "run")


def test_what_a_killed_process_left_is_neither_believed_nor_kept(tmp_path: Path) -> None:
    run = tmp_path / "run"
    search(run, trials=3, settings={"space.widest": 2})
    wanted = [(trial.state, trial.valid, trial.history[0]["train_loss"]) for trial in rows(run)]
    (run / "result.json").unlink()
    table = Run.open(run).table
    for trial in rows(run):  # both were under way
        table.put(dataclasses.replace(trial, state="running", valid=None, history=[]))
    folder = run / "trials" / "0"
    for half in (".checkpoint.safetensors.1.part", ".weights.safetensors.1.part", "weights.safetensors"):
        (folder / half).write_bytes(b"half of")
    eclose.resume(run)
    assert [(trial.state, trial.valid, trial.history[0]["train_loss"]) for trial in rows(run)] == wanted
    assert not list(run.glob("trials/*/.*"))
    assert eclose.load(run) is not None


@pytest.mark.parametrize(
    ("line", "changed", "message"),
    [
        ("halving = 0", "halving = 1", "strategy.halving is 1"),
        ("networks = 1", "networks = -2", "final.networks is -2, but must be at least -1"),
        ("epochs = 3", "epochs = -2", r"\[final\] train.epochs is -2, but must be at least 0"),
    ],
)
def test_an_edited_configuration_is_checked(tmp_path: Path, line: str, changed: str, message: str) -> None:
    run = tmp_path / "run"
    search(run, trials=1, settings={"final.train.epochs": 3})
    (run / "result.json").unlink()
    config = run / "config.toml"
    text = config.read_text(encoding="utf-8")
    assert f"\n{line}\n" in text
    config.write_text(text.replace(line, changed), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        eclose.resume(run)


@pytest.mark.parametrize(
    ("line", "changed", "key"),
    [
        ("seed = 0", "seed = 1", "run.seed"),
        ("batch = 32", "batch = 16", "train.batch"),
        ("halving = 0", "halving = 3", "strategy.halving"),
        ("epochs = 3", "epochs = 4", "final.train.epochs"),
    ],
)
def test_a_run_goes_on_with_the_settings_it_began_with(tmp_path: Path, line: str, changed: str, key: str) -> None:
    run = tmp_path / "run"
    search(run, trials=1, settings={"final.train.epochs": 3})
    (run / "result.json").unlink()
    text = edited(run, line, changed)
    old, new = (each.split(" = ")[1] for each in (line, changed))
    words = f"{key} of {run} is {new}, but was {old} when the run began: put it back in config.toml, or begin a new run"
    with pytest.raises(RunError, match=f"^{re.escape(words)}$"):
        eclose.resume(run)
    (run / "config.toml").write_text(text, encoding="utf-8")
    assert eclose.resume(run).metrics["trials"] == 1


def test_an_option_that_was_left_out_is_missed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    search(run, trials=1)
    (run / "result.json").unlink()
    edited(run, "halving = 0\n", "")
    with pytest.raises(RunError, match="strategy.halving of .* is not set, but was 0 when the run began"):
        eclose.resume(run)


def test_who_trains_may_change_and_older_runs_know_no_settings(tmp_path: Path) -> None:
    run = tmp_path / "run"
    search(run, trials=1)
    for line, changed in (("checkpoint_seconds = 20.0", "checkpoint_seconds = 5.0"), ("seed = 0", "seed = 1")):
        (run / "result.json").unlink()
        edited(run, line, changed)
        assert eclose.resume(run).metrics["trials"] == 1
        (run / "settings.toml").unlink(missing_ok=True)


def test_settings_that_are_damaged(tmp_path: Path) -> None:
    run = tmp_path / "run"
    search(run, trials=1)
    (run / "result.json").unlink()
    (run / "settings.toml").write_text("seed =", encoding="utf-8")
    with pytest.raises(RunError, match="settings.toml is damaged .*: restore it from a copy, or begin a new run"):
        eclose.resume(run)


@pytest.mark.parametrize("damage", ["half", "[]", "{}", "binary", "another network"])
def test_what_was_asked_is_damaged(tmp_path: Path, damage: str) -> None:
    def stop(event: str, fields: dict[str, Any]) -> None:
        if event == "trial":
            raise KeyboardInterrupt

    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        search(run, trials=1, listeners=[stop])
    file = run / "trials" / "0" / "asked.json"
    content = file.read_bytes()
    told = json.loads(content)
    others = {
        "half": content[: len(content) // 2],
        "binary": bytes(range(256)),
        "another network": json.dumps({**told, "choices": {}}).encode(),
    }
    file.write_bytes(others.get(damage, damage.encode()))
    with pytest.raises(
        RunError, match=r"asked.json is damaged \(.*\): restore it from a copy, or start a new run"
    ) as caught:
        eclose.resume(run)
    assert "\n" not in str(caught.value)
    file.write_bytes(content)
    assert eclose.resume(run).metrics["trials"] == 1


def edited(run: Path, line: str, changed: str) -> str:
    """The configuration before."""
    config = run / "config.toml"
    text = config.read_text(encoding="utf-8")
    assert f"\n{line}" in text
    config.write_text(text.replace(f"\n{line}", f"\n{changed}"), encoding="utf-8")
    return text


def test_epochs_of_the_final_training(tmp_path: Path) -> None:
    result = search(tmp_path / "run", trials=2, settings={"final.train.epochs": 4})
    assert [trial.epochs for trial in rows(result.run, "final")] == [4]
    assert result.metrics["epochs"] == 4
    assert rows(result.run)[0].epochs == 1


def test_settings_of_the_final_training(tmp_path: Path) -> None:
    given = {"final.optimiser.name": "sgd", "final.optimiser.momentum": 0.5, "final.train.batch": 16}
    config = Run.open(search(tmp_path / "run", trials=2, settings=given).run).config
    final = config.final.options
    assert (config.optimiser.name, config.train.batch, config.final.networks) == ("adamw", 32, 1)
    assert (final["optimiser"]["name"], final["optimiser"]["options"]["momentum"]) == ("sgd", 0.5)
    assert final["optimiser"]["learning_rate"] == USUAL_RATES["sgd"] != config.optimiser.learning_rate
    assert (final["train"]["batch"], final["train"]["epochs"]) == (16, 1)
    assert complete_again(config).final == config.final
    for settings, says in (
        ({"final.space.widest": 3}, "final.space is no setting of a training; known: augment, loss"),
        ({"final.train.epoch": 3}, r"unknown setting 'train.epoch' of \[train\]; did you mean 'epochs'"),
        ({"final.optimiser.name": "sdg"}, r"\[final\] unknown optimiser 'sdg'; did you mean 'sgd'"),
    ):
        with pytest.raises(ConfigError, match=says):
            search(tmp_path / "other", settings=settings)


def complete_again(config: Config) -> Config:
    return complete(config, load_task(config.task, lambda done, total: None))


def test_runs_of_earlier_versions(tmp_path: Path) -> None:
    run = search(tmp_path / "run", trials=2).run
    config = run / "config.toml"
    text = config.read_text(encoding="utf-8")
    before = text.replace("networks = 1\n", "").replace(
        "[strategy.options]\n", "[strategy.options]\nfinal = 0\nfinal_epochs = 7\n"
    )
    config.write_text(before, encoding="utf-8")
    final = Run.open(run).config.final
    assert (final.networks, final.options) == (0, {"train": {"epochs": 7}})
    assert eclose.load(run) is not None


@pytest.mark.parametrize("settings", [{"final.networks": 0}, {"final.networks": 1}])
def test_without_a_final_training_the_best_trial_is_the_result(tmp_path: Path, settings: dict[str, Any]) -> None:
    x, y = load_task(TaskSection(name="digits", subset=150), lambda done, total: None).train.all()
    arrays = {"x_train": x[:80], "y_train": y[:80], "x_val": x[80:120], "y_val": y[80:120]}
    if not settings["final.networks"]:
        arrays |= {"x_test": x[120:], "y_test": y[120:]}
    result = search(tmp_path / "run", task="", data=arrays, trials=3, settings={"space.widest": 2, **settings})
    best = max(rows(result.run), key=lambda trial: trial.valid or 0.0)
    assert rows(result.run, "final") == []
    assert result.metrics["valid"] == best.valid
    assert result.genotype.choices == best.genotype


def test_retraining_trains_the_found_network_once(tmp_path: Path) -> None:
    found = search(tmp_path / "run", trials=3)
    again = eclose.retrain(found.run, out=tmp_path / "again")
    assert again.genotype == found.genotype
    assert again.metrics["trials"] == 1
