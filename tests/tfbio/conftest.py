"""Two logical CPU devices, and real examples, for the tests of the models."""

import dataclasses
import io

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import tf_keras as keras

from data_prep import sentence_roles
from data_prep.sentences import vocabulary_training
from tests import made_once, task_types
from tests.pretraining_runs import eagerly, of_one_layer, small_settings
from tfbio.base import json_files
from tfbio.base.manifests import read_manifest
from tfbio.base.shards import read_shard
from tfbio.base.tf_example import parse_example
from tfbio.models import target
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.runs import pretraining
from tfbio.task_types import finetuning_config, types
from tfbio.task_types.finetuning_config import FinetuningConfig, RunConfig
from tfbio.task_types.finetuning_files import TrialScores
from tfbio.task_types.inference import make_model
from tfbio.task_types.trained_on import TrainedOn
from tfbio.text import tokenization, vocabularies, wordpiece
from tfbio.weights import hugging_face_weights, weight_names

# Before anything else starts TensorFlow: devices cannot be divided later.
CPU = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(CPU, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.config.threading.set_inter_op_parallelism_threads(1)


@pytest.fixture(scope="session")
def two_devices():
    """A strategy with two replicas, as on a machine with two GPUs."""
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


@pytest.fixture(scope="session")
def cpu():
    return tf.distribute.OneDeviceStrategy("/cpu:0")


@pytest.fixture
def for_tpu():
    """Chooses the form of the step for a TPU, when it is called, until the end of the test."""
    yield lambda: target.set_tpu(True)
    target.set_tpu(False)


@pytest.fixture
def bfloat16():
    """Layers compute in bfloat16."""
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    yield
    keras.mixed_precision.set_global_policy(before)


@pytest.fixture(scope="session")
def pretrain(examples_folder, cpu, tmp_path_factory):
    """Makes the folder of a pretraining run of two steps, once for each name."""

    def pretrain(settings, name):
        settings = dataclasses.replace(
            settings,
            train_batch_size=8,
            num_train_steps=2,
            num_warmup_steps=1,
            learning_rate=PretrainingConfig.learning_rate,
            run=PretrainingRun(num_eval_batches=1),
        )

        def make(folder):
            with eagerly():
                pretraining.pretrain(settings, [str(examples_folder)], str(folder / "model"), cpu)

        return str(made_once.folder(tmp_path_factory, name, make) / "model")

    return pretrain


@pytest.fixture(scope="session")
def pretrained(examples_folder, pretrain):
    """The folder of a pretraining run of two steps, with an encoder of two layers."""
    return pretrain(small_settings(examples_folder), "pretrained")


@pytest.fixture(scope="session")
def pretrained_layer(examples_folder, pretrain):
    """The same with an encoder of one layer, of which fine-tuning has half as much to trace."""
    return pretrain(of_one_layer(small_settings(examples_folder)), "pretrained_layer")


@pytest.fixture(scope="session")
def sentences(documents_folder):
    """Of real abstracts, the first 1,000."""
    manifest = read_manifest(documents_folder, "documents")
    found = []
    for shard in manifest.shards:
        for record in read_shard(documents_folder, shard):
            found += [text.decode() for text in parse_example(record)["sentences"]]
    return found[:1000]


@pytest.fixture(scope="session")
def awkward_texts():
    """What tokenizers in a graph may stumble over, beside real sentences."""
    return [
        "",
        " ",
        "  two  spaces, three   and one ",
        "tab\tand \t\tlines\r\n\n",
        "a" * 100,
        "a" * 101,
        "\u00e9" * 100,
        "\u00e9" * 101,
        "\U0001d6fc" * 101,
        "na\u00efve cafe\u0301 \u0130stanbul \u1e9e \u03a3\u03c2 A\u030a",
        "10\u207b\u00b2 cm\u00b2 \u2460 \u00b5m \ufb01n \u212b \u00bd\u2026",
        "\u65e5\u672c\u8a9eand\ud55c\uae00 \U00020000\U0002f800",
        "bell\x07 nul\0 zero\u200bwidth \ufffd\ufeff tab\tline\r\n\u00a0\u2028x",
        "[MASK] [CLS]text[SEP] [unused1] ##ing <s></s><mask> <pad>",
        "\u0301 \u0301a \U0001f9ec\U0001f600 \ue000",
        "Crohn's 's dogs' 'said' 's's. (a.b.) e.g., 1,000: \"why?\").'",
        "they're we've I'll I'd I'm can't 'tis!'s 's\t's  's a'sb'lls 're'rx' x'l",
        "''a'' ```b`` ''' 5''-OH",
        "It ended. ')\n",
    ]


@pytest.fixture(scope="session")
def characters():
    """All that are common, and of the others some, but for surrogates."""
    codes = [*range(0x3400), *range(0x3400, 0x110000, 61)]
    return [chr(code) for code in codes if not 0xD800 <= code < 0xE000]


@pytest.fixture(scope="session")
def small_shape(vocab_file):
    """Of an encoder that needs no training."""
    size = len(wordpiece.read_vocab(vocab_file))
    return EncoderConfig(size, 24, 32, 2, 4, 64, 64)


@pytest.fixture(scope="session")
def shallow_encoder(vocab_file, small_shape, tmp_path_factory):
    """The folder of an ELECTRA of Hugging Face's of one layer, with random weights.

    Fine-tuning starts from it as from a run of pretraining, and has half as much to trace.
    """
    folder = str(tmp_path_factory.mktemp("shallow") / "encoder")
    shape = dataclasses.replace(small_shape, num_hidden_layers=1)
    keras.utils.set_random_seed(0)
    names = weight_names.of_encoder(Encoder(shape), "electra")
    hugging_face_weights.write(folder, "ElectraModel", shape, names, vocab_file, True)
    return folder


@pytest.fixture(scope="session")
def make_finetuner(vocab_file, small_shape, sentences):
    """Makes a Finetuner for one of `task_types.TASK_TYPES`, and its windows."""
    shape = dataclasses.replace(small_shape, num_hidden_layers=1)

    def make(name, strategy, settings=task_types.SETTINGS):
        return task_types.make_finetuner(
            name, strategy, shape, str(vocab_file), sentences, settings
        )

    return make


@pytest.fixture
def make_trial(vocab_file, small_shape, tmp_path):
    """A trial of a fine-tuning run, with random weights that tell its inputs apart."""

    def make(
        task_type, labels, known, calibration=None, vocabulary=vocab_file, common=None, **changes
    ):
        size = tokenization.load_tokenizer(vocabulary).vocab_size
        shape = dataclasses.replace(small_shape, vocab_size=size)
        of_type = {task_type: types.TYPES[task_type].Settings(**changes)}
        settings = FinetuningConfig(**{"sequence_length": 48, **(common or {}), **of_type})
        made = types.make(task_type, labels, settings)
        keras.utils.set_random_seed(0)
        model = make_model(shape, made, settings)
        rng = np.random.default_rng(0)
        for variable in model.variables:
            variable.assign_add(rng.normal(0, 0.2, variable.shape))
        if not made.head_config(0.0).beam_size:
            model.head.bias.assign(tf.zeros_like(model.head.bias))
        if model.lstm is not None:  # whose outputs are small
            model.head.kernel.assign(10.0 * model.head.kernel)
        trial = tmp_path / "out" / "trial_0"
        trial.mkdir(parents=True)
        tf.train.Checkpoint(model=model).write(str(trial / "model"))
        name = made.calibration_name
        scores = TrialScores(calibration={name: calibration} if name else {})
        json_files.write(trial / "scores.json", scores)
        vocabularies.copy_vocabulary(vocabulary, trial.parent)
        written = json_files.extended(
            RunConfig,
            settings,
            init_checkpoint="model",
            encoder=shape,
            lower_case=vocabulary.suffix != ".json",
            family="electra",
            trained_on=TrainedOn(task_type, labels, made.new_text, **known),
        )
        finetuning_config.write(trial.parent / "config.json", written)
        return str(trial), written

    return make


@pytest.fixture(scope="session")
def roles_folder(documents_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("roles") / "sentence_roles"
    sentence_roles.make_sentence_roles(documents_folder, folder, held_out_fraction=0.3)
    return str(folder)


@pytest.fixture(scope="session")
def vocabulary_of_kind(sentences, vocab_file, tmp_path_factory):
    """The path of a vocabulary of each kind, all lower-case but byte_bpe's.

    "albert" is a unigram model like the one that ALBERT was published with: it does not fold case.
    """
    folder = tmp_path_factory.mktemp("vocabularies")
    paths = {kind: folder / f"{kind}.model" for kind in ("unigram", "bpe", "albert")}
    for kind in ("unigram", "bpe"):
        paths[kind].write_bytes(vocabulary_training.train_sentencepiece(sentences, kind, 1500)[0])
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(sentence.lower() for sentence in sentences),
        model_writer=model,
        vocab_size=1500,
        normalization_rule_name="nmt_nfkc",
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        num_threads=1,
        minloglevel=2,
    )
    paths["albert"].write_bytes(model.getvalue())
    tokens, merges = vocabulary_training.train_byte_bpe(sentences, 1500)
    (folder / "vocab.json").write_text(tokens, encoding="utf-8")
    (folder / "merges.txt").write_text(merges, encoding="utf-8")
    return {"wordpiece": vocab_file, "byte_bpe": folder / "vocab.json", **paths}


@pytest.fixture
def sentencepiece_for_transformers(monkeypatch):
    """`transformers` reads SentencePiece's models: 0.2.3 wants a newer protobuf than TensorFlow."""
    from google.protobuf import runtime_version

    monkeypatch.setattr(runtime_version, "ValidateProtobufRuntimeVersion", lambda *_: None)
