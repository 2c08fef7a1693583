"""NOS: cells of feature operations, attention and dynamic convolution (Neural Operator Search).

Reading path: ``operations`` (the eleven), ``tier`` and ``block`` (equations 2 to 5), ``network`` (cells in a row),
``supernet`` (the relaxation), ``derivation`` (which operations stay), ``space``.
"""
