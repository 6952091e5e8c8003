"""The settings of a prediction are checked before the model is read."""

import pytest

from tfbio.base.config import ConfigError
from tfbio.runs import prediction_flags

# A value of each that is not its default.
VALUES = {
    "run.precision": "float32",
    "run.optimize_for": "cpu",
    "run.eval_batch_size": 7,
    "run.pack": "false",
    "run.fixed_shapes": "always",
    "question_answering.beam_size": 5,
    "question_answering.doc_stride": 64,
    "question_answering.n_best_size": 7,
    "question_answering.max_answer_length": 7,
}


def test_all_settings_of_a_prediction_may_be_given():
    assert sorted(VALUES) == sorted(prediction_flags.SETTINGS)
    prediction_flags.check_settings([f"{name}={value}" for name, value in VALUES.items()])


@pytest.mark.parametrize(
    "text", ["run.precison=float32", "run.precision=float16", "question_answering.beam_size=no"]
)
def test_a_mistake_in_them_is_refused(text):
    with pytest.raises(ConfigError):
        prediction_flags.check_settings([text])
