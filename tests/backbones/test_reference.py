import os
import sys
import textwrap

import pytest
import torch
from torch import nn

from eclose.backbones import make_backbone
from eclose.backbones.consent import Consent, call_of, consent_now, consenting
from eclose.backbones.reference import hand_in, own_label
from eclose.errors import ConfigError, TaskError
from eclose.signature import Signature

SIGNATURE = Signature("regression", 3, (8,), 4)

NETWORKS = """
import torch
from torch import nn
from eclose.errors import TaskError

finished = nn.Conv1d(3, 4, 1)
number = 7

class Plain(nn.Module):
    def __init__(self, width=5):
        super().__init__()
        self.width = width

class Fitted(nn.Module):
    def __init__(self, signature, *, width=5):
        super().__init__()
        self.signature, self.width = signature, width

def sized(width):
    return Plain(width)

def any_keywords(**options):
    return Plain(**options)

def not_a_network():
    return [1, 2]

def raises():
    raise RuntimeError("no\\n weights")

def leaves():
    raise SystemExit("bye")

def refuses(signature):
    raise TaskError("only images")

class Calls:
    def __init__(self, **options):
        open("called", "w").close()
    def __call__(self, **options):
        open("called", "w").close()

calls = Calls.__new__(Calls)

from posixpath import join

def imports_late():
    import eclose_test_neighbour
    return eclose_test_neighbour.network
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the user's modules, which are forgotten afterwards."""
    known = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "networks", NETWORKS)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def write(folder, name, text):
    (folder / f"{name}.py").write_text(textwrap.dedent(text))


def load(name, **options):
    with consenting(Consent({name: os.getcwd()})):  # as if the user had typed it
        return make_backbone(name, SIGNATURE, options)


