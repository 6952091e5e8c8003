"""Spans: Google's BERT has the same windows, targets and answers; gold fed back is gold."""

import collections
import dataclasses
import gzip
import json

import numpy as np
import pytest
import tensorflow as tf

from tests import reference, task_types
from tfbio.base import config
from tfbio.base.config import ConfigError, load
from tfbio.base.errors import UserError
from tfbio.formats import squad
from tfbio.formats.task_examples import Question
from tfbio.runs import finetuner, finetuning, finetuning_data
from tfbio.task_types import answer_metrics, packing, question_windows, task_table, types
from tfbio.task_types.common_settings import FinetuningRun
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.question_answering import QuestionAnswering
from tfbio.text import tokenization
from tfbio.weights import checkpoint_settings

KIND = QuestionAnswering()
FILES = ("cs224n_half_dev-v2.0.json.gz", "xquad.en.json.gz")


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.load_tokenizer(reference.PUBMEDBERT)


def question(context, *found, text="What?", name="q"):
    return Question(name, text, context, found, tuple(context.find(x) for x in found))


# --- Windows -------------------------------------------------------------------------------------


def test_electras_head_needs_two_segments(vocab_file):
    tokenizer = tokenization.load_tokenizer(vocab_file, segments=1)
    task_type = QuestionAnswering(settings=QuestionAnswering.Settings(head="electra"))
    with pytest.raises(config.ConfigError, match="needs an encoder with two segments"):
        task_type.features([question("in the cell", "cell")], tokenizer, 32)


def test_a_window_without_the_answer_has_cls_for_a_target(tokenizer):
    context = "protein " * 40 + "naloxone " + "protein " * 40
    asked = question(context, "naloxone", text="what " * 100)
    features = KIND.features([asked], tokenizer, 40)
    assert len(features.input_ids) > 3 and not features.per_token
    held = 0
    for ids, segments, target in zip(
        features.input_ids, features.segment_ids, features.per_window["targets"], strict=True
    ):
        tokens = [*map(tokenizer.backend.id_to_token, ids)]
        # Half of a short window is for the question.
        assert tokens[:20] == ["[CLS]"] + ["what"] * 18 + ["[SEP]"] and len(ids) <= 40
        assert segments.tolist() == [0] * 20 + [1] * (len(ids) - 20)
        if "naloxone" in tokens:
            held += 1
            assert target.tolist() == [tokens.index("naloxone")] * 2
        else:
            assert target.tolist() == [0, 0]
    assert held >= 1


# --- The same as Google's BERT, in Model Garden --------------------------------------------------


@pytest.fixture(scope="module")
def long_contexts(tokenizer, tmp_path_factory):
    """The questions on the longest contexts of SQuAD v2.0, as a file with one answer for each."""
    with gzip.open(reference.corpus(f"squad/{FILES[0]}"), "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    # From tokens back to the text Google's code gives up at [UNK].
    contexts = [paragraph["context"] for paragraph in paragraphs]
    encoded = tokenizer.encode(contexts)
    known = ["[UNK]" not in encoding.tokens for encoding in encoded]
    paragraphs = [own for own, is_known in zip(paragraphs, known, strict=True) if is_known]
    paragraphs = sorted(paragraphs, key=lambda own: -len(own["context"]))[:12]
    for paragraph in paragraphs:
        for qa in paragraph["qas"]:
            qa["answers"] = qa["answers"][:1]
    path = tmp_path_factory.mktemp("squad") / "long.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module", params=[256, 384])
