"""Names the values in a batch that both its makers and the heads on an encoder must know."""

# The target of a token that has none, such as [CLS] and all but the first of a word's.
NO_TARGET = -1
# The values of `pooling` that take a text's vector from its entities.
ENTITY_POOLINGS = ("mention", "mention_mean", "entity_start")
