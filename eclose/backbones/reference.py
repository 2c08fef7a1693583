"""A user's own network, named as ``package.module:attribute``."""

import copy
import hashlib
import importlib
import inspect
import os
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from eclose.backbones.consent import Consent, call_of, consent_now
from eclose.errors import ConfigError, EcloseError
from eclose.registry import nearest
from eclose.signature import Signature

_WITHOUT_NETWORKS = {*sys.stdlib_module_names, "torch"}  # whose functions do other things, such as subprocess:getoutput
_HANDED_IN: dict[str, Any] = {}  # networks that exist only as objects of this process


def hand_in(network: Any, name: str = "") -> str:
    """A name for a network given as an object: its place if it can be imported again, else a local one.

    With ``name`` the object is handed in again for a run that knows it by that name.
    """
    module, qualified = getattr(network, "__module__", ""), getattr(network, "__qualname__", "")
    importable = module != "__main__" and qualified.isidentifier()
    if importable and getattr(sys.modules.get(module), qualified, None) is network:
        own = f"{module}:{qualified}"
    else:
        own = _local_name(network, qualified)
    if isinstance(network, nn.Module) and name and own != name:
        raise ConfigError(f"the network handed in is '{own}', but the run was made with '{name}'")
    if (name or own).startswith("python:"):
        _HANDED_IN[name or own] = network
    return name or own


def _local_name(network: Any, qualified: str) -> str:
    """``python:Class_hash``, the hash of what the network prints: other layers, another name."""
    kind = qualified.rpartition(".")[2] or type(network).__name__
    kind = kind if kind.isidentifier() else "network"
    if isinstance(network, nn.Module):
        return f"python:{kind}_{hashlib.sha256(repr(network).encode()).hexdigest()[:8]}"
    taken = [name for name in _HANDED_IN if name.startswith(f"python:{kind}")]
    same = [name for name in taken if _HANDED_IN[name] is network]
    return same[0] if same else f"python:{kind}_{len(taken)}"


def own_label(name: str) -> str:
    """What people read for a network that was handed in: ``your Sequential``; any other name as it is."""
    kind = name.removeprefix("python:").rpartition("_")[0]
    return f"your {kind}" if name.startswith("python:") and kind else name


