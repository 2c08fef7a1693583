"""Which plain networks suit which data: the default, and those that a portfolio begins with."""

from typing import Any

from eclose.signature import Signature

_FEW = 8  # points of a signal, or of a table, in which long kernels would find nothing
_REGIONS = {1: 16, 2: 4, 3: 3}  # of every axis, by their number
_OSCILLATES = 64  # points of a signal, from which on its spectra are worth a look


def default_backbone(signature: Signature) -> str:
    """The name of the network for data of which nothing else is known."""
    return strongest(signature)[0]


def strongest(signature: Signature) -> list[str]:
    """Names of the plain networks that a search is to beat, for data of this kind; the usually best one first."""
    if not signature.pooled:
        return ["unet", "tcn"] if signature.labels or signature.tokens else ["fno", "unet", "cnn"]
    if signature.tokens:
        return ["kim", "tcn", "resnet"]
    if signature.axes > 1:
        return ["resnet", "inception"]
    return ["inception", "resnet", "tcn"] if signature.sizes[0] > _FEW else ["resnet"]


def other_views(signature: Signature) -> dict[str, tuple[str, dict[str, Any]]]:
    """Networks that see what the strongest do not, by what they are called: names and options.

    With one answer a sample these average their features over all of the axes. So they see that a feature is there, but
    not where, as a line in a spectrum, and hardly which frequencies are there when, as in a sound.
    """
    views: dict[str, tuple[str, dict[str, Any]]] = {}
    if signature.pooled and max(signature.sizes) > 1:
        views["resnet by regions"] = "resnet", {"regions": _REGIONS[signature.axes], "dropout": 0.5}
        if signature.axes == 1 and signature.sizes[0] >= _OSCILLATES and not signature.tokens:
            views["resnet of spectrograms"] = "spectrogram", {}
    return views
