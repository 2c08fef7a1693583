import subprocess
import sys

import pytest
import torch
from torch import nn

from eclose.backbones import make_backbone
from eclose.errors import EcloseError
from eclose.exports.program import write_program
from eclose.signature import Signature

SIGNATURE = Signature("regression", 2, (8,), 3)


def test_the_program_computes_what_the_network_does(tmp_path):
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    path, _ = write_program(model, SIGNATURE, tmp_path)
    x = torch.randn(5, 2, 8)
    torch.testing.assert_close(torch.export.load(path).module()(x), model(x))
    assert model.training


def test_statistics_of_a_batch_are_those_of_any_batch(tmp_path):
    model = make_backbone("ccnn", SIGNATURE, {"width": 4, "blocks": 1, "hidden": 8, "batch_statistics": True}).eval()
    path, _ = write_program(model, SIGNATURE, tmp_path)
    program = torch.export.load(path).module()
    for number in (1, 2, 5):
        x = torch.randn(number, 2, 8)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


def test_four_lines_use_it_without_eclose(tmp_path):
    words = Signature("classification", 1, (5,), 2, vocabulary=9)
    tokens = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, 2))
    wanted, blocked = [], "import runpy, sys; sys.modules['eclose'] = None\n"
    for signature, model in ((SIGNATURE, nn.Sequential(nn.Flatten(), nn.Linear(16, 3))), (words, tokens)):
        _, use = write_program(model, signature, tmp_path / signature.kind)
        assert use.read_text().count("\n") == 4
        x = torch.zeros(signature.input_shape(2), dtype=torch.long if signature.tokens else torch.float32)
        wanted.append(str(model(x).detach()).splitlines()[0][:15])
        blocked += f"runpy.run_path({str(use)!r}); print('next')\n"
    done = subprocess.run([sys.executable, "-c", blocked], cwd="/", capture_output=True, text=True, check=True)
    assert [text.strip()[:15] for text in done.stdout.split("next\n")] == [*wanted, ""]


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm`")
def test_a_network_that_cannot_be_copied_costs_one_line(tmp_path):
    model = nn.Sequential(nn.Flatten(), nn.utils.weight_norm(nn.Linear(16, 3)))
    with pytest.raises(EcloseError) as caught:
        write_program(model, SIGNATURE, tmp_path / "out")
    text = str(caught.value)
    assert text.startswith("torch.export cannot trace this network (Only Tensors created explicitly by the user")
    assert text.endswith("): use --format bundle")
    assert "\n" not in text
    assert not list(tmp_path.iterdir())
