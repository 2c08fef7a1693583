"""Which plain networks suit which data: the default, and those that a portfolio begins with."""

from eclose.signature import Signature

_FEW = 8  # points of a signal, or of a table, in which long kernels would find nothing


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
