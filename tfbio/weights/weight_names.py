"""Names the weights of our models as the original TensorFlow code and `transformers` do.

The functions `of_...` pair each variable of a model with its original name, the one in the
checkpoints of google-research's bert and electra. `hugging_face_name` turns such a name into the
one of `transformers`. For RoBERTa, ALBERT and Megatron-LM's BERT the original names here are those
of `transformers`, written with TensorFlow's slashes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import tensorflow as tf
import tf_keras as keras

from tfbio.models.encoder import Embeddings, Encoder
from tfbio.models.layers import Dense, LayerNorm
from tfbio.models.task_model import TaskModel
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModelHead
from tfbio.objectives.sentence_pairs import SentencePairHead


class Named(NamedTuple):
    """A weight with its names: a variable, or a value, and its original name.

    Attributes:
      variable: a variable of the model, or a float32 tensor in its place.
      names: its original name, with slashes, in a list of one; several names where its last axis
        joins equal parts, as that of query, key and value, float32 [hidden, 3 * hidden], does.
    """

    variable: tf.Variable | tf.Tensor
    names: list[str]


# Original names that `transformers` changes in more than the way of writing -> names there.
_RENAMED = {
    "generator_predictions/output_bias": "generator_lm_head/bias",
    "discriminator_predictions/dense_1/kernel": "discriminator_predictions/dense_prediction/kernel",
    "discriminator_predictions/dense_1/bias": "discriminator_predictions/dense_prediction/bias",
    "cls/predictions/output_bias": "cls/predictions/bias",
}


class _TextHead(NamedTuple):
    """The names of the two layers on [CLS] in a family's ForSequenceClassification.

    Attributes:
      text_head: the equivalent `text_layer` of `HeadConfig`.
      pooler: the scope of the first layer.
      output: the scope of the second layer.
    """

    text_head: str
    pooler: str
    output: str


TEXT_HEADS = {
    "albert": _TextHead("tanh", "albert/pooler", "classifier"),
    "bert": _TextHead("tanh", "bert/pooler/dense", "classifier"),
    "electra": _TextHead("gelu", "classifier/dense", "classifier/out_proj"),
    "megatron-bert": _TextHead("tanh", "bert/pooler/dense", "classifier"),
    "roberta": _TextHead("tanh", "classifier/dense", "classifier/out_proj"),
}


def scope_of(family: str) -> str:
    """Returns the scope of the names of a family's encoders, with which their names begin.

    Args:
      family: a `model_type` of `transformers`, such as "bert".

    Returns:
      "bert" for "megatron-bert", whose names begin like BERT's; else the family itself.
    """
    return "bert" if family == "megatron-bert" else family


def hugging_face_name(name: str) -> tuple[str, bool]:
    """Translates the original name of a weight into its name in `transformers`.

    Args:
      name: its original name, with slashes, such as "bert/encoder/layer_0/output/dense/kernel".

    Returns:
      A pair of the name with dots, such as "bert.encoder.layer.0.output.dense.weight", and True if
      the tensor is transposed there, as all kernels are: [outputs, inputs]; else False.
    """
    transposed = name.endswith("/kernel")
    name = _RENAMED.get(name, name)
    name = re.sub(r"/(kernel|gamma)$", "/weight", name)
    name = re.sub(r"/beta$", "/bias", name)
    name = re.sub(r"_embeddings$", "_embeddings/weight", name)
    name = re.sub(r"/layer_(\d+)/", r"/layer/\1/", name)
    return name.replace("/", "."), transposed


def of_electra(model: Electra) -> list[Named]:
    """Names all weights of an ELECTRA as google-research/electra's pretraining saves them.

    Args:
      model: generator and discriminator; a generator without weights has no names.

    Returns:
      A list of `Named`, all variables with their original names: encoder, generator if there is
      one, discriminator's head. Each variable is named once, also where both share it.
    """
    names = of_encoder(model.encoder, "electra")
    generator = model.generator
    if generator is not None:
        if generator is model.encoder:  # with `untied_generator` false
            return names + of_generator_head(model) + of_discriminator_head(model)
        if generator.embeddings is not model.encoder.embeddings:
            names += _of_embeddings(generator.embeddings, "generator/embeddings")
        names += _of_layers(generator, "generator")
        names += of_generator_head(model)
    return names + of_discriminator_head(model)


def of_generator_head(model: Electra) -> list[Named]:
    """Names the weights of the head of an ELECTRA's generator, which scores words.

    Args:
      model: an ELECTRA that has a generator.

    Returns:
      A list of `Named`: kernel and bias of its dense layer, gamma and beta of its LayerNorm, and
      the bias of the scores.

    Raises:
      AttributeError: there is no generator.
    """
    if model.generator_head is None:
        raise AttributeError("this ELECTRA has no generator")
    scope = "generator_predictions"
    return of_word_head(model.generator_head, scope, f"{scope}/output_bias")


def of_task_model(model: TaskModel, head_name: str, family: str) -> list[Named]:
    """Names all weights of a fine-tuned model as the classes of a family in `transformers` do.

    Args:
      model: a model with `token_layer` "linear". A model of texts has the family's `text_layer`, or
        for ELECTRA's class also none.
      head_name: the name of the layer that computes the logits of tokens; "" for a model of texts,
        whose layers the family names. See `TaskType.hugging_face_head`.
      family: one of `TEXT_HEADS`, such as "bert".

    Returns:
      A list of `Named`, all variables of encoder, pooler and head with their original names. Where
      a model of texts has one layer, its place is taken by the values of the two of `of_text_head`.

    Raises:
      KeyError: there is no such family.
    """
    head, names = TEXT_HEADS[family], of_encoder(model.encoder, scope_of(family))
    if head_name:
        return names + _dense(model.head, head_name)
    if model.pooler is None:
        return names + of_text_head(model)
    return names + of_pooler(model.pooler, family) + _dense(model.head, head.output)


def of_pooler(pooler: keras.layers.Dense, family: str) -> list[Named]:
    """Names the weights of a pooler, the first of the two layers on [CLS] of a family's models.

    Args:
      pooler: the layer.
      family: one of `TEXT_HEADS`, such as "bert".

    Returns:
      A list of two `Named`: its kernel, float32 [hidden, hidden], and its bias, float32 [hidden].

    Raises:
      KeyError: there is no such family.
    """
    return _dense(pooler, TEXT_HEADS[family].pooler)


def of_text_head(model: TaskModel) -> list[Named]:
    """Names the weights of a text's one layer on [CLS], rewritten as the two of ELECTRA's class.

    `ElectraForSequenceClassification` has two. The first of them has gelu, and gelu(x) - gelu(-x) =
    x (Phi(x) + Phi(-x)) = x. So the first layer computes the logits and their opposites, and the
    second subtracts them. The first must be at least twice as wide as there are outputs.

    Args:
      model: a model of texts without `pooler`; its head's kernel is float32 [hidden, outputs].

    Returns:
      A list of four `Named`, float32 values with their original names: kernel [hidden, hidden] and
      bias [hidden] of the first layer, then kernel [hidden, outputs] and bias [outputs] of the
      second.
    """
    kernel, bias = model.head.kernel, model.head.bias
    size, outputs = kernel.shape
    unused = size - 2 * outputs
    both, one = tf.concat([kernel, -kernel], axis=1), tf.eye(outputs)
    first = tf.pad(both, [[0, 0], [0, unused]]), tf.pad(tf.concat([bias, -bias], 0), [[0, unused]])
    second = tf.pad(tf.concat([one, -one], axis=0), [[0, unused], [0, 0]]), tf.zeros([outputs])
    return [
        Named(value, [f"classifier/{layer}/{name}"])
        for layer, values in (("dense", first), ("out_proj", second))
        for name, value in zip(("kernel", "bias"), values, strict=True)
    ]


def of_word_head(
    head: MaskedLanguageModelHead, scope: str, bias: str, norm: str = "LayerNorm"
) -> list[Named]:
    """Names the weights of a head that scores words, without the token embeddings.

    Args:
      head: the head.
      scope: the scope of its names, such as "cls/predictions/transform".
      bias: the name of the bias of the scores, such as "cls/predictions/output_bias".
      norm: the name of its LayerNorm, in that scope.

    Returns:
      A list of `Named`: kernel and bias of its dense layer, gamma and beta of its LayerNorm, and
      the bias of the scores, float32 [vocab_size].
    """
    return [
        *_dense(head.dense, f"{scope}/dense"),
        *_norm(head.layer_norm, f"{scope}/{norm}"),
        Named(head.output_bias, [bias]),
    ]


def of_sentence_pair_head(head: SentencePairHead, pooler: str, classifier: str) -> list[Named]:
    """Names the weights of a sentence-pair head by the scopes of its two layers.

    Args:
      head: the head.
      pooler: the scope of its first layer, such as "bert/pooler/dense".
      classifier: the scope of its second layer, such as "cls/seq_relationship".

    Returns:
      A list of four `Named`: kernel, float32 [hidden, hidden], and bias of the first layer, then
      kernel, float32 [hidden, 2], and bias of the second.
    """
    return _dense(head.pooler, pooler) + _dense(head.classifier, classifier)


def of_discriminator_head(model: Electra) -> list[Named]:
    """Names the weights of the head of an ELECTRA's discriminator.

    Args:
      model: an ELECTRA.

    Returns:
      A list of four `Named`: kernel, float32 [hidden, hidden], and bias of the first dense layer,
      then kernel, float32 [hidden, 1], and bias of the second.
    """
    scope = "discriminator_predictions"
    return [
        *_dense(model.discriminator_dense, f"{scope}/dense"),
        *_dense(model.discriminator_output, f"{scope}/dense_1"),
    ]


def of_encoder(encoder: Encoder, scope: str) -> list[Named]:
    """Names all weights of an encoder, from the embeddings to the last layer.

    Args:
      encoder: the encoder.
      scope: the scope of their names: "generator", or the result of `scope_of` for a family.

    Returns:
      A list of `Named`, its variables with their original names: those of the embeddings, of the
      projection if there is one, and of the layers. The kernel and the bias of the attention's
      query, key and value are one variable each, with three names. A shared layer is named once.
    """
    return _of_embeddings(encoder.embeddings, f"{scope}/embeddings") + _of_layers(encoder, scope)


def _of_embeddings(embeddings: Embeddings, scope: str) -> list[Named]:
    """Names the weights of embeddings.

    Args:
      embeddings: the embeddings.
      scope: the scope of their names, such as "bert/embeddings".

    Returns:
      The embeddings of words, positions and segments, float32 [rows, embedding_size] each, and
      gamma and beta of the LayerNorm, if there is one.
    """
    norm = embeddings.layer_norm
    return [
        Named(embeddings.word, [f"{scope}/word_embeddings"]),
        Named(embeddings.position, [f"{scope}/position_embeddings"]),
        Named(embeddings.segment, [f"{scope}/token_type_embeddings"]),
        *(() if norm is None else _norm(norm, f"{scope}/LayerNorm")),
    ]


def _of_layers(encoder: Encoder, scope: str) -> list[Named]:
    """Names the weights of an encoder's layers and of the projection before them.

    Args:
      encoder: the encoder; without a projection there are the layers alone.
      scope: the scope of their names, such as "bert".

    Returns:
      The variables from the first layer to the last, and of the LayerNorm after it, if there is
      one. The kernel and the bias of the attention's query, key and value are one variable each,
      with three names. A shared layer is named once.
    """
    if encoder.config.share_layers:
        return _of_shared_layer(encoder, f"{scope}/encoder")
    names, first = [], encoder.config.layer_norm_first
    if encoder.projection is not None:
        names += _dense(encoder.projection, f"{scope}/embeddings_project")
    for number, layer in enumerate(encoder.transformer_layers):
        prefix = f"{scope}/encoder/layer_{number}"
        attention = [f"{prefix}/attention/self/{part}" for part in ("query", "key", "value")]
        names += _dense(layer.query_key_value, *attention)
        names += _dense(layer.attention_output, f"{prefix}/attention/output/dense")
        norms = (
            ("attention/ln", "ln") if first else ("attention/output/LayerNorm", "output/LayerNorm")
        )
        names += _norm(layer.attention_norm, f"{prefix}/{norms[0]}")
        names += _dense(layer.intermediate, f"{prefix}/intermediate/dense")
        names += _dense(layer.output_dense, f"{prefix}/output/dense")
        names += _norm(layer.output_norm, f"{prefix}/{norms[1]}")
    norm = encoder.final_norm
    return names + ([] if norm is None else _norm(norm, f"{scope}/encoder/ln"))


def _of_shared_layer(encoder: Encoder, scope: str) -> list[Named]:
    """Names the weights of ALBERT's shared layer and of the projection before it, in a scope."""
    (layer,) = encoder.transformer_layers
    prefix = f"{scope}/albert_layer_groups/0/albert_layers/0"
    attention = [f"{prefix}/attention/{part}" for part in ("query", "key", "value")]
    return [
        *_dense(encoder.projection, f"{scope}/embedding_hidden_mapping_in"),
        *_dense(layer.query_key_value, *attention),
        *_dense(layer.attention_output, f"{prefix}/attention/dense"),
        *_norm(layer.attention_norm, f"{prefix}/attention/LayerNorm"),
        *_dense(layer.intermediate, f"{prefix}/ffn"),
        *_dense(layer.output_dense, f"{prefix}/ffn_output"),
        *_norm(layer.output_norm, f"{prefix}/full_layer_layer_norm"),
    ]