def refusal(name, **options):
    with pytest.raises(ConfigError) as caught:
        load(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.usefixtures("folder")
class TestWhatIsCalled:
    def test_network_is_copied(self):
        first, second = load("networks:finished"), load("networks:finished")
        assert torch.equal(first.weight, second.weight)
        assert first.weight is not second.weight
        assert first is not sys.modules["networks"].finished

    def test_class_without_required_parameters(self):
        assert load("networks:Plain").width == 5
        assert load("networks:Plain", width=9).width == 9

    def test_class_with_a_required_parameter_gets_the_signature(self):
        model = load("networks:Fitted", width=9)
        assert model.signature is SIGNATURE
        assert model.width == 9

    def test_required_parameter_that_is_an_option(self):
        assert load("networks:sized", width=3).width == 3
        assert load("networks:sized").width is SIGNATURE

    def test_keywords_only(self):
        assert load("networks:any_keywords", width=2).width == 2

    def test_module_inside_a_package(self, folder):
        (folder / "mine" / "deep").mkdir(parents=True)
        write(folder / "mine" / "deep", "nets", "from torch import nn\nnet = nn.Identity()")
        assert isinstance(load("mine.deep.nets:net"), nn.Identity)

    def test_neighbours_can_be_imported_while_building(self, folder):
        write(folder, "eclose_test_neighbour", "from torch import nn\nnetwork = nn.Identity()")
        assert isinstance(load("networks:imports_late"), nn.Identity)

    def test_the_path_is_left_as_it_was(self):
        before = list(sys.path)
        load("networks:finished")
        refusal("networks:raises")
        assert sys.path == before

    def test_own_refusals_pass_through(self):
        with pytest.raises(TaskError, match="^only images$"):
            load("networks:refuses")


@pytest.mark.usefixtures("folder")
class TestRefusals:
    @pytest.mark.parametrize("name", [":net", "networks:", "networks:a.b", "networks:a:b"])
    def test_form(self, name):
        assert refusal(name) == (f"backbone '{name}' is not of the form package.module:attribute, e.g. networks:MyNet")

    def test_file_instead_of_module(self):
        assert refusal("./sub/networks.py:net") == (
            "backbone './sub/networks.py:net' names a file; write the module: sub.networks:net"
        )

    @pytest.mark.parametrize(("module", "missing"), [("nowhere", "nowhere"), ("no.where", "no")])
    def test_module_not_found(self, module, missing):
        assert refusal(f"{module}:net") == (
            f"backbone '{module}:net': there is no module '{missing}' in {os.getcwd()} or among the "
            "installed packages; start eclose in the folder that holds it"
        )

    def test_module_that_misses_another(self, folder):
        write(folder, "needy", "import surely_not_installed")
        assert refusal("needy:net") == (
            "backbone 'needy:net': importing needy raised ModuleNotFoundError: No module named "
            "'surely_not_installed'; make `python -c \"import needy\"` work first"
        )

    @pytest.mark.parametrize(
        ("text", "what"),
        [("1 / 0", "ZeroDivisionError: division by zero"), ("import sys; sys.exit(3)", "SystemExit: 3")],
    )
    def test_module_that_fails(self, folder, text, what):
        write(folder, "failing", text)
        assert refusal("failing:net").startswith(f"backbone 'failing:net': importing failing raised {what}; ")

    def test_attribute_missing(self):
        text = refusal("networks:Plane")
        assert text.startswith(
            "backbone 'networks:Plane': module networks has no 'Plane'; did you mean 'Plain'? known: Calls, Fitted,"
        )

    def test_empty_module(self, folder):
        write(folder, "empty", "")
        assert refusal("empty:net") == "backbone 'empty:net': module empty has no 'net'; it defines nothing"

    def test_not_a_network(self):
        assert refusal("networks:not_a_network") == (
            "backbone 'networks:not_a_network' gave a list, not a torch.nn.Module; "
            "name a network, or a class or function that makes one"
        )

    @pytest.mark.parametrize(
        ("name", "what"),
        [
            ("networks:number", "a int"),
            ("networks:Calls", "a type"),
            ("networks:calls", "a Calls"),
            ("networks:join", "a function of posixpath"),
            ("os:system", "a builtin_function_or_method"),
            ("subprocess:getoutput", "a function of subprocess"),
            ("torch.hub:load", "a function of torch.hub"),
        ],
    )
    def test_what_makes_no_network_is_not_called(self, name, what):
        keyword = "cmd" if name == "subprocess:getoutput" else "command"
        assert refusal(name, **{keyword: "echo called > called"}) == (
            f"backbone '{name}' is {what}, which is not called: name a torch.nn.Module, a class of them, "
            "or a function of the named package that makes one; those of Python and torch do not"
        )
        assert not os.path.exists("called")

    def test_call_raises(self):
        assert refusal("networks:raises") == (
            "backbone 'networks:raises' raised RuntimeError: no weights; it was called with no arguments"
        )

    def test_call_exits(self):
        assert refusal("networks:leaves") == (
            "backbone 'networks:leaves' raised SystemExit: bye; it was called with no arguments"
        )

    @pytest.mark.parametrize(
        ("make", "says"),
        [
            ("torch.jit.script(nn.Linear(3, 4))", "is a finished torch.jit.ScriptModule, whose copy cannot be trained"),
            (
                "nn.utils.weight_norm(nn.Linear(3, 4))",
                "cannot be copied (RuntimeError: Only Tensors created explicitly",
            ),
        ],
    )
    @pytest.mark.filterwarnings("ignore:`torch")
    def test_finished_network_that_cannot_be_copied(self, folder, make, says):
        write(folder, "stiff", f"import torch\nfrom torch import nn\ndef make(): return {make}\nnet = make()")
        text = refusal("stiff:net")
        assert text.startswith(f"backbone 'stiff:net' {says}")
        assert text.endswith("; name the class or function that makes it instead")
        assert isinstance(load("stiff:make"), nn.Module)

    def test_unknown_option(self):
        text = refusal("networks:Fitted", depth=3)
        assert "raised TypeError: " in text
        assert text.endswith("; it was called with the task's signature, depth=3")

    def test_options_for_a_finished_network(self):
        assert refusal("networks:finished", width=3, depth=1) == (
            "backbone 'networks:finished' is a finished network and takes no options, but was given width, depth; "
            "name the class or function that makes it"
        )


@pytest.fixture
def elsewhere(folder):
    """A folder like the working directory, in which somebody put a module of the same name."""
    other = folder / "other"
    other.mkdir()
    write(other, "networks", "raise SystemExit('planted')")
    return other


class TestConsent:
    def refused(self, name, options, consent):
        with consenting(consent), pytest.raises(ConfigError) as caught:
            make_backbone(name, SIGNATURE, options)
        return str(caught.value)

    def test_nothing_is_imported_without_it(self, folder):
        write(folder, "trap", "open('sprung', 'w').close()")
        text = self.refused("trap:net", {}, Consent())
        assert text == (
            "a file names the code 'trap:net' (module trap), which eclose neither imports nor calls by itself: if you "
            "know that code, agree with --backbone trap:net (in Python backbone=, also as an object), or with --trust "
            "(trust=True) to all code that the files name"
        )
        assert "trap" not in sys.modules
        assert not (folder / "sprung").exists()

    def test_outside_of_a_call_there_is_none(self):
        assert consent_now() == Consent()

    def test_a_call_is_agreed_to_with_its_options(self, folder):
        consent = Consent({call_of("networks:Plain", {"width": 3}): str(folder)})
        with consenting(consent):
            assert make_backbone("networks:Plain", SIGNATURE, {"width": 3}).width == 3
        assert "'networks:Plain'" in self.refused("networks:Plain", {"width": 4}, consent)
        assert "'networks:Fitted'" in self.refused("networks:Fitted", {"width": 3}, consent)

    def test_calls_are_told_with_the_place_of_their_code(self, folder):
        (folder / "mine" / "deep").mkdir(parents=True)
        write(folder / "mine" / "deep", "__init__", "from torch import nn\nnet = nn.Identity()")
        with consenting(Consent({"mine.deep:net": str(folder), "networks:Plain": str(folder)})) as consent:
            make_backbone("mine.deep:net", SIGNATURE, {})
            make_backbone("networks:Plain", SIGNATURE, {"width": 3})
        assert consent.called == dict.fromkeys(["mine.deep:net {}", 'networks:Plain {"width": 3}'], str(folder))

    def test_trust_does_not_search_the_working_directory(self, folder, monkeypatch):
        monkeypatch.syspath_prepend("")
        monkeypatch.syspath_prepend(str(folder))
        before = list(sys.path)
        text = self.refused("networks:finished", {}, Consent(everything=True))
        assert text == (
            "backbone 'networks:finished': there is no module 'networks' among the installed packages; the working "
            "directory is searched only for what you type: --backbone networks:finished"
        )
        assert sys.path == before
        with consenting(Consent(everything=True)):
            assert isinstance(make_backbone("torch.nn:Identity", SIGNATURE, {}), nn.Identity)

    def test_a_module_planted_in_the_working_directory_is_not_met(self, folder, elsewhere, monkeypatch):
        monkeypatch.chdir(elsewhere)
        with consenting(Consent({"networks:finished": str(folder)})):
            assert isinstance(make_backbone("networks:finished", SIGNATURE, {}), nn.Conv1d)

    def test_an_object_stands_in_the_place_of_a_reference(self):
        network = nn.Linear(2, 3)
        with consenting(Consent(objects={"os:system": network})):
            made = make_backbone("os:system", SIGNATURE, {})
        assert torch.equal(made.weight, network.weight)


class TestHandedIn:
    def test_an_object_of_this_process(self):
        network = nn.Linear(2, 3)
        name = hand_in(network)
        assert name.startswith("python:Linear_")
        assert own_label(name) == "your Linear"
        assert [own_label(other) for other in ("resnet", "nets:make_net")] == ["resnet", "nets:make_net"]
        assert torch.equal(load(name).weight, network.weight)
        assert load(name).weight is not network.weight

    def test_what_can_be_imported_again_keeps_its_place(self):
        assert hand_in(nn.Identity) == "torch.nn.modules.linear:Identity"

    def test_local_functions_have_a_local_name(self):
        def make(signature):
            return nn.Linear(signature.channels, signature.outputs)

        name = hand_in(make)
        assert name.startswith("python:make_")
        assert hand_in(make) == name
        assert hand_in(lambda: None) != hand_in(lambda: 1)
        assert load(name).in_features == 3

    def test_networks_of_one_class_do_not_take_each_others_place(self):
        relu, tanh = nn.Sequential(nn.ReLU()), nn.Sequential(nn.Tanh())
        names = [hand_in(relu), hand_in(tanh)]
        assert isinstance(load(names[0])[0], nn.ReLU)
        assert isinstance(load(names[1])[0], nn.Tanh)

    def test_again_under_the_recorded_name(self):
        name = hand_in(nn.Identity())
        assert hand_in(nn.Identity(), name) == name
        with pytest.raises(ConfigError, match=f"the network handed in is .*, but the run was made with '{name}'"):
            hand_in(nn.ReLU(), name)

    def test_not_handed_in(self):
        assert refusal("python:Gone") == (
            "the network 'python:Gone' was handed in as a Python object; hand it in again as backbone=..."
        )
