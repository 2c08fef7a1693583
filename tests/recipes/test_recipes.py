import pytest

from eclose.backbones import backbones
from eclose.config import from_dict
from eclose.errors import ConfigError
from eclose.recipes import DEFAULT, about_recipe, read_recipe, recipe_names
from eclose.spaces import spaces
from eclose.tasks import complete_task


def test_the_default_is_there():
    assert DEFAULT in recipe_names()
    assert recipe_names() == sorted(recipe_names())


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_a_configuration_of_known_members(name):
    config = from_dict(read_recipe(name))
    complete_task(config.task)
    assert config.space.name in spaces
    assert not config.backbone.name or config.backbone.name in backbones
    assert all(baseline in backbones for baseline in config.compare.baselines)
    assert about_recipe(name)
    assert "\n" not in about_recipe(name)
    assert "about" not in read_recipe(name)


def test_a_file_of_the_user(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('about = "mine"\n[train]\nepochs = 3\n')
    assert read_recipe(str(path)) == {"train": {"epochs": 3}}


def test_unknown(tmp_path, monkeypatch):
    with pytest.raises(ConfigError) as error:
        read_recipe("defualt")
    wanted = "unknown recipe 'defualt' (a file must end in .toml); did you mean 'default'? known: "
    assert str(error.value).startswith(wanted)
    with pytest.raises(ConfigError) as error:
        read_recipe(str(tmp_path / "none.toml"))
    assert str(error.value) == f"cannot read {tmp_path / 'none.toml'}: No such file or directory"
    (tmp_path / "bad.toml").write_text("[train")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        read_recipe(str(tmp_path / "bad.toml"))
