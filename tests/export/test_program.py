import pytest
import torch
from torch import nn

from eclose.errors import EcloseError
from eclose.export.program import write_program
from eclose.signature import Signature

SIGNATURE = Signature("regression", 2, (8,), 3)


def test_the_program_computes_what_the_network_does(tmp_path):
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    path = write_program(model, SIGNATURE, tmp_path / "model.pt2")
    x = torch.randn(5, 2, 8)
    torch.testing.assert_close(torch.export.load(path).module()(x), model(x))
    assert model.training


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm`")
def test_a_network_that_cannot_be_copied_costs_one_line(tmp_path):
    model = nn.Sequential(nn.Flatten(), nn.utils.weight_norm(nn.Linear(16, 3)))
    with pytest.raises(EcloseError) as caught:
        write_program(model, SIGNATURE, tmp_path / "model.pt2")
    text = str(caught.value)
    assert text.startswith("torch.export cannot trace this network (Only Tensors created explicitly by the user")
    assert text.endswith("): use --format bundle")
    assert "\n" not in text
    assert not list(tmp_path.iterdir())
