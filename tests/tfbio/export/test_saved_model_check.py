"""A SavedModel reads text as the model does, and is compared with it after loading."""

import dataclasses

import pytest
import tensorflow as tf

from tests import fine_tuned
from tfbio.export import saved_model
from tfbio.task_types.serving.served_questions import ServedQuestions
from tfbio.task_types.serving.served_texts import ServedTexts
from tfbio.task_types.serving.served_words import ServedWords

# For each form: a type of task, labels, what is known of it, and what is added to outputs.
FORMS = {
    ServedTexts: ("classification", ["no", "yes"], {"pairs": False}, {"probabilities": 1e-3}),
    ServedWords: (
        "tagging",
        ["O", "B", "I"],
        {"words": "punctuation", "entity_type": "Thing"},
        {"tags": "x", "word_count": 1},
    ),
    ServedQuestions: (
        "question_answering",
        [],
        {"pairs": False},
        {"answer": "x", "null_odds": 0.1},
    ),
}


@pytest.fixture(scope="session")
def small_shape(small_shape):
    """Has one layer, which is half as much to trace."""
    return dataclasses.replace(small_shape, num_hidden_layers=1)


@pytest.mark.parametrize("form", FORMS)
def test_a_model_that_gives_other_outputs_is_refused(form, make_trial, tmp_path, monkeypatch):
    *made_of, added = FORMS[form]
    trial, _ = make_trial(*made_of)
    true_compare, said = form.compare, []

    def compare(self, signature):
        """Compares the signature as it is, and with each output changed; then refuses it."""

        def with_other(name):
            def changed(**inputs):
                outputs = signature(**inputs)
                return {**outputs, name: outputs[name] + added[name]}

            return changed

        said.append(true_compare(self, signature))
        said.extend(true_compare(self, with_other(name)) for name in added)
        return False

    monkeypatch.setattr(form, "compare", compare)
    with pytest.raises(saved_model.SavedModelError, match="gives other outputs than the model"):
        saved_model.write(trial, str(tmp_path / "serving"))
    assert said == [True, *[False] * len(added)]
    assert not list(tmp_path.glob("serving*"))


def test_an_encoder_of_text_as_it_is_lower_cases_none(tmp_path):
    fine_tuned.make(tmp_path / "model", "BertModel", num_hidden_layers=1)
    fine_tuned.make_cased(tmp_path / "model")
    folder = saved_model.write(str(tmp_path / "model"), str(tmp_path / "serving"))
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    vocabulary = (tmp_path / "model" / "vocab.txt").read_text().splitlines()
    found = serve(text=tf.constant(["Give THE drug"]))["input_ids"].numpy()[0]
    assert [vocabulary[i] for i in found] == ["[CLS]", "Give", "[UNK]", "drug", "[SEP]"]
