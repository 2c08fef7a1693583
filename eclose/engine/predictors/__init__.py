"""Predictors that need no training: what every result stands beside.

``trivial`` ones learn nothing: the most frequent class, the mean of the targets, the mean and a copy of the input.
The ``fitted`` ones are solved in closed form, or in a few seconds whatever the size of the data: a linear map of the
input, and one of what random filters make of it.
"""

from eclose.engine.predictors.fit import Predictor, best_fitted, fit_predictors, record_fitted, unbeaten

__all__ = ["Predictor", "best_fitted", "fit_predictors", "record_fitted", "unbeaten"]
