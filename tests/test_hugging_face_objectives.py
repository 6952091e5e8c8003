"""The steps of adversarial pretraining and of distillation that benchmarks compare with."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import torch

from benchmarks import hugging_face_pretraining as hugging_face
from benchmarks import pretraining
from benchmarks.hugging_face_adversarial import HuggingFaceAdversarial
from benchmarks.hugging_face_distillation import HuggingFaceStudent
from benchmarks.hugging_face_step import Masked
from benchmarks.pretraining_shapes import ROOT, SHAPES
from data_prep import examples
from data_prep.running import pipeline
from tests.hugging_face import padded_batch, save_model, small_model
from tests.test_hugging_face_mlm import SIZE, SPECIAL
from tests.tfbio.objectives import test_adversarial, test_distillation
from tests.tfbio.objectives.test_sentence_pairs import (
    PAIRS,
    POSITIONS,
    WEIGHTS,
    WITHOUT_DROPOUT,
    batch_of,
)
from tfbio.objectives import objective_cost
from tfbio.objectives.distillation_config import DistillationConfig
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.training import distribution
from tfbio.training.precision import own_policy
from tfbio.weights import hugging_face_settings


def settings_of(folder, **changes):
    """Our settings for a model in a folder of `transformers`."""
    shape = hugging_face_settings.read_shape(str(folder))
    return PretrainingConfig(objective="mlm", encoder=shape, sequence_length=9, **changes)


def masked_batch(ids):
    """Examples, and what of them is hidden."""
    masked_ids = torch.from_numpy(ids).long()
    for row, place in zip(*np.nonzero(WEIGHTS), strict=True):
        masked_ids[row, POSITIONS[row, place]] = SPECIAL.mask_id
    return Masked(masked_ids, torch.from_numpy(POSITIONS).long(), torch.from_numpy(WEIGHTS))


def assert_gradients(model, expected):
    """To 1e-4 of the largest number of each parameter; the bias of keys has a gradient of 0."""
    found = {name: each.grad.numpy() for name, each in model.named_parameters()}
    assert found.keys() == expected.keys()
    for name, theirs in expected.items():
        atol = 1e-4 * np.abs(theirs).max()
        np.testing.assert_allclose(found[name], theirs, rtol=0, atol=atol + 1e-6, err_msg=name)


def test_the_adversarial_step_has_the_losses_and_gradients_of_the_formula(tmp_path):
    peer = small_model("BertForPreTraining", **WITHOUT_DROPOUT, num_hidden_layers=2)
    save_model(peer, tmp_path)
    plain = test_adversarial.PLAIN
    own = settings_of(tmp_path, sentence_pair_head=True, sentence_pair_loss=True, adversarial=plain)
    model = HuggingFaceAdversarial(own, SPECIAL)
    model.model.load_state_dict(peer.state_dict())
    ids, mask, segments, _, _ = batch_of(peer)
    noise = np.random.default_rng(0).normal(0, 0.05, (*ids.shape, 24)).astype(np.float32)
    batch = [torch.from_numpy(each).long() for each in (ids, mask, segments, PAIRS)]
    loss = model.loss(*batch, masked_batch(ids), torch.from_numpy(noise))
    loss.backward()
    expected, _, gradients = test_adversarial.of_pytorch(peer, plain, noise)
    assert loss.item() == pytest.approx(expected[0], rel=1e-5)
    assert_gradients(model.model, gradients)


def test_the_student_has_the_losses_and_gradients_of_the_formula(tmp_path):
    """bio-lm's; a teacher with dropout, which it must not use."""
    larger = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 40}
    peers, own = {}, {}
    bio_lm = DistillationConfig(mlm_weight=5.0, kl_weight=2.0, temperature=1.5)
    for name, size in (("student", WITHOUT_DROPOUT), ("teacher", larger)):
        peers[name] = small_model("RobertaForMaskedLM", **size)
        save_model(peers[name], tmp_path / name)
        changes = {"distillation": bio_lm} if name == "student" else {}
        own[name] = settings_of(tmp_path / name, **changes)
    model = HuggingFaceStudent(own["student"], SPECIAL, teacher=own["teacher"])
    (teacher,) = model.teacher
    model.model.load_state_dict(peers["student"].state_dict())
    teacher.load_state_dict(peers["teacher"].state_dict())
    ids, mask, _ = padded_batch(peers["student"])
    batch = [torch.from_numpy(each).long() for each in (ids, mask)]
    loss = model.loss(*batch, masked_batch(ids))
    loss.backward()
    # A map to the teacher's size that no loss counts.
    none = type("Alignment", (), {"weights": [tf.ones([24, 32]), tf.zeros([32])]})
    expected, gradients = test_distillation.of_pytorch(*peers.values(), none, bio_lm)
    assert loss.item() == pytest.approx(expected[0], rel=1e-5)
    assert_gradients(model.model, {x: y for x, y in gradients.items() if "alignment" not in x})
    # It has no part in the optimizer, and stays as it is.
    before = teacher.lm_head.dense.weight.clone()
    model.take_step(model.loss, [*batch, None])
    assert torch.equal(teacher.lm_head.dense.weight, before)
    assert not teacher.training and model.model.training
    assert sum(map(torch.numel, model.parameters())) == sum(
        map(torch.numel, peers["student"].parameters())
    )


