"""What our weights are called elsewhere: in the original TensorFlow code, and by Hugging Face.

A walk through a model pairs each variable with its name in the checkpoints of google-research's
bert and electra. Hugging Face's names are these, written as PyTorch does: `hugging_face_name`. Of
RoBERTa and ALBERT the names are Hugging Face's, written as TensorFlow does.
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
from tfbio.objectives.masked_language_model import MaskedLanguageModelHead, SentencePairHead


class Named(NamedTuple):
    """A variable (or a value) and its original name, or those of the parts of its last axis."""

    variable: tf.Variable | tf.Tensor
    names: list[str]


# What Hugging Face does not call as the original does, but for the manner of writing.
RENAMED = {
    "generator_predictions/output_bias": "generator_lm_head/bias",
    "discriminator_predictions/dense_1/kernel": "discriminator_predictions/dense_prediction/kernel",
    "discriminator_predictions/dense_1/bias": "discriminator_predictions/dense_prediction/bias",
    "cls/predictions/output_bias": "cls/predictions/bias",
}


class TextHead(NamedTuple):
    """What a family's ForSequenceClassification of Hugging Face's has on the output for [CLS].

    Attributes:
      text_head: `text_layer` of `HeadConfig`, the same.
      pooler: the scope of the first of its two layers.
      output: that of the second.
    """

    text_head: str
    pooler: str
    output: str


TEXT_HEADS = {
    "albert": TextHead("tanh", "albert/pooler", "classifier"),
    "bert": TextHead("tanh", "bert/pooler/dense", "classifier"),
    "electra": TextHead("gelu", "classifier/dense", "classifier/out_proj"),
    "roberta": TextHead("tanh", "classifier/dense", "classifier/out_proj"),
}


def hugging_face_name(name: str) -> tuple[str, bool]:
    """Hugging Face's name for an original one, and whether the tensor is the transpose there."""
    transposed = name.endswith("/kernel")
    name = RENAMED.get(name, name)
    name = re.sub(r"/(kernel|gamma)$", "/weight", name)
    name = re.sub(r"/beta$", "/bias", name)
    name = re.sub(r"_embeddings$", "_embeddings/weight", name)
    name = re.sub(r"/layer_(\d+)/", r"/layer/\1/", name)
    return name.replace("/", "."), transposed


def of_electra(model: Electra) -> list[Named]:
    """Of generator and discriminator, as google-research/electra's pretraining saves them."""
    names = of_encoder(model.encoder, "electra")
    if model.generator_head is not None:
        generator = model.generator
        if generator is model.encoder:  # with `untied_generator` false
            return names + of_generator_head(model) + of_discriminator_head(model)
        if generator.embeddings is not model.encoder.embeddings:
            names += of_embeddings(generator.embeddings, "generator/embeddings")
        names += of_layers(generator, "generator")
        names += of_generator_head(model)
    return names + of_discriminator_head(model)


def of_generator_head(model: Electra) -> list[Named]:
    scope = "generator_predictions"
    return of_word_head(model.generator_head, scope, f"{scope}/output_bias")


def of_task_model(model: TaskModel, head_name: str, family: str) -> list[Named]:
    """Of a fine-tuned model, as Hugging Face's classes of a family have it.

    Args:
      model: with `token_layer` "linear"; if it is of texts, with the family's `text_layer`, or for
        ELECTRA's class also without one.
      head_name: see `TaskType.hugging_face_head`.
      family: of `TEXT_HEADS`.
    """
    head, names = TEXT_HEADS[family], of_encoder(model.encoder, family)
    if model.of_tokens:
        return names + _dense(model.head, head_name)
    if model.pooler is None:
        return names + of_text_head(model)
    return names + of_pooler(model.pooler, family) + _dense(model.head, head.output)


def of_pooler(pooler: keras.layers.Dense, family: str) -> list[Named]:
    """Of the first of the two layers on the output for [CLS]."""
    return _dense(pooler, TEXT_HEADS[family].pooler)