def both(request, tokenizer, long_contexts):
    """Our questions and windows, and Google's examples and features."""
    from official.nlp.data import squad_lib
    from official.nlp.tools import tokenization as google

    length = request.param
    examples = squad_lib.read_squad_examples(long_contexts, True, True)
    googles = google.FullTokenizer(str(reference.PUBMEDBERT))
    theirs = []
    squad_lib.convert_examples_to_features(
        examples, googles, length, min(128, length // 3), 64, True, theirs.append
    )
    questions = squad.read(long_contexts)
    assert [x.id for x in questions] == [x.qas_id for x in examples]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(question_windows, "STRIDE", min(128, length // 3))
        features = KIND.features(questions, tokenizer, length)
    return questions, features, examples, theirs


def test_windows_and_targets_are_googles(both):
    questions, features, _, theirs = both
    assert len(features.input_ids) == len(theirs) > len(questions) > 99
    own_targets = 0
    for i, feature in enumerate(theirs):
        tokens = len(feature.tokens)
        assert features.input_ids[i].tolist() == feature.input_ids[:tokens]
        assert features.segment_ids[i].tolist() == feature.segment_ids[:tokens]
        assert features.example[i] == feature.example_index
        first = tokens - 1 - len(features.own[i])
        owned = {first + place: bool(own) for place, own in enumerate(features.own[i])}
        assert owned == feature.token_is_max_context, i
        assert features.per_window["targets"][i].tolist() == [
            feature.start_position,
            feature.end_position,
        ]
        own_targets += feature.start_position > 0
    assert own_targets > 50


def test_answers_are_googles(both):
    from official.nlp.data import squad_lib

    questions, features, examples, theirs = both
    rng = np.random.default_rng(0)
    outputs = [rng.normal(size=[len(ids), 2]).astype(np.float32) for ids in features.input_ids]
    Result = collections.namedtuple("Result", "unique_id start_logits end_logits")
    results = [
        Result(feature.unique_id, logits[:, 0].tolist(), logits[:, 1].tolist())
        for feature, logits in zip(theirs, outputs, strict=True)
    ]
    arguments = examples, theirs, results, 20, 30, True
    _, all_best, _ = squad_lib.postprocess_output(*arguments)
    _, _, odds = squad_lib.postprocess_output(*arguments, version_2_with_negative=True)
    for own, found in zip(questions, KIND.predictions(outputs, features, questions), strict=True):
        assert found.null_odds == pytest.approx(odds[own.id], abs=1e-5)
        best = all_best[own.id]
        assert not [text for text in found.texts if text not in own.context]
        texts = [" ".join(text.split()) for text in found.texts]
        assert texts == [one["text"] for one in best]
        expected = [one["probability"] for one in best]
        np.testing.assert_allclose(found.probabilities, expected, rtol=1e-4)


# --- Gold ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [128, 384])
@pytest.mark.parametrize(
    "name, inside, too_long",
    [
        # "Japan" in "Japanese", which is one token, twice; answers of more than 30 tokens.
        (FILES[0], [("Japan", "Japanese")] * 2, 12),
        # An answer that stops within a number.
        (
            FILES[1],
            [("7,000,000 square kilometres (2,70", "7,000,000 square kilometres (2,700")],
            0,
        ),
    ],
    ids=["v2.0", "xquad"],
)
def test_gold_fed_back_is_the_answer(tokenizer, name, inside, too_long, length):
    questions = squad.read(str(reference.corpus(f"squad/{name}")))
    features = KIND.features(questions, tokenizer, length)
    assert features.lengths.max() == length and len(features.input_ids) > len(questions)
    outputs = []
    for ids, (start, end) in zip(features.input_ids, features.per_window["targets"], strict=True):
        logits = np.zeros([len(ids), 2], np.float32)
        logits[start, 0] = logits[end, 1] = 9
        outputs.append(logits)
    found = [
        "" if own.null_odds > 0 else own.best
        for own in KIND.predictions(outputs, features, questions)
    ]
    differing, long = [], 0
    for own, text in zip(questions, found, strict=True):
        assert text in own.context
        if text != (own.answers or ("",))[0]:
            answer = own.answers[0]
            count = len(tokenizer.encode([answer])[0].ids)
            if count > 30:
                long += 1
            else:
                differing.append((answer, text))
    assert (differing, long) == (inside, too_long)
    kept = [i for i, own in enumerate(questions) if found[i] == (own.answers or ("",))[0]]
    scores = answer_metrics.squad_scores(
        [questions[i].answers for i in kept], [found[i] for i in kept]
    )
    assert scores["exact_match"] == scores["f1"] == 1.0


@pytest.mark.parametrize("lower_case", [True, False], ids=["uncased", "cased"])
@pytest.mark.parametrize(
    "context, answer",
    [
        ("The syndrome of Sjögren affects naïve cells.", "Sjögren"),
        ("The cafe\u0301 of Ångström opened.", "cafe\u0301"),  # an accent of its own
        ("It was İstanbul first.", "İstanbul"),  # one character, two in lower case
        ("Of α-synuclein (SNCA), 日本 has most.", "α-synuclein (SNCA)"),
        ("A zero\u200bwidth space, a\u00a0hard one.", "zero\u200bwidth space"),
    ],
    ids=["composed", "combining", "dotted", "greek", "invisible"],
)
def test_an_answer_is_cut_from_the_original_text(lower_case, context, answer):
    path = reference.PUBMEDBERT
    tokenizer = tokenization.load_tokenizer(path, lower_case)
    features = KIND.features([question(context, answer)], tokenizer, 64)
    logits = np.zeros([len(features.input_ids[0]), 2], np.float32)
    start, end = features.per_window["targets"][0]
    logits[start, 0] = logits[end, 1] = 9
    (found,) = KIND.predictions([logits], features, [question(context, answer)])
    assert found.best == answer


# --- Loss ----------------------------------------------------------------------------------------


def made_up(count, seed=0):
    """Contexts of words among which one is a number, which is the answer; some have none."""
    rng = np.random.default_rng(seed)
    text = "the cells of patients with acute pain were treated and study group had low"
    words = text.split()
    found = []
    for number in range(count):
        context = list(rng.choice(words, int(rng.integers(3, 40))))
        answer = str(rng.integers(2, 90))
        if number % 4:
            context[int(rng.integers(len(context)))] = answer
        text = " ".join(context)
        answers = (answer,) if number % 4 else ()
        found.append(question(text, *answers, text="how many were treated", name=f"q{number}"))
    return found


def features_of(questions, tokenizer):
    features = KIND.features(questions, tokenizer, 32)
    assert len(features.input_ids) > len(questions)
    return features


@pytest.mark.parametrize("padded_length", [0, 32], ids=["packed", "padded"])
def test_the_loss_is_the_cross_entropy_of_each_piece_by_itself(tokenizer, padded_length):
    features = features_of(made_up(64), tokenizer)
    chosen = np.arange(24)
    (part,) = packing.Packer(features, 24, 1, 0, padded_length).batch(chosen)
    batch = {name: tf.constant(array) for name, array in part.arrays.items()}
    assert batch["targets"].shape == (24, 2)
    packed = not padded_length
    assert (batch["input_ids"].shape[0] < 24) == packed
    # Large, so that a softmax over all at once would overflow.
    logits = np.random.default_rng(0).normal(0, 60, [batch["input_ids"].shape.num_elements(), 2])
    logits = logits.astype(np.float32)
    for jit_compile in (False, True):
        step = tf.function(KIND.losses, jit_compile=jit_compile)
        losses, weights = step(tf.constant(logits), batch)
        expected = []
        for window, first in zip(chosen, part.arrays["first"], strict=True):
            scores = logits[first : first + len(features.input_ids[window])].astype(np.float64)
            log_sum = np.log(np.exp(scores - scores.max(0)).sum(0)) + scores.max(0)
            start, end = features.per_window["targets"][window]
            expected.append(np.mean([log_sum[0] - scores[start, 0], log_sum[1] - scores[end, 1]]))
        np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-5)
        assert weights.numpy().tolist() == [1.0] * 24


def test_the_gradient_is_finite_and_none_of_padding(tokenizer):
    features = features_of(made_up(64), tokenizer)
    (part,) = packing.Packer(features, 5, 1, 0).batch(np.arange(5))
    batch = {name: tf.constant(array) for name, array in part.arrays.items()}
    documents = part.arrays["document_ids"].ravel()
    logits = tf.random.stateless_normal([len(documents), 2], [0, 1], stddev=90.0)
    # Far above all of the windows.
    logits = tf.where((documents == 0)[:, None], 1e4, logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = tf.reduce_sum(KIND.losses(logits, batch)[0])
    gradient = tape.gradient(loss, logits).numpy()
    assert np.isfinite(gradient).all() and (documents == 0).any()
    assert not gradient[documents == 0].any()
    for number in range(1, 6):
        # Of a softmax less its target: the probabilities of a window sum to 1.
        np.testing.assert_allclose(gradient[documents == number].sum(0), 0, atol=1e-5)


# --- Training ------------------------------------------------------------------------------------

SETTINGS = FinetuningConfig(
    sequence_length=32,
    train_batch_size=16,
    learning_rate=3e-3,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


@pytest.fixture(scope="module")
def own(pretrained):
    """Made-up questions and their windows, for the pretrained encoder."""
    questions = made_up(64)
    return questions, features_of(questions, tokenization.load_tokenizer(f"{pretrained}/vocab.txt"))


def trained(own, pretrained, strategy, steps, pack=True):
    settings = dataclasses.replace(SETTINGS, run=FinetuningRun(pack=pack))
    shape = checkpoint_settings.read_encoder_config(pretrained)
    made = finetuner.Finetuner(settings, shape, KIND, 0, 200, strategy)
    made.initialize(0, pretrained)
    order = finetuning_data.training_order(len(own[1].input_ids), 0, steps, 16, seed=0)
    task_types.train(made, own[1], order)
    return made


@pytest.mark.slow
def test_answers_are_learnt_and_found(own, pretrained, cpu):
    questions, features = own
    made = trained(own, pretrained, cpu, 200, pack=False)
    outputs = made.predict(features)
    found = [
        "" if x.null_odds > 0 else x.best for x in KIND.predictions(outputs, features, questions)
    ]
    scores = answer_metrics.squad_scores([x.answers for x in questions], found)
    assert scores["has_answer_exact_match"] > 0.9 and scores["no_answer_exact_match"] > 0.9


@pytest.mark.slow
def test_packed_padded_and_on_two_devices_the_same_is_learnt(own, pretrained, cpu, two_devices):
    questions, features = own
    one = trained(own, pretrained, cpu, 4)
    expected = KIND.predictions(one.predict(features), features, questions)
    for other in (
        trained(own, pretrained, cpu, 4, pack=False),
        trained(own, pretrained, two_devices, 4),
    ):
        for a, b in zip(
            one.model.trainable_variables, other.model.trainable_variables, strict=True
        ):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=2e-4, err_msg=a.name)
        found = KIND.predictions(other.predict(features), features, questions)
        np.testing.assert_allclose(
            [x.null_odds for x in found], [x.null_odds for x in expected], atol=1e-2
        )


# --- From files to files -------------------------------------------------------------------------


def squad_file(path, questions):
    paragraphs = [
        {
            "context": x.context,
            "qas": [
                {
                    "id": x.id,
                    "question": x.question,
                    "answers": [
                        {"text": text, "answer_start": start}
                        for text, start in zip(x.answers, x.answer_starts, strict=True)
                    ],
                }
            ],
        }
        for x in questions
    ]
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")


def bioasq_file(path, questions):
    records = [
        {
            "id": f"b{x.id}",
            "type": "factoid",
            "body": x.question,
            "exact_answer": [[*x.answers, "another name"]],
            "snippets": [{"text": x.context}, {"text": "no number of patients"}],
        }
        for x in questions
    ]
    path.write_text(json.dumps({"questions": records}), encoding="utf-8")


@pytest.mark.slow
def test_factoids_start_from_squads_head_and_are_written_as_bioasq_has_them(
    pretrained, cpu, tmp_path, capsys
):
    from official.nlp.tools import squad_evaluate_v2_0 as official

    squad, bioasq = tmp_path / "squad", tmp_path / "bioasq"
    squad.mkdir()
    bioasq.mkdir()
    squad_file(squad / "train-v2.0.json", made_up(60))
    squad_file(squad / "dev-v2.0.json", made_up(20, seed=1))
    settings = dataclasses.replace(SETTINGS, num_trials=1, num_train_epochs=40.0)
    scores = finetuning.finetune(
        finetuning.Run(
            settings,
            task=task_table.find("qa", str(squad)),
            data_dir=str(squad),
            init_checkpoint=pretrained,
            output_dir=str(tmp_path / "qa"),
            strategy=cpu,
        )
    )
    trial = tmp_path / "qa" / "trial_0"
    # The official script reads what was written, and gives the same scores.
    predicted = json.loads((trial / "test_predictions.json").read_text(encoding="utf-8"))
    odds = json.loads((trial / "test_null_odds.json").read_text(encoding="utf-8"))
    data = json.loads((squad / "dev-v2.0.json").read_text(encoding="utf-8"))["data"]
    theirs = official.evaluate(data, predicted)
    assert odds.keys() == predicted.keys() and scores["metric"] == "f1"
    assert 100 * scores["mean"] == pytest.approx(theirs["f1"])
    threshold = scores["trials"][0]["calibration"]["null_threshold"]
    assert not [name for name, text in predicted.items() if (odds[name] > threshold) == bool(text)]
    # The threshold is of the last tenth of the training file.
    dev = json.loads((trial / "dev_predictions.json").read_text(encoding="utf-8"))
    assert list(dev) == [f"q{i}" for i in range(54, 60)]

    answered = [x for x in made_up(60, seed=2) if x.answers]
    bioasq_file(bioasq / "train.json", answered[:30])
    bioasq_file(bioasq / "test.json", answered[30:])
    short = dataclasses.replace(settings, num_train_epochs=1.0, learning_rate=1e-7)
    scores = finetuning.finetune(
        finetuning.Run(
            short,
            task=task_table.TASKS["bioasq_factoid"],
            data_dir=str(bioasq),
            init_checkpoint=str(trial),
            output_dir=str(tmp_path / "factoid"),
            strategy=cpu,
        )
    )
    assert "27 of 54 contexts to train on do not have the answer" in capsys.readouterr().out
    # With that learning rate nothing is learnt: what is known is SQuAD's, encoder and head.
    heads = [
        tf.train.load_checkpoint(str(tmp_path / run / "trial_0" / "model")).get_tensor(
            "model/head/kernel/.ATTRIBUTES/VARIABLE_VALUE"
        )
        for run in ("qa", "factoid")
    ]
    np.testing.assert_allclose(*heads, atol=1e-5)
    path = tmp_path / "factoid" / "trial_0" / "test_predictions.json"
    submitted = json.loads(path.read_text(encoding="utf-8"))["questions"]
    assert [x["id"] for x in submitted] == [f"b{x.id}" for x in answered[30:]]
    ranks = []
    for record, gold in zip(submitted, answered[30:], strict=True):
        assert record["type"] == "factoid" and 1 <= len(record["exact_answer"]) <= 5
        texts = [text for (text,) in record["exact_answer"]]
        ranks.append(1 / (texts.index(gold.answers[0]) + 1) if gold.answers[0] in texts else 0.0)
    assert scores["metric"] == "mrr" and scores["mean"] == pytest.approx(np.mean(ranks))


@pytest.mark.parametrize(
    ("said", "threshold"),
    [({}, None), ({"null_threshold": None}, None), ({"null_threshold": 0.0}, 0.0)],
)
def test_the_threshold_of_a_model_from_elsewhere(said, threshold):
    assert QuestionAnswering.calibration_in(said, "model") == threshold


@pytest.mark.parametrize("value", ["x", [1], {"a": 1}, True])
def test_a_threshold_that_is_no_number_is_refused(value):
    with pytest.raises(UserError, match=r"^model/config.json has null_threshold = .*a number"):
        QuestionAnswering.calibration_in({"null_threshold": value}, "model")


def test_a_question_leaves_room_for_a_context():
    settings = load(FinetuningConfig, "", ["question_answering.max_query_length=124"])
    words = "max_query_length 124 leaves no room .*: give 123 or less"
    with pytest.raises(ConfigError, match=words):
        types.make("question_answering", (), settings)


def test_a_head_goes_on_from_one_with_the_same_layers(make_trial, cpu, capsys):
    """BioASQ's from SQuAD's: BioMegatron's two layers, too."""
    changes = {"head": "mlp", "mlp_layers": 2, "mlp_size": 24}
    trial, written = make_trial("question_answering", [], {"pairs": False}, **changes)
    before = checkpoint_settings.read_settings(trial)
    made = types.make("question_answering", (), written)
    assert made.continues_head(before)
    model = finetuner.Finetuner(written, written.encoder, made, 0, 1, cpu)
    saved = tf.train.load_checkpoint(f"{trial}/model")
    names = [f"mlp/hidden/{n}/kernel" for n in (0, 1)] + ["head/kernel"]
    expected = [saved.get_tensor(f"model/{x}/.ATTRIBUTES/VARIABLE_VALUE") for x in names]
    for with_head in (True, False):
        model.initialize(3, trial, with_head)
        found = [layer.kernel.numpy() for layer in (*model.model.mlp.hidden, model.model.head)]
        same = [np.array_equal(*pair) for pair in zip(found, expected, strict=True)]
        assert same == [with_head] * 3
    assert not capsys.readouterr().out
    for name, value in (("mlp_size", 16), ("mlp_layers", 1), ("head", "bert")):
        other = {**changes, name: value} if name != "head" else {}
        group = QuestionAnswering.Settings(**other)
        other = types.make("question_answering", (), FinetuningConfig(question_answering=group))
        assert not other.continues_head(before), (name, value)
        said = f"has question_answering.{name} {changes[name]}: the head starts anew."
        assert said in capsys.readouterr().out, (name, value)


def test_a_window_that_ends_within_the_answer_has_cls_for_a_target(tokenizer):
    """It lacks the last token of the answer, in whose place it has [SEP]."""
    context = "protein " * 18 + "naloxone protein" + " protein" * 20
    asked = question(context, "naloxone protein", text="what " * 100)
    features = KIND.features([asked], tokenizer, 40)
    first, *others = [own.tolist() for own in features.per_window["targets"]]
    assert tokenizer.backend.id_to_token(features.input_ids[0][38]) == "naloxone"
    assert first == [0, 0]
    assert [20 + 18 - 10, 20 + 19 - 10] in others


def test_electras_head_learns_no_answer_of_questions_and_not_of_windows(tokenizer):
    electra = QuestionAnswering(settings=QuestionAnswering.Settings(head="electra"))
    context = "protein " * 40 + "naloxone " + "protein " * 40
    features = electra.features([question(context, "naloxone"), question(context)], tokenizer, 40)
    targets = np.array(features.per_window["targets"])
    assert (targets[features.example == 0, :2] == 0).all(axis=1).any()
    np.testing.assert_array_equal(targets[:, 2], features.example)
