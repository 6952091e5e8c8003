"""Names what a batch has that both its makers and the heads on an encoder must know."""

# The target of a token that has none, such as [CLS] and all but the first of a word's.
NO_TARGET = -1
# What `pooling` may be where a text's vector is that of its entities.
ENTITY_POOLINGS = ("mention", "entity_start")
