"""Strategy ``portfolio``: short trainings of all that the spaces offer, longer ones of the best, on one clock.

What comes next follows from the trials so far, in stages: the plain networks; one that tells where features are, if
these miss what a fitted model sees; what other spaces make of the best of them; a longer training of the best of all,
and of the best plain network, whatever it is; the leader once more on samples that are patched, shifted or mirrored, if
it knows its training samples much better than others; second seeds, if time is left, which tell how much of a
difference is chance. Whoever is best on validation samples then has the final training. Long and final trainings go on
with what the one before has learned.
The fitted model, which needs no training, is the result unless a network is better.
Where there is little time fewer networks take part; a single one is trained at length at once. So it is where a
training takes long besides its steps, as on a GPU that meets a network for the first time.

``race.py`` answers questions about the trials so far. ``stages.py`` says what is trained next, ``shares.py`` for how
long. ``strategy.py`` is what the driver asks.
"""

from eclose.engine.portfolio.race import AGAIN, LONG, SHORT
from eclose.engine.portfolio.strategy import Portfolio

__all__ = ["AGAIN", "LONG", "SHORT", "Portfolio"]
