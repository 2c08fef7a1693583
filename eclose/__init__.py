"""eclose finds the neural operation, and the network around it, that a given kind of data needs.

>>> import eclose
>>> result = eclose.search(data="mine.npz", epochs=50)      # doctest: +SKIP
>>> result.model, result.metrics, result.run                # doctest: +SKIP

Nothing heavy is imported before it is used.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eclose.api import Result, architecture, describe, export, load, predict, relax, report, resume, retrain, search

__version__ = "0.1.0"

__all__ = [
    "Result",
    "__version__",
    "architecture",
    "describe",
    "export",
    "load",
    "predict",
    "relax",
    "report",
    "resume",
    "retrain",
    "search",
]

_PUBLIC = [name for name in __all__ if name != "__version__"]


def _from_api(name: str) -> property:
    def get(module: ModuleType) -> Any:
        return getattr(importlib.import_module("eclose.api"), name)

    def ignore(module: ModuleType, value: Any) -> None:
        pass  # importing the package eclose.search must not replace the function eclose.search

    return property(get, ignore)


class _Package(ModuleType):
    """The package with its public functions, each fetched from ``eclose.api`` when first asked for."""

    def __dir__(self) -> list[str]:
        return sorted(__all__)


for _name in _PUBLIC:
    setattr(_Package, _name, _from_api(_name))
sys.modules[__name__].__class__ = _Package