def one_line(error: BaseException) -> str:
    """Type and message of an exception without line breaks."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")


def load_reference(reference: str, signature: Signature, options: Mapping[str, Any]) -> nn.Module:
    """The network behind ``package.module:attribute``, if the user agreed to that code.

    The attribute is a network, which is copied, or a class or function that makes one. It is called with the
    signature if it has a positional parameter that neither has a default nor stands in ``options``, else without;
    the options are its keywords.
    """
    module_name, _, attribute = reference.partition(":")
    if not module_name or not attribute.isidentifier():
        raise ConfigError(f"backbone '{reference}' is not of the form package.module:attribute, e.g. networks:MyNet")
    consent = consent_now()
    if reference in consent.objects:
        network = _network(consent.objects[reference], reference, signature, options)
    elif module_name == "python":
        folder = consent.folder_for(reference, options)
        if reference not in _HANDED_IN or folder is None:
            raise ConfigError(
                f"the network '{reference}' was handed in as a Python object; hand it in again as backbone=..."
            )
        consent.called[call_of(reference, options)] = folder
        network = _network(_HANDED_IN[reference], reference, signature, options)
    else:
        network = _imported(consent, reference, signature, options)
    if not isinstance(network, nn.Module):
        raise ConfigError(
            f"backbone '{reference}' gave a {type(network).__name__}, not a torch.nn.Module; "
            "name a network, or a class or function that makes one"
        )
    return network


def _imported(consent: Consent, reference: str, signature: Signature, options: Mapping[str, Any]) -> Any:
    module_name, _, attribute = reference.partition(":")
    folder = consent.folder_for(reference, options)
    if folder is None:
        raise ConfigError(
            f"a file names the code '{reference}' (module {module_name}), which eclose neither imports nor calls by "
            f"itself: if you know that code, agree with --backbone {reference} (in Python backbone=, also as an "
            "object), or with --trust (trust=True) to all code that the files name"
        )
    with _searching(folder):
        module = _module(module_name, reference, folder)
        found = _attribute(module, attribute, reference)
        _check_maker(found, reference)
        network = _network(found, reference, signature, options)
    consent.called[call_of(reference, options)] = _root(module) or folder
    return network


@contextmanager
def _searching(folder: str) -> Iterator[None]:
    """Search ``folder`` before the installed packages, and the working directory not at all unless it is that one.

    A file that names a module must not meet one that somebody put into the folder where the user happens to be.
    """
    before, here = list(sys.path), os.path.realpath(os.getcwd())
    searched = [folder] if folder else []
    searched += [path for path in before if os.path.realpath(path or here) != here]
    sys.path[:] = searched
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = [path for path in sys.path if path not in searched] + before  # a module may add to it


def _root(module: ModuleType) -> str:
    """The folder that has to be on the path for this module to be found."""
    file = getattr(module, "__file__", None)
    if not file:
        return ""
    above = module.__name__.count(".") + hasattr(module, "__path__")
    return str(Path(file).resolve().parents[above])


def _check_maker(found: Any, reference: str) -> None:
    """Refuse what is no network and makes none, before it is called."""
    if isinstance(found, nn.Module) or (isinstance(found, type) and issubclass(found, nn.Module)):
        return
    package = reference.partition(":")[0].partition(".")[0]
    home = str(getattr(found, "__module__", ""))
    if isinstance(found, types.FunctionType) and home.partition(".")[0] == package not in _WITHOUT_NETWORKS:
        return
    kind = f"a function of {home}" if isinstance(found, types.FunctionType) else f"a {type(found).__name__}"
    raise ConfigError(
        f"backbone '{reference}' is {kind}, which is not called: name a torch.nn.Module, a class of them, "
        "or a function of the named package that makes one; those of Python and torch do not"
    )


def _module(name: str, reference: str, folder: str) -> ModuleType:
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise ConfigError(
            f"backbone '{reference}' names a file; write the module: {dotted}:{reference.partition(':')[2]}"
        )
    try:
        with torch.random.fork_rng([]):
            torch.manual_seed(0)  # a network that the module makes is the same in every process
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"backbone '{reference}': there is no module '{error.name}' in {folder} or among the "
                "installed packages; start eclose in the folder that holds it"
                if folder
                else f"backbone '{reference}': there is no module '{error.name}' among the installed packages; the "
                f"working directory is searched only for what you type: --backbone {reference}"
            ) from None
        raise _import_failure(name, reference, error) from error
    except (Exception, SystemExit) as error:
        raise _import_failure(name, reference, error) from error


def _import_failure(name: str, reference: str, error: BaseException) -> ConfigError:
    return ConfigError(
        f"backbone '{reference}': importing {name} raised {one_line(error)}; "
        f'make `python -c "import {name}"` work first'
    )


def _attribute(module: ModuleType, attribute: str, reference: str) -> Any:
    try:
        return getattr(module, attribute)
    except AttributeError:
        public = [name for name in vars(module) if not name.startswith("_")]
        known = nearest(attribute, public) if public else "it defines nothing"
        raise ConfigError(f"backbone '{reference}': module {module.__name__} has no '{attribute}'; {known}") from None


def _network(found: Any, reference: str, signature: Signature, options: Mapping[str, Any]) -> Any:
    if isinstance(found, nn.Module):
        if options:
            raise ConfigError(
                f"backbone '{reference}' is a finished network and takes no options, but was given "
                f"{', '.join(options)}; name the class or function that makes it"
            )
        return _copy(found, reference)
    if not callable(found):
        return found
    arguments = (signature,) if _wants_signature(found, options) else ()
    try:
        return found(*arguments, **options)
    except EcloseError:
        raise
    except (Exception, SystemExit) as error:
        given = [
            *("the task's signature" for _ in arguments),
            *(f"{key}={options[key]!r}" for key in options),
        ]
        raise ConfigError(
            f"backbone '{reference}' raised {one_line(error)}; it was called with {', '.join(given) or 'no arguments'}"
        ) from error


def _copy(network: nn.Module, reference: str) -> nn.Module:
    if any(isinstance(module, torch.jit.ScriptModule) for module in network.modules()):
        raise ConfigError(
            f"backbone '{reference}' is a finished torch.jit.ScriptModule, whose copy cannot be trained; "
            "name the class or function that makes it instead"
        )
    try:
        return copy.deepcopy(network)
    except Exception as error:
        raise ConfigError(
            f"backbone '{reference}' cannot be copied ({one_line(error)}); "
            "name the class or function that makes it instead"
        ) from error


def _wants_signature(make: Any, options: Mapping[str, Any]) -> bool:
    try:
        parameters = inspect.signature(make).parameters.values()
    except ValueError:  # some builtins do not tell their parameters
        return False
    return any(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty and p.name not in options
        for p in parameters
    )
