"""Predictors that need no training: what every result stands beside.

``trivial`` ones learn nothing: the most frequent class, the mean of the targets, the mean and a copy of the input.
The ``linear`` one is solved in closed form, or in a few seconds whatever the size of the data.
"""

from eclose.engine.predictors.fit import Predictor, fit_predictors, unbeaten

__all__ = ["Predictor", "fit_predictors", "unbeaten"]
