"""Across rooms: fine-tuning against the recorded numbers of BioELECTRA's authors' code.

TFBIO_RECORDING names another folder of the recording's layout.
"""

import os
from pathlib import Path

import pytest
import tensorflow as tf

from scripts import parity
from scripts.parity_comparisons import compare, comparisons
from scripts.parity_differences import Largest
from scripts.parity_recording import KINDS, Recorded
from tests import reference
from tfbio.base import errors
from tfbio.task_types import answers, question_answering
from tfbio.task_types.multilabel import MultiLabel

FOLDER = Path(os.environ.get("TFBIO_RECORDING", reference.PARITY / "finetuning_tf1_tiny"))


def above(name: str, **mistakes) -> set[str]:
    """Returns the quantities that differ by more than their limits."""
    differences = compare(Recorded(FOLDER, name, **mistakes))
    return {difference.quantity for difference in differences if not difference.is_small}


@pytest.mark.parametrize("name", KINDS)
def test_all_is_as_recorded(name):
    differences = compare(Recorded(FOLDER, name))
    assert [difference for difference in differences if not difference.is_small] == []
    assert {difference.quantity.partition(" ")[0] for difference in differences} == {
        "features",
        "logits",
        "predictions",
        "sequence",
        "gradients,",
        "rates,",
        "losses,",
        "weights",
        "metrics,",
    } | ({"null"} if name == "qa" else set())


@pytest.mark.parametrize(
    "quantity, name, mistake",
    [
        ("features", "tagging", {"of_type": {"segment": 0}}),
        ("features", "tagging", {"of_type": {"early_cut": False}}),
        ("features", "regression", {"of_type": {"scale": 1.0}}),
        ("gradients", "pair", {"encoder_changes": {"hidden_act": "gelu_new"}}),
        ("gradients", "pair", {"encoder_changes": {"layer_norm_eps": 1e-6}}),
        ("losses", "classification", {"loss_reduction": "mean"}),
        ("weights", "classification", {"weight_decay_rate": 0.0}),
        ("rates", "classification", {"layerwise_lr_exponent": "electra"}),
        ("losses", "classification", {"adam_bias_correction": True}),
        ("weights", "classification", {"max_gradient_norm": 2.0}),
        ("losses", "qa", {"loss_reduction": "mean"}),
        ("gradients", "qa", {"encoder_changes": {"hidden_act": "gelu_new"}}),
        ("gradients", "qa", {"encoder_changes": {"layer_norm_eps": 1e-6}}),
        ("weights", "qa", {"weight_decay_rate": 0.0}),
        ("rates", "qa", {"layerwise_lr_exponent": "electra"}),
        ("predictions", "qa", {"of_type": {"max_answer_length": 2}}),
        ("features", "qa", {"of_type": {"doc_stride": 9}}),
        ("features", "qa", {"of_type": {"max_query_length": 4}}),
    ],
)
def test_mistakes_are_found(quantity, name, mistake):
    largest = Largest()
    assert any(
        difference.quantity.startswith(quantity) and not difference.is_small
        for _ in comparisons(Recorded(FOLDER, name, **mistake), largest)
        for difference in largest.differences.values()
    )


def test_mistakes_in_what_has_no_setting_are_found(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(question_answering, "NO_ANSWER_WEIGHT", 1.0)
        assert "losses, relative" in above("qa")
    with monkeypatch.context() as patch:  # the beam follows one start
        patch.setattr(answers, "_beam", lambda logits, size, own=answers._beam: own(logits, 1))
        assert "predictions" in above("qa")
    with monkeypatch.context() as patch:  # absence is no output of its own
        patch.setattr(MultiLabel, "absent", lambda self, outputs: outputs[:, 1::2] <= 0.5)
        assert above("multilabel") == {"metrics, relative"}


def test_gradients_are_compared_in_float64():
    """Anything in float32 on the way would change a difference of two losses by percents."""
    recorded = Recorded(FOLDER, "pair")
    part = recorded.part(recorded.train, recorded.batch(0))
    batch = {name: tf.constant(array) for name, array in part.arrays.items()}
    with recorded.in_float64():
        finetuner, seed, losses = recorded.finetuner, tf.constant([0, 0]), []
        _, gradients = finetuner._gradients(batch, seed)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        norm = float(tf.linalg.global_norm(gradients))
        size = 1e-5 / norm
        for factor in (size, -2 * size):
            for variable, own in zip(finetuner.model.trainable_variables, gradients, strict=True):
                variable.assign_add(factor * own)
            losses.append(float(finetuner._gradients(batch, seed)[0]))
    assert (losses[0] - losses[1]) / 2e-5 == pytest.approx(norm, rel=1e-5)


def test_a_folder_that_is_no_recording_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match="expected the folder of a recording"):
        parity.find_kinds(tmp_path)
    (tmp_path / "config.json").write_text('{"kinds": {"qa": {}, "pair": {}}}')
    assert parity.find_kinds(tmp_path) == ["pair", "qa"]
    assert parity.find_kinds(tmp_path, ["qa"]) == ["qa"]
    with pytest.raises(errors.UsageError, match="--kind=poems: .*; it has qa, pair"):
        parity.find_kinds(tmp_path, ["poems"])
    (tmp_path / "config.json").write_text('{"kinds": {"poems": {}}}')
    with pytest.raises(errors.UserError, match="the kind 'poems'"):
        parity.find_kinds(tmp_path)
