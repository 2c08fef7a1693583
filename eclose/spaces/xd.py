"""The space of XD-operations: the operation on each edge of a backbone becomes searchable (paper 000)."""

from torch import nn

from eclose.backbones import make_backbone
from eclose.config import Config
from eclose.ops.xd import Gates
from eclose.signature import Signature
from eclose.spaces.architecture import freeze_architecture, saved_architecture, set_architecture
from eclose.spaces.backbone import backbone_genotype
from eclose.spaces.genotype import Genotype
from eclose.spaces.relax import relax
from eclose.spaces.space import spaces
from eclose.spaces.trace import example_of


@spaces.register("xd")
class XDSpace:
    """Every convolution of the backbone becomes an XD-operation, started as that convolution."""

    name = "xd"
    strategy = "supernet"

    def __init__(
        self,
        config: Config,
        *,
        depth: tuple[int, ...] = (1, 1, 1),
        bias: bool = True,
        gates: Gates = True,
        paper: bool = False,
        fewest: bool = False,
        kinds: tuple[str, ...] = ("conv", "fno"),
        max_kernel: int = 0,
        causal: bool = False,
        select: str = "",
    ) -> None:
        self.section = config.backbone
        self.choices = {
            "depth": list(depth),
            "bias": bias,
            "gates": gates,
            "paper": paper,
            "fewest": fewest,
            "kinds": list(kinds),
            "max_kernel": max_kernel,
            "causal": causal,
            "select": select,
        }

    def start(self, signature: Signature) -> Genotype:
        """The backbone: every operation is still its convolution."""
        backbone = backbone_genotype(self.section.name, self.section.options, signature)
        return Genotype(self.name, {**backbone.choices, "relaxation": self.choices})

    def supernet(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The relaxed backbone, its operations free to move."""
        choices = genotype.choices
        network = make_backbone(choices["backbone"], signature, choices["options"])
        given = {**choices["relaxation"], "depth": tuple(choices["relaxation"]["depth"])}
        unset = {name: None for name in ("select", "max_kernel") if not given.get(name)}
        relaxed = relax(network, example_of(signature), **{**given, **unset})
        set_architecture(relaxed, genotype.tensors)
        return relaxed

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The network with the operations of the genotype, which stay as they are."""
        relaxed = self.supernet(genotype, signature)
        freeze_architecture(relaxed)
        return relaxed

    def derive(self, genotype: Genotype, network: nn.Module) -> Genotype:
        """The operations of a trained supernet."""
        return Genotype(self.name, genotype.choices, saved_architecture(network))
