"""Small models of TensorFlow 1 for tests: their files, and training on the recording."""

import json
import re
import shutil

import numpy as np
import tensorflow as tf

from tests import reference
from tests.parity import FOLDER, recorded_config
from tfbio.objectives import electra
from tfbio.training import optimization
from tfbio.training.gradients import apply_clipped

TINY_BERT = reference.corpus("tiny_checkpoints/keras_bert_tf1")
PAIR_KERNEL = "cls/seq_relationship/output_weights"


def tensors(path):
    reader = tf.train.load_checkpoint(path)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def bert_with_averages_of_pairs(folder):
    """Writes TINY_BERT with Adam's first averages of its pair head; returns prefix and tensors."""
    theirs = tensors(str(TINY_BERT / "bert_model.ckpt"))
    averages = np.random.default_rng(0).random(theirs[PAIR_KERNEL].shape, np.float32)
    theirs[f"{PAIR_KERNEL}/adam_m"] = averages
    prefix = str(folder / "bert_model.ckpt")
    save(prefix, theirs)
    return prefix, theirs


def save(prefix, tensors):
    """Writes tensors by name as a checkpoint of TensorFlow 1."""
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def make():
    """A model and its optimizer, as the recorded run had them."""
    config = recorded_config()
    rate = optimization.WarmupLinearDecay(
        config.learning_rate, config.num_train_steps, config.num_warmup_steps
    )
    optimizer = optimization.Adam(rate, weight_decay_rate=config.weight_decay_rate)
    return electra.Electra(config), optimizer


def train(model, optimizer, recording, step, seen):
    """One step on the recorded batch; returns the loss."""
    with tf.GradientTape() as tape:
        output = model(
            recording.batch,
            recording.masked(seen),
            tf.constant([0, 0]),
            corrupted_ids=recording.corrupted(seen),
        )
    assert int(optimizer.iterations) == step
    gradients = tape.gradient(output.loss, model.trainable_variables)
    apply_clipped(optimizer, gradients, model.trainable_variables, 1.0)
    return float(output.loss)


def original_name(name):
    """Returns google-research/bert's name for a tensor of Hugging Face's, and if it is turned."""
    turned = name.endswith((".dense.weight", "query.weight", "key.weight", "value.weight"))
    name = re.sub(r"layer\.(\d+)", r"layer_\1", name).replace("cls.seq_relationship.", "cls.seq.")
    for theirs, original in {
        "cls.predictions.bias": "cls.predictions.output_bias",
        "cls.seq.weight": "cls.seq_relationship.output_weights",
        "cls.seq.bias": "cls.seq_relationship.output_bias",
        "LayerNorm.weight": "LayerNorm.gamma",
        "LayerNorm.bias": "LayerNorm.beta",
        "_embeddings.weight": "_embeddings",
    }.items():
        name = re.sub(f"{re.escape(theirs)}$", original, name)
    if turned:
        name = name.removesuffix("weight") + "kernel"
    return name.replace(".", "/"), turned


def hugging_face_bert(shape, **options):
    import torch
    import transformers

    torch.manual_seed(0)
    model = transformers.BertForPreTraining(transformers.BertConfig(**shape, **options))
    with torch.no_grad():
        for parameter in model.parameters():  # large, that activations may tell themselves apart
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def save_original(model, prefix):
    """Writes the tensors of a `BertForPreTraining` as the original code does."""
    named = {}
    for name, tensor in model.state_dict().items():
        if "decoder" not in name and "position_ids" not in name:  # the word embeddings again
            original, turned = original_name(name)
            named[original] = tf.constant(tensor.numpy().T if turned else tensor.numpy())
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(named),
        shape_and_slices=[""] * len(named),
        tensors=list(named.values()),
    )
    return named.keys()


def copy_recording(folder, *steps, heads=4):
    """A folder as ELECTRA's code leaves it, and the heads that no tensor tells."""
    folder.mkdir()
    for step in steps:
        for path in FOLDER.glob(f"model.ckpt-{step}.*"):
            shutil.copy(path, folder)
    shutil.copy(FOLDER / "vocab.txt", folder)
    if heads:
        text = json.dumps({"hidden_size": 48, "num_attention_heads": heads})
        (folder / "config.json").write_text(text)
    return folder


# As google-research/albert's modeling.py and run_pretraining.py name them, by Hugging Face's.
ALBERT_LAYER = {
    "attention.query": "attention_1/self/query",
    "attention.key": "attention_1/self/key",
    "attention.value": "attention_1/self/value",
    "attention.dense": "attention_1/output/dense",
    "attention.LayerNorm": "LayerNorm",
    "ffn": "ffn_1/intermediate/dense",
    "ffn_output": "ffn_1/intermediate/output/dense",
    "full_layer_layer_norm": "LayerNorm_1",
}


ALBERT_REST = {
    "albert.embeddings.word_embeddings": "bert/embeddings/word_embeddings",
    "albert.embeddings.position_embeddings": "bert/embeddings/position_embeddings",
    "albert.embeddings.token_type_embeddings": "bert/embeddings/token_type_embeddings",
    "albert.embeddings.LayerNorm": "bert/embeddings/LayerNorm",
    "albert.encoder.embedding_hidden_mapping_in": "bert/encoder/embedding_hidden_mapping_in",
    "albert.pooler": "bert/pooler/dense",
    "predictions.dense": "cls/predictions/transform/dense",
    "predictions.LayerNorm": "cls/predictions/transform/LayerNorm",
    "sop_classifier.classifier": "cls/seq_relationship",
}
