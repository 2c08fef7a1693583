"""A whole network: tokens embedded, the body that a tree describes, a head for the task."""

from collections import OrderedDict

from torch import nn

from eclose.backbones.tokens import EMBEDDING_WIDTH
from eclose.signature import Signature
from eclose.spaces.einspace.build.body import body
from eclose.spaces.einspace.build.head import head
from eclose.spaces.einspace.build.relaxed import prepare_together
from eclose.spaces.einspace.chain import chain
from eclose.spaces.einspace.grammar import Tree
from eclose.spaces.einspace.shapes import input_state
from eclose.spaces.einspace.survey import Survey


def build(tree: Tree, signature: Signature) -> nn.Module:
    """The network of ``tree`` for ``signature``, newly initialised."""
    state = input_state(signature)
    Survey(tree, state)  # refuses a tree that does not fit before anything is allocated
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if signature.tokens:
        parts["embedding"] = nn.Embedding(signature.vocabulary, EMBEDDING_WIDTH)
    parts["body"], state = body(chain(tree), state)
    prepare_together(parts["body"])
    parts["head"] = head(state, signature)
    return nn.Sequential(parts)
