"""eclose finds the neural operation, and the network around it, that a given kind of data needs.

>>> import eclose
>>> result = eclose.search(data="mine.npz", epochs=50)      # doctest: +SKIP
>>> result.model, result.metrics, result.run                # doctest: +SKIP

Nothing heavy is imported before it is used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eclose.api import (
        Comparison,
        Result,
        architecture,
        compare,
        describe,
        explain,
        export,
        load,
        one_pass,
        predict,
        relax,
        report,
        resume,
        retrain,
        search,
    )

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "Result",
    "__version__",
    "architecture",
    "compare",
    "describe",
    "explain",
    "export",
    "load",
    "one_pass",
    "predict",
    "relax",
    "report",
    "resume",
    "retrain",
    "search",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'eclose' has no attribute '{name}'")
    return getattr(importlib.import_module("eclose.api"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
