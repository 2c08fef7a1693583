"""How values flow through a recorded network: what each comes from, and which layers and functions make it."""

from collections import Counter

from torch import nn
from torch.nn.utils import parametrize

from eclose.spaces.dnarch.recording import Recording, Value, computes_weights

SUMS = {"add", "iadd", "radd"}
BY_CHANNEL = {  # along the axes behind the channels
    *(f"{kind}_pool{axes}d" for kind in ("max", "avg", "adaptive_avg", "adaptive_max", "lp") for axes in (1, 2, 3)),
    *("pad", "interpolate", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"),
}
HOMOGENEOUS = {  # what a positive factor passes through
    *("relu", "leaky_relu", "dropout", "mul", "rmul", "imul", "div", "truediv", "itruediv", "neg", "contiguous"),
    *("permute", "transpose", "movedim", "view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"),
    *(name for name in BY_CHANNEL if name not in ("pad", "lp_pool1d", "lp_pool2d", "lp_pool3d")),
}


class Flow:
    """A network and what was recorded of it. ``above``: the values that every value comes from, as bits."""

    def __init__(self, network: nn.Module, recording: Recording) -> None:
        self.network, self.recording = network, recording
        self.values, self.uses = recording.values, recording.uses
        self.above: list[int] = []
        for value in self.values:
            self.above.append(0)
            for source in value.sources:
                self.above[-1] |= self.above[source] | 1 << source
        owners = Counter(id(parameter) for _, parameter in network.named_parameters(remove_duplicate=False))
        self.tied = {parameter for parameter, number in owners.items() if number > 1}

    def path(self, value: Value) -> str:
        """Of the layer that made a value; empty: a function did, which is none of a layer that computes its weights."""
        if value.path or not computes_weights(self.network.get_submodule(value.within)):
            return value.path
        return value.within

    def layer(self, value: Value) -> nn.Module:
        """The one that made a value."""
        return self.network.get_submodule(self.path(value))

    def why_fixed(self, path: str) -> str:
        """Why a layer cannot be changed; nothing if it can."""
        layer = self.network.get_submodule(path)
        if computes_weights(layer):
            parametrized = parametrize.is_parametrized(layer)
            undone = "parametrize.remove_parametrizations" if parametrized else "remove_weight_norm or the like"
            return f"'{path}' computes its weights from others (undo that by torch.nn.utils.{undone})"
        if self.recording.times[path] > 1:
            return f"'{path}' runs {self.recording.times[path]} times"
        if any(id(parameter) in self.tied for parameter in layer.parameters()):
            return f"'{path}' shares its weights with another layer"
        return ""
