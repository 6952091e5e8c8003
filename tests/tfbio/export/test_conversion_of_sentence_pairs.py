"""A trained classifier of sentence pairs as `transformers` loads it: its labels stay the same."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.hugging_face import padded_batch, save_model, small_model
from tests.run_files import write_pretraining_settings
from tfbio.export import conversion
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretraining_config import PretrainingConfig


@pytest.mark.parametrize(
    ("architecture", "label"),
    [
        ("BertForPreTraining", "next_sentence_label"),
        ("AlbertForPreTraining", "sentence_order_label"),
        ("MegatronBertForPreTraining", "next_sentence_label"),
    ],
)
def test_a_trained_classifier_of_pairs_means_the_same(architecture, label, tmp_path):
    """Compares `transformers`' loss on the labels of the examples with the trained one."""
    import torch
    import transformers

    peer = small_model(architecture)
    save_model(peer, tmp_path / "peer")
    shape = EncoderConfig(
        *(60, 24, 24, 2, 4, 48, 16),
        share_layers=architecture.startswith("Albert"),
        layer_norm_first=architecture.startswith("Megatron"),
    )
    settings = PretrainingConfig(
        objective="mlm",
        encoder=shape,
        sequence_length=9,
        sentence_pair_head=True,
        sentence_pair_loss=True,
    )
    model = MaskedLanguageModel(settings)
    for number, variable in enumerate(model.variables):
        variable.assign_add(tf.random.normal(variable.shape, stddev=0.3, seed=number))
    folder = tmp_path / "run"
    folder.mkdir()
    tf.train.Checkpoint(model=model).write(str(folder / "ckpt-1"))
    (folder / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"\n')
    write_pretraining_settings(folder, settings, lower_case=False)
    shutil.copy(tmp_path / "peer" / "vocab.txt", folder)
    conversion.to_hugging_face(str(folder), str(tmp_path / "converted"))
    theirs, found = getattr(transformers, architecture).from_pretrained(
        tmp_path / "converted", output_loading_info=True
    )
    assert not any(found.values()), found
    theirs.eval()

    ids, mask, segments = padded_batch(peer)
    pairs, places = np.array([0, 1, 1], np.int32), np.array([[1], [3], [2]], np.int32)
    originals = np.take_along_axis(ids, places, axis=1)
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": segments, "label": pairs}
    masked = MaskedBatch(*map(tf.constant, (ids, places, originals, np.ones([3, 1], np.float32))))
    ours = model({name: tf.constant(x) for name, x in batch.items()}, masked, tf.constant([0, 0]))
    labels = np.full_like(ids, -100)
    np.put_along_axis(labels, places, originals, axis=1)
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
    inputs |= {"labels": labels, label: pairs}
    with torch.no_grad():
        as_long = {name: torch.tensor(x, dtype=torch.long) for name, x in inputs.items()}
        expected = theirs(**as_long).loss.item()
        as_long[label] = 1 - as_long[label]
        swapped = theirs(**as_long).loss.item()
    assert float(ours.loss) == pytest.approx(expected, rel=1e-5)
    assert float(ours.loss) != pytest.approx(swapped, rel=1e-3)
