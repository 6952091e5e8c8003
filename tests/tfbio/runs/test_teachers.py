"""Runs of a student with its teacher: resumed, refused, and exported without it."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests.pretraining_runs import scalars, weights
from tests.run_files import write_pretraining_settings
from tfbio.base.config import ConfigError
from tfbio.base.errors import UserError
from tfbio.base.manifests import read_manifest
from tfbio.export import conversion
from tfbio.objectives.distillation import Student
from tfbio.objectives.distillation_config import DistillationConfig
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.runs import pretraining, teachers
from tfbio.weights import checkpoint_weights

ALIGNED = DistillationConfig(mlm_weight=5.0, kl_weight=2.0, cosine_weight=1.0)


@pytest.fixture(scope="module")
def student(shallow):
    """The settings of a student of one layer, in four steps."""
    # As wide as its embeddings, which BERT's class in `transformers` asks for.
    encoder = dataclasses.replace(shallow.encoder, embedding_size=48)
    run = dataclasses.replace(shallow.run, save_checkpoints_steps=2)
    return dataclasses.replace(
        shallow,
        objective="mlm",
        encoder=encoder,
        distillation=ALIGNED,
        num_train_steps=4,
        run=run,
    )


def write_model(folder, settings, vocabulary, seed, of_text):
    """Writes a masked language model with random weights as a run has it."""
    folder.mkdir()
    keras.utils.set_random_seed(seed)
    plain = dataclasses.replace(settings, distillation=DistillationConfig())
    model = MaskedLanguageModel(plain)
    tf.train.Checkpoint(model=model).write(str(folder / "ckpt-1"))
    (folder / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"\n')
    write_pretraining_settings(folder, plain, **of_text)
    shutil.copy(vocabulary, folder)
    return model


@pytest.fixture(scope="module")
def write(examples_folder):
    """Writes a model with the examples' vocabulary, or with another one."""
    sha256 = read_manifest(examples_folder, "examples").settings["vocab_sha256"]

    def write(folder, settings, vocab_sha256=sha256, seed=0, lower_case=True):
        own = {"vocab_sha256": vocab_sha256, "lower_case": lower_case}
        return write_model(folder, settings, examples_folder / "vocab.txt", seed, own)

    return write


@pytest.fixture(scope="module")
def larger(student):
    """The settings of a teacher, which is wider and has a layer more."""
    encoder = dataclasses.replace(
        student.encoder, embedding_size=56, hidden_size=56, num_hidden_layers=2
    )
    return dataclasses.replace(student, encoder=encoder)


@pytest.fixture(scope="module")
def teacher(larger, write, tmp_path_factory):
    """The folder of a teacher, and its model."""
    folder = tmp_path_factory.mktemp("teacher") / "model"
    return str(folder), write(folder, larger, seed=3)


@pytest.fixture(scope="module")
def finished(student, teacher, examples_folder, cpu, tmp_path_factory):
    """The folder of a whole run."""
    folder = str(tmp_path_factory.mktemp("distilled") / "model")
    arguments = (student, [str(examples_folder)], folder, cpu)
    pretraining.pretrain(*arguments, teacher=teacher[0])
    return folder


def saved(folder, name):
    """Returns the values in a run's checkpoint that have a name, without Adam's averages."""
    values = weights(folder).items()
    return [value for key, value in values if f"{name}/.ATTR" in key and "OPTIMIZER" not in key]


def test_logs_every_loss(finished):
    for part in ("train", "heldout"):
        curves = scalars(finished, part)
        for (_, loss), (_, mlm), (_, kl), (_, cosine) in zip(
            *(curves[name] for name in ("loss", "mlm_loss", "kl_loss", "cosine_loss")), strict=True
        ):
            assert loss == pytest.approx(5 * mlm + 2 * kl + cosine, rel=1e-5), part
            assert mlm > 0 and kl > 0 and 0 < cosine < 2, part


def test_a_run_that_stopped_continues_with_the_same_weights(
    finished, student, teacher, examples_folder, cpu, tmp_path
):
    """And with a teacher that has moved to another folder."""
    stopped, moved = str(tmp_path / "model"), str(tmp_path / "moved")
    shutil.copytree(finished, stopped)
    shutil.copytree(teacher[0], moved)
    for path in Path(stopped).glob("ckpt-4*"):
        path.unlink()
    Path(stopped, "checkpoint").write_text('model_checkpoint_path: "ckpt-2"\n')
    pretraining.pretrain(student, [str(examples_folder)], stopped, cpu, teacher=moved)
    expected, continued = weights(finished), weights(stopped)
    assert expected.keys() == continued.keys()
    # The map, with Adam's averages, and nothing of the teacher.
    assert sum("/alignment/" in name for name in expected) == 2 * 3
    assert not [name for name in expected if "teacher" in name]
    assert {value.shape for value in saved(finished, "word_embeddings")} == {
        (student.encoder.vocab_size, 48)
    }
    for name, value in expected.items():
        np.testing.assert_array_equal(continued[name], value, err_msg=name)


def test_a_teacher_that_changed_is_refused(
    finished, student, larger, write, examples_folder, cpu, tmp_path
):
    write(tmp_path / "other", larger, seed=4)
    arguments = (student, [str(examples_folder)], finished, cpu)
    with pytest.raises(
        UserError, match="other has other weights than those that the run in .* beg"
    ):
        pretraining.pretrain(*arguments, teacher=str(tmp_path / "other"))
    with pytest.raises(ConfigError, match="--teacher is missing: the settings have a loss of dist"):
        pretraining.pretrain(*arguments)


