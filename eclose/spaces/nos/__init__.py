"""NOS: cells of feature operations, attention and dynamic convolution (Neural Operator Search).

Reading path: ``operations`` (the eleven), ``block`` (equations 2 to 5), ``mixed_block`` (equation 7), ``network``
(cells in a row, and what is trained in the end), ``supernet`` (the relaxation, and which operations stay), ``space``.
"""