# --- In the benchmark ----------------------------------------------------------------------------


@pytest.fixture
def small_shapes(documents_folder, vocab_file, tmp_path):
    """The two shapes with tiny models, and the folder of their examples."""
    shapes = {}
    for name in ("adversarial_base_128", "distilled_base_128"):
        shape = SHAPES[name]
        small = {x: y for x, y in SIZE.items() if x != "vocab_size"}
        small["max_position_embeddings"] = 130
        changes = [f"encoder.{setting}={value}" for setting, value in small.items()]
        changes += ["learning_rate=0.01", "num_warmup_steps=0"]
        if shape.teacher:
            hparams = json.loads((ROOT / "hparams" / shape.teacher).read_text())
            hparams["encoder"] |= small | {"hidden_size": 20, "embedding_size": 20}
            hparams["sequence_length"] = 128
            (tmp_path / "teacher.json").write_text(json.dumps(hparams))
            names = ("embedding_size", "hidden_size", "num_hidden_layers", "intermediate_size")
            changes += [f"distillation.teacher_{each}={hparams['encoder'][each]}" for each in names]
            shape = dataclasses.replace(shape, teacher=str(tmp_path / "teacher.json"))
        shapes[name] = dataclasses.replace(shape, batch_size=4, changes=tuple(changes))
        pairs = {"objective": shape.pairs} if shape.pairs else {"packing": True}
        settings = examples.ExampleSettings(sequence_length=128, **pairs)
        examples.make_examples(
            documents_folder,
            vocab_file,
            tmp_path / shape.examples,
            settings,
            runner=pipeline.Runner(workers=1),
        )
    return shapes, tmp_path


def test_both_engines_train_in_both_formats(small_shapes, vocab_file, monkeypatch):
    shapes, folder = small_shapes
    words = vocab_file.read_text().splitlines()
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    rng, ends = np.random.default_rng(0), np.arange(0, 2001, 100)
    np.save(folder / "ids.npy", rng.integers(5, len(words), ends[-1]).astype(np.int32))
    np.save(folder / "offsets.npy", ends)
    # In a process of its own tfbio chooses the threads of TensorFlow, too.
    here = tf.distribute.OneDeviceStrategy("/cpu:0")
    monkeypatch.setattr(distribution, "make_strategy", lambda **options: here)
    for name, shape in shapes.items():
        for precision in pretraining.PRECISIONS:
            with own_policy():
                train = pretraining.tfbio_engine(shape, folder, precision)
            assert train(2)[0] == 8
            options = hugging_face.Options(1, packed=not shape.pairs)
            theirs = hugging_face.Training(shape, folder, precision, options)
            losses, take_step = [], theirs._model.take_step
            theirs._model.take_step = lambda *given, take=take_step, seen=losses: seen.append(
                float(take(*given))
            )
            assert theirs.train(20)[0] == 80
            assert np.mean(losses[-5:]) < np.mean(losses[:5]), (name, precision, losses)
        assert not shape.has_loss_of_labels


def test_a_step_costs_three_passes_or_a_teacher_more():
    """The share of the peak is computed from these, held against the model alone."""
    flops = {
        name: objective_cost.example_flops(SHAPES[name].config(30_522), 128)
        for name in (
            "bert_base_128",
            "adversarial_base_128",
            "roberta_base_128",
            "distilled_base_128",
        )
    }
    # Beside three passes and two gradients the one of the noise has no gradient of weights.
    assert 2.5 < flops["adversarial_base_128"] / flops["bert_base_128"] < 2.8
    # A forward pass through 24 layers of 1,024 beside three through 12 of 768.
    assert 2.0 < flops["distilled_base_128"] / flops["roberta_base_128"] < 2.3
