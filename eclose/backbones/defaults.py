"""Which plain networks suit which data: the default, and those that a portfolio begins with."""

from eclose.signature import Signature

_FEW = 8  # points of a signal, or of a table, in which long kernels would find nothing
_REGIONS = {1: 16, 2: 4, 3: 3}  # of every axis, by their number
_OSCILLATES = 128  # points of a signal, from which on its spectra are worth a look


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
    if signature.sizes[0] <= _FEW:
        return ["resnet"]
    return ["inception", "resnet", "tcn", *(["spectrogram"] if signature.sizes[0] >= _OSCILLATES else [])]


def regions(signature: Signature) -> int:
    """Parts of every axis in which a network may tell where its features are; 1 where there is nothing to tell.

    With one answer a sample the strongest average their features over all axes. They see that a feature is there, but
    hardly where it is, as of a line in a spectrum.
    """
    return _REGIONS[signature.axes] if signature.pooled and max(signature.sizes) > 1 else 1
