"""Which known operation a learned XD-operation is nearest to, as a map of weights and signal."""

from eclose.ops.xd.inspection.nearest.gates import nearest_gates
from eclose.ops.xd.inspection.nearest.named_operation import Named
from eclose.ops.xd.inspection.nearest.ranking import nearest_operations

__all__ = ["Named", "nearest_gates", "nearest_operations"]