# Names of parts of ALBERT's layer: in `transformers` -> in google-research/albert.
_ORIGINAL_ALBERT = {
    "attention/query": "attention_1/self/query",
    "attention/key": "attention_1/self/key",
    "attention/value": "attention_1/self/value",
    "attention/dense": "attention_1/output/dense",
    "attention/LayerNorm": "LayerNorm",
    "ffn": "ffn_1/intermediate/dense",
    "ffn_output": "ffn_1/intermediate/output/dense",
    "full_layer_layer_norm": "LayerNorm_1",
}


def original_albert_name(name: str) -> str:
    """Translates the name of a weight of ALBERT's encoder into that of google-research/albert.

    Args:
      name: its name in `transformers` with slashes, as `of_encoder` gives it, such as
        "albert/embeddings/word_embeddings".

    Returns:
      The original name, with slashes, such as "bert/embeddings/word_embeddings".

    Raises:
      KeyError: the layer has no such part.
    """
    name = name.replace("albert/", "bert/", 1)
    layer, layer_in_original = (
        "bert/encoder/albert_layer_groups/0/albert_layers/0/",
        "bert/encoder/transformer/group_0/inner_group_0/",
    )
    if not name.startswith(layer):
        return name
    part, _, weight = name.removeprefix(layer).rpartition("/")
    return f"{layer_in_original}{_ORIGINAL_ALBERT[part]}/{weight}"


def _dense(dense: Dense | keras.layers.Dense, *scopes: str) -> list[Named]:
    """Names the weights of a dense layer, which may be several layers in one."""
    return [
        Named(dense.kernel, [f"{scope}/kernel" for scope in scopes]),
        Named(dense.bias, [f"{scope}/bias" for scope in scopes]),
    ]


def _norm(norm: LayerNorm, scope: str) -> list[Named]:
    """Names the weights of a LayerNorm, in a scope."""
    return [Named(norm.gamma, [f"{scope}/gamma"]), Named(norm.beta, [f"{scope}/beta"])]