def of_text_head(model: TaskModel) -> list[Named]:
    """Of the layer on [CLS] as the two that `ElectraForSequenceClassification` has.

    The first of those has gelu, and gelu(x) - gelu(-x) = x (Phi(x) + Phi(-x)) = x. So it makes the
    logits and their opposites, of which the second takes the differences. Outputs are at most half
    as many as the layer is wide.
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
    """Of what scores the words; its last weights are the token embeddings."""
    return [
        *_dense(head.dense, f"{scope}/dense"),
        *_norm(head.layer_norm, f"{scope}/{norm}"),
        Named(head.output_bias, [bias]),
    ]


def of_sentence_pair_head(head: SentencePairHead, pooler: str, classifier: str) -> list[Named]:
    return _dense(head.pooler, pooler) + _dense(head.classifier, classifier)


def of_discriminator_head(model: Electra) -> list[Named]:
    scope = "discriminator_predictions"
    return [
        *_dense(model.discriminator_dense, f"{scope}/dense"),
        *_dense(model.discriminator_output, f"{scope}/dense_1"),
    ]


def of_encoder(encoder: Encoder, scope: str) -> list[Named]:
    """Of embeddings and layers; `scope` is "generator", or the family as Hugging Face calls it."""
    return of_embeddings(encoder.embeddings, f"{scope}/embeddings") + of_layers(encoder, scope)


def of_embeddings(embeddings: Embeddings, scope: str) -> list[Named]:
    return [
        Named(embeddings.word, [f"{scope}/word_embeddings"]),
        Named(embeddings.position, [f"{scope}/position_embeddings"]),
        Named(embeddings.segment, [f"{scope}/token_type_embeddings"]),
        *_norm(embeddings.layer_norm, f"{scope}/LayerNorm"),
    ]


def of_layers(encoder: Encoder, scope: str) -> list[Named]:
    """Of what stands on the embeddings, with their projection."""
    if encoder.config.share_layers:
        return _of_shared_layer(encoder, f"{scope}/encoder")
    names = []
    if encoder.projection is not None:
        names += _dense(encoder.projection, f"{scope}/embeddings_project")
    for number, layer in enumerate(encoder.transformer_layers):
        prefix = f"{scope}/encoder/layer_{number}"
        attention = [f"{prefix}/attention/self/{part}" for part in ("query", "key", "value")]
        names += _dense(layer.query_key_value, *attention)
        names += _dense(layer.attention_output, f"{prefix}/attention/output/dense")
        names += _norm(layer.attention_norm, f"{prefix}/attention/output/LayerNorm")
        names += _dense(layer.intermediate, f"{prefix}/intermediate/dense")
        names += _dense(layer.output_dense, f"{prefix}/output/dense")
        names += _norm(layer.output_norm, f"{prefix}/output/LayerNorm")
    return names


def _of_shared_layer(encoder: Encoder, scope: str) -> list[Named]:
    """Of ALBERT's one layer and the projection before it."""
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


# What Hugging Face calls the parts of ALBERT's layer -> what google-research/albert does.
ORIGINAL_ALBERT = {
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
    """The original name of a weight of ALBERT's encoder, for Hugging Face's."""
    name = name.replace("albert/", "bert/", 1)
    layer, layer_in_original = (
        "bert/encoder/albert_layer_groups/0/albert_layers/0/",
        "bert/encoder/transformer/group_0/inner_group_0/",
    )
    if not name.startswith(layer):
        return name
    part, _, kind = name.removeprefix(layer).rpartition("/")
    return f"{layer_in_original}{ORIGINAL_ALBERT[part]}/{kind}"


def _dense(dense: Dense | keras.layers.Dense, *scopes: str) -> list[Named]:
    return [
        Named(dense.kernel, [f"{scope}/kernel" for scope in scopes]),
        Named(dense.bias, [f"{scope}/bias" for scope in scopes]),
    ]


def _norm(norm: LayerNorm, scope: str) -> list[Named]:
    return [Named(norm.gamma, [f"{scope}/gamma"]), Named(norm.beta, [f"{scope}/beta"])]