def test_the_student_is_exported_without_teacher_and_map(finished, student, tmp_path):
    """To a BERT of `transformers` with the student's own weights, and no other tensors."""
    import transformers

    conversion.to_hugging_face(finished, str(tmp_path / "converted"))
    model, found = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path / "converted", output_loading_info=True
    )
    assert not any(found.values()), found
    words = model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(words, *saved(finished, "word_embeddings"))
    assert len(model.base_model.encoder.layer) == student.encoder.num_hidden_layers
    card = Path(tmp_path, "converted", "README.md").read_text(encoding="utf-8")
    assert "It also learnt from the teacher `model`." in card


def test_a_teacher_may_be_in_the_form_of_transformers(
    teacher, student, examples_folder, cpu, tmp_path
):
    folder, model = teacher
    converted = str(tmp_path / "converted")
    conversion.to_hugging_face(folder, converted)
    sha256 = read_manifest(examples_folder, "examples").settings["vocab_sha256"]
    for place in (folder, converted):
        settings = teachers.with_sizes(student, place).distillation
        assert settings.teacher_hidden_size == settings.teacher_embedding_size == 56
        assert (settings.teacher_num_hidden_layers, settings.teacher_intermediate_size) == (2, 96)
        loaded = teachers.load(place, sha256, True, cpu)
        for value, expected in zip(loaded.variables, model.variables, strict=True):
            np.testing.assert_array_equal(value, expected, err_msg=expected.name)


def test_a_teacher_whose_table_is_padded_teaches_a_student_from_scratch(
    student, larger, write, examples_folder, cpu, tmp_path
):
    """As that of Megatron-LM, to a multiple of 128; the student has as many rows."""
    rows = student.encoder.vocab_size + 3

    def padded(settings):
        encoder = dataclasses.replace(settings.encoder, vocab_size=rows)
        return dataclasses.replace(settings, encoder=encoder, num_train_steps=1)

    folder = tmp_path / "teacher"
    write(folder, padded(larger))
    given = (padded(student), [str(examples_folder)], str(tmp_path / "model"), cpu)
    pretraining.pretrain(*given, teacher=str(folder))
    assert [len(values) for values in saved(tmp_path / "model", "word_embeddings")] == [rows]


def test_a_student_begins_with_the_weights_of_a_masked_language_model(
    student, teacher, finished, write, tmp_path
):
    """Its map is new; and what a student has learnt goes on without a teacher."""
    before = write(tmp_path / "start", student, seed=5)
    model = Student(student, teacher[1])
    own = [variable.numpy() for variable in model.alignment.variables]
    checkpoint_weights.restore_model(str(tmp_path / "start"), model)
    for value, expected in zip(model.trainable_variables, before.trainable_variables, strict=False):
        np.testing.assert_array_equal(value, expected)
    for value, expected in zip(model.alignment.variables, own, strict=True):
        np.testing.assert_array_equal(value, expected)
    plain = MaskedLanguageModel(dataclasses.replace(student, distillation=DistillationConfig()))
    checkpoint_weights.restore_model(finished, plain)
    np.testing.assert_array_equal(plain.head.output_bias, *saved(finished, "output_bias"))


def test_teachers_that_do_not_fit_are_refused(
    student, larger, write, examples_folder, cpu, tmp_path
):
    model_dir = tmp_path / "model"

    def refuse(words, name, encoder=None, settings=student, **options):
        folder = tmp_path / name
        if encoder is not None:
            changed = dataclasses.replace(larger.encoder, **encoder)
            lengths = {"sequence_length": min(64, changed.max_sequence_length)}
            write(folder, dataclasses.replace(larger, encoder=changed, **lengths), **options)
        with pytest.raises(UserError, match=words):
            pretraining.pretrain(
                settings, [str(examples_folder)], str(model_dir), cpu, teacher=str(folder)
            )
        assert not model_dir.exists()

    refuse("was trained with another vocabulary than that of the ex", "other", {}, vocab_sha256="0")
    refuse("on text with its capital letters.* --nolower_case", "cased", {}, lower_case=False)
    refuse("scores 70 tokens, and the student .*=70 with examples", "small", {"vocab_size": 70})
    refuse("takes at most 32 tokens, and the run", "short", {"max_position_embeddings": 32})
    # Of the whole run, which stops before its second phase.
    run = dataclasses.replace(student.run, stop_at_step=1)
    lengths = {"sequence_length": 32, "final_sequence_length": 64, "final_phase_fraction": 0.5}
    stopped = dataclasses.replace(student, run=run, **lengths)
    refuse("and the run has examples of 64: give a", "short", None, stopped)
    size = dataclasses.replace(ALIGNED, teacher_hidden_size=1024)
    wanted = dataclasses.replace(student, distillation=size)
    refuse("teacher_hidden_size is 1024, but that of --teacher=.* is 56: ", "wide", {}, wanted)
    (tmp_path / "electra").mkdir()
    write_pretraining_settings(tmp_path / "electra", PretrainingConfig())
    refuse("electra holds no masked language model: give the folder of a run with obj", "electra")
    without = dataclasses.replace(student, distillation=DistillationConfig())
    refuse("goes with a loss of distillation: give --set distillation.kl_w", "x", None, without)


def test_a_teacher_with_byte_level_bpe_may_say_another_case(larger, write, cpu, tmp_path):
    """Its vocabulary keeps capital letters, whatever the settings say."""
    folder = tmp_path / "teacher"
    write(folder, larger, vocab_sha256="0", lower_case=False)
    with pytest.raises(UserError, match="was trained on text with its capital letters"):
        teachers.load(str(folder), "0", True, cpu)
    (folder / "vocab.txt").unlink()
    (folder / "vocab.json").write_text("{}")
    (folder / "merges.txt").write_text("")
    assert teachers.load(str(folder), "0", True, cpu) is not None
