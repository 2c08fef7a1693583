"""XD-operations: convolutions relaxed to a search space of linear operations (Roberts et al. 2021)."""

from eclose.ops.xd.architecture import Architecture
from eclose.ops.xd.axes.axis import Axis, plan_axis
from eclose.ops.xd.evaluation.planner import plan
from eclose.ops.xd.gates import Gates
from eclose.ops.xd.inspection.distance import Distances, distances
from eclose.ops.xd.inspection.filters import Filters, filters_at_random, from_unitary
from eclose.ops.xd.inspection.impulse import Responses, impulse_responses
from eclose.ops.xd.inspection.nearest import Named, nearest_gates, nearest_operations
from eclose.ops.xd.operation import XD
from eclose.ops.xd.options import Options
from eclose.ops.xd.starts.computed_weights import adopt
from eclose.ops.xd.starts.random_architecture import random_architecture

__all__ = [
    "XD",
    "Architecture",
    "Axis",
    "Distances",
    "Filters",
    "Gates",
    "Named",
    "Options",
    "Responses",
    "adopt",
    "distances",
    "random_architecture",
    "filters_at_random",
    "from_unitary",
    "impulse_responses",
    "nearest_gates",
    "nearest_operations",
    "plan",
    "plan_axis",
]
