"""Pretrained models as `transformers` loads them, and as they come from there."""

import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from tests.hugging_face import compute, padded_batch, save_model, small_model
from tests.pretraining_runs import model_at_start
from tests.run_files import write_run
from tfbio.base.errors import UserError
from tfbio.base.manifests import read_manifest
from tfbio.export import comparison, conversion
from tfbio.models import task_model
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import HeadConfig
from tfbio.objectives import electra, masked_language_model
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.runs import finetuning, pretraining
from tfbio.task_types import task_table
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.text import vocabularies
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.weights import checkpoint_settings, checkpoint_weights, fine_tuned


def read(folder):
    settings, model = conversion.read_model(folder)
    vocab = vocabularies.find_vocabulary(folder)
    return settings, model, load_fast_tokenizer(vocab, True), vocab


@pytest.fixture(scope="module")
def plain(examples_folder, vocab_file, tmp_path_factory):
    """Runs of the plain masked language model, with random weights, by the embeddings' size."""
    words = read_manifest(examples_folder, "examples").settings["vocab_size"]

    def make(embedding_size):
        settings = PretrainingConfig(
            objective="mlm",
            encoder=EncoderConfig(words, embedding_size, 48, 1, 4, 96, 64),
            sequence_length=64,
            train_batch_size=8,
            num_train_steps=2,
            run=PretrainingRun(num_eval_batches=1),
        )
        model = masked_language_model.MaskedLanguageModel(settings)
        rng = np.random.default_rng(0)
        for variable in model.variables:
            variable.assign_add(rng.normal(0, 0.2, variable.shape))
        return write_run(tmp_path_factory.mktemp("plain"), settings, model, vocab_file)

    return make


EVERY_HEAD = (
    "BertForMaskedLM",
    "BertForPreTraining",
    "ElectraForMaskedLM",
    "RobertaForMaskedLM",
    "AlbertForMaskedLM",
    "AlbertForPreTraining",
    "MegatronBertForMaskedLM",
    "MegatronBertForPreTraining",
)
# Embeddings as wide as the layers: ALBERT has a layer between them all the same, others have none.
AS_WIDE = ("ElectraForMaskedLM", "AlbertForMaskedLM")
# What is in `generator/`, beside the folder of an ElectraForPreTraining.
GENERATORS = {
    "no generator": None,
    "embeddings in common": {"hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 40},
    "embeddings of its own": {"hidden_size": 16, "num_attention_heads": 2},
    "as large embeddings of its own": {"hidden_size": 12, "num_attention_heads": 1},
    "the same encoder": {},
}
# In config.json what a model computes with does not depend on.
NOT_IN_EFFECT = ("_name_or_path", "transformers_version", "architectures")


def with_generator(name):
    """A discriminator and, in the folder of its name, a generator."""
    discriminator = small_model("ElectraForPreTraining")
    if GENERATORS[name] is None:
        return {"": discriminator}
    generator = small_model("ElectraForMaskedLM", **GENERATORS[name])
    embeddings, encoder = discriminator.electra.embeddings, discriminator.electra
    if name == "embeddings in common":
        generator.electra.embeddings.load_state_dict(embeddings.state_dict())
    elif name == "the same encoder":
        generator.electra.load_state_dict(encoder.state_dict())
    else:
        generator.electra.embeddings.position_embeddings.weight.data += 1.0
    return {"": discriminator, "generator": generator}


def round_trip(models, folder):
    """Writes models, and compares with what comes through a run of ours, and what that computes."""
    import transformers

    source, run, back = (str(folder / name) for name in ("source", "run", "back"))
    for inner, model in models.items():
        save_model(model, folder / "source" / inner)
    conversion.to_tfbio(source, run)
    conversion.to_hugging_face(run, back)
    for place in (source, run, *(os.path.join(back, inner) for inner in models)):
        assert checkpoint_settings.read_settings(place)["lower_case"] is False
    batch = padded_batch(models[""])
    mask = batch[1] == 1
    settings, ours = conversion.read_model(run)
    logits = [
        values.numpy()
        for values in comparison.pretraining_logits(ours, tuple(map(tf.constant, batch)))
    ]
    # And fine-tuning takes it.
    encoder = Encoder(checkpoint_settings.read_encoder_config(run))
    checkpoint_weights.restore_encoder(run, encoder)
    for one, other in zip(encoder.variables, ours.encoder.variables, strict=True):
        np.testing.assert_array_equal(one, other)
    expected = []
    for inner, model in models.items():
        before, after = (
            safetensors.numpy.load_file(Path(place, inner, "model.safetensors"))
            for place in (source, back)
        )
        assert before.keys() == after.keys()
        for name, tensor in before.items():
            np.testing.assert_array_equal(after[name], tensor, name)
        again = load(transformers, type(model).__name__, os.path.join(back, inner))
        known, found = model.config.to_dict(), again.config.to_dict()
        for name in NOT_IN_EFFECT:
            known.pop(name), found.pop(name)
        assert found == known
        outputs, once_more = compute(model, batch), compute(again, batch)
        for name, values in outputs.items():
            np.testing.assert_allclose(once_more[name], values, atol=1e-5)
            expected.append(values)
    for one, other in zip(logits, expected, strict=True):
        seen = mask if one.shape[:2] == mask.shape else slice(None)
        np.testing.assert_allclose(one[seen], other[seen], atol=1e-5)
    return settings, ours


@pytest.mark.parametrize("architecture", EVERY_HEAD)
def test_every_head_comes_in_and_goes_out(architecture, tmp_path):
    settings, ours = round_trip({"": small_model(architecture)}, tmp_path)
    assert settings.objective == "mlm"
    assert settings.sentence_pair_head == architecture.endswith("ForPreTraining")
    # What no loss trains is not trained.
    trained = {variable.ref() for variable in ours.trainable_variables}
    kept = [variable for variable in ours.variables if variable.ref() not in trained]
    assert len(kept) == (4 if settings.sentence_pair_head else 0)


@pytest.mark.parametrize("architecture", AS_WIDE)
def test_a_model_of_bert_s_sizes_stays_of_its_family(architecture, tmp_path):
    _, ours = round_trip({"": small_model(architecture, embedding_size=24)}, tmp_path)
    assert (ours.encoder.projection is None) == architecture.startswith("Electra")


@pytest.mark.parametrize("name", GENERATORS)
def test_a_discriminator_comes_in_with_its_generator(name, tmp_path):
    settings, _ = round_trip(with_generator(name), tmp_path)
    assert settings.objective == "electra"
    assert settings.uniform_generator == (name == "no generator")
    assert settings.untied_generator_embeddings == ("of its own" in name)
    assert settings.untied_generator == (name != "the same encoder")


def test_the_numbers_of_positions_of_older_files_are_no_weights(tmp_path):
    """Until 4.30 `transformers` saved them, in integers, of discriminator and generator."""
    for inner, model in with_generator("embeddings in common").items():
        save_model(model, tmp_path / "source" / inner)
        path = tmp_path / "source" / inner / "model.safetensors"
        state = safetensors.numpy.load_file(path)
        state["electra.embeddings.position_ids"] = np.arange(48)[np.newaxis]
        safetensors.numpy.save_file(state, path, {"format": "pt"})
    conversion.to_tfbio(str(tmp_path / "source"), str(tmp_path / "run"))
    settings = checkpoint_settings.read_settings(str(tmp_path / "run"))
    assert not settings["untied_generator_embeddings"]


def test_what_a_run_cannot_hold_is_refused(tmp_path):
    def refused(words, models):
        shutil.rmtree(tmp_path / "source", ignore_errors=True)
        for inner, model in models.items():
            save_model(model, tmp_path / "source" / inner)
        with pytest.raises(UserError, match=words):
            conversion.to_tfbio(str(tmp_path / "source"), str(tmp_path / "run"))
        assert not (tmp_path / "run").exists()

    def make(architecture, **settings):
        return {"": small_model(architecture, **settings)}

    refused("holds a BertModel, and has no head of pretraining", make("BertModel"))
    # Their heads have the exact form all the same.
    refused(
        "has hidden_act = gelu, not gelu_new", make("RobertaForMaskedLM", hidden_act="gelu_new")
    )
    refused(
        "has hidden_act = gelu, not gelu_new", make("ElectraForMaskedLM", hidden_act="gelu_new")
    )
    pair = with_generator("embeddings in common")
    larger = small_model("ElectraForMaskedLM", hidden_size=48)
    refused("a generator that is larger", {**pair, "generator": larger})
    other = small_model("ElectraForMaskedLM", vocab_size=50)
    refused("vocab_size = 50: a generator's is its disc", {**pair, "generator": other})


def test_what_no_class_can_hold_is_refused(tmp_path):
    bert = tmp_path / "bert"
    save_model(small_model("BertModel"), bert)

    def run(**settings):
        settings = PretrainingConfig(sequence_length=8, **settings)
        kind = electra.Electra
        if settings.objective == "mlm":
            kind = masked_language_model.MaskedLanguageModel
        return write_run(tmp_path / "run", settings, kind(settings), bert / "vocab.txt")

    def refused(words, **settings):
        source, target = run(**settings), tmp_path / "out"
        with pytest.raises(UserError, match=words):
            conversion.to_hugging_face(source, str(target))
        assert not target.exists()

    shape = EncoderConfig(60, 12, 24, 1, 4, 48, 16)
    offset = dataclasses.replace(shape, position_offset=2)
    shared = dataclasses.replace(shape, share_layers=True)
    tanh = dataclasses.replace(shape, hidden_act="gelu_new")
    first = dataclasses.replace(shape, layer_norm_first=True)
    refused("of type electra .* position_offset = 0, not 2", encoder=offset)
    refused("of type electra .* share_layers = False, not True", encoder=shared)
    refused("of type electra .* layer_norm_first = False, not True", encoder=first)
    refused("of type megatron-bert .* embedding_size = 24, not 12", objective="mlm", encoder=first)
    refused("of type roberta .* embedding_size = 24, not 12", objective="mlm", encoder=offset)
    refused("of type electra .* hidden_act = gelu, not gelu_new", objective="mlm", encoder=tanh)
    wide = dataclasses.replace(offset, embedding_size=24)
    refused("vocab.txt has padding at 0, after which", objective="mlm", encoder=wide)
    refused(
        "has a classifier of sentence pairs",
        objective="mlm",
        encoder=shape,
        sentence_pair_head=True,
    )


def load(transformers, architecture, folder):
    """As a user does; no weight may be missing, left over, or of another shape."""
    model, found = getattr(transformers, architecture).from_pretrained(
        folder, output_loading_info=True
    )
    assert not any(found.values()), found
    return model.eval()


def word_logits(model, head, encoder, ids):
    """Ours of all positions, float32 [batch, length, words]."""
    ids = tf.constant(ids)
    hidden = encoder(ids, tf.ones_like(ids), tf.zeros_like(ids))
    return head(hidden, encoder.embeddings.word).numpy()


def test_transformers_computes_what_we_do(pretrained, tmp_path):
    import torch
    import transformers

    folder = str(tmp_path / "converted")
    conversion.to_hugging_face(pretrained, folder)
    settings, model, encoder, _ = read(pretrained)
    discriminator = load(transformers, "ElectraForPreTraining", folder)
    generator = load(transformers, "ElectraForMaskedLM", f"{folder}/generator")

    rng = np.random.default_rng(0)
    ids = rng.integers(5, settings.encoder.vocab_size, [4, 32]).astype(np.int32)
    with torch.no_grad():
        inputs = {"input_ids": torch.tensor(ids, dtype=torch.long)}
        replaced = discriminator(**inputs).logits.numpy()
        words = generator(**inputs).logits.numpy()
    batch = {"input_ids": tf.constant(ids), "input_mask": tf.ones([4, 32], tf.int32)}
    batch["segment_ids"] = tf.zeros_like(batch["input_ids"])
    zeros = tf.zeros([4, 1], tf.int32)
    masked = MaskedBatch(batch["input_ids"], zeros, zeros, tf.zeros([4, 1]))
    output = model(batch, masked, tf.constant([0, 0]), corrupted_ids=batch["input_ids"])
    np.testing.assert_allclose(replaced, output.discriminator_logits, atol=1e-5)
    ours = word_logits(model, model.generator_head, model.generator, ids)
    np.testing.assert_allclose(words, ours, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "embedding_size, architecture", [(48, "BertForMaskedLM"), (32, "ElectraForMaskedLM")]
)
def test_a_masked_language_model_too(plain, embedding_size, architecture, tmp_path):
    import torch
    import transformers

    run, folder = plain(embedding_size), str(tmp_path / "converted")
    conversion.to_hugging_face(run, folder)
    settings, model, _, _ = read(run)
    ids = np.random.default_rng(0).integers(5, settings.encoder.vocab_size, [4, 32])
    with torch.no_grad():
        found = load(transformers, architecture, folder)(torch.tensor(ids)).logits.numpy()
    ours = word_logits(model, model.head, model.encoder, ids.astype(np.int32))
    np.testing.assert_allclose(found, ours, atol=1e-5)


def test_weights_that_the_disk_has_no_room_for_are_named(pretrained, tmp_path, largest_file):
    with largest_file(50_000), pytest.raises(OSError) as error:
        conversion.to_hugging_face(pretrained, str(tmp_path / "model"))
    assert error.value.filename == f"{tmp_path}/model.unfinished/model.safetensors"
    assert not (tmp_path / "model").exists()


def test_the_tokenizer_goes_along(pretrained, sentences, tmp_path):
    import transformers

    folder = str(tmp_path / "converted")
    conversion.to_hugging_face(pretrained, folder)
    _, _, encoder, vocab = read(pretrained)
    assert Path(folder, "vocab.txt").read_bytes() == vocab.read_bytes()
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    assert theirs.model_max_length == 64
    assert len(sentences) == 1000
    ours, offsets = encoder(sentences)
    for sentence, own in zip(sentences, np.split(ours, offsets[1:-1]), strict=True):
        expected = [encoder.cls_id, *own, encoder.sep_id]
        assert theirs(sentence)["input_ids"] == expected
    # And with what an old `transformers` reads alone.
    Path(folder, "tokenizer.json").unlink()
    slow = transformers.BertTokenizer(str(Path(folder, "vocab.txt")), do_lower_case=True)
    assert [slow(s)["input_ids"] for s in sentences] == [theirs(s)["input_ids"] for s in sentences]


def test_a_converted_discriminator_can_be_fine_tuned(pretrained, tmp_path):
    folder = str(tmp_path / "converted")
    conversion.to_hugging_face(pretrained, folder)
    before = checkpoint_settings.read_settings(pretrained)
    after = checkpoint_settings.read_settings(folder)
    assert after["lower_case"] == before["lower_case"]
    assert checkpoint_settings.read_encoder_config(
        folder
    ) == checkpoint_settings.read_encoder_config(pretrained)
    encoders = [Encoder(checkpoint_settings.read_encoder_config(folder)) for _ in range(2)]
    for place, encoder in zip((pretrained, folder), encoders, strict=True):
        checkpoint_weights.restore_encoder(place, encoder)
    for one, other in zip(*(encoder.variables for encoder in encoders), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_pretraining_goes_on_from_what_transformers_has(
    pretrained, examples_folder, cpu, tmp_path, plain
):
    """Trains with so small a rate that no weight moves."""
    converted = str(tmp_path / "converted")
    conversion.to_hugging_face(pretrained, converted)
    shutil.copytree(converted, tmp_path / "alone")
    settings, model, _, _ = read(pretrained)
    settings = dataclasses.replace(settings, learning_rate=1e-30)
    arguments = ([str(examples_folder)], str(tmp_path / "model"), cpu)
    pretraining.pretrain(settings, *arguments, init_checkpoint=converted)
    _, after, _, _ = read(str(tmp_path / "model"))
    for one, other in zip(model.variables, after.variables, strict=True):
        np.testing.assert_array_equal(one, other)

    def refused(words, settings, folder):
        new = ([str(examples_folder)], str(tmp_path / "new"), cpu)
        with pytest.raises(UserError, match=words):
            pretraining.pretrain(settings, *new, init_checkpoint=str(folder))

    larger = dataclasses.replace(settings, generator_hidden_fraction=1.0)
    refused("another generator than the settings ask for", larger, converted)
    own = Path(converted, "generator", "model.safetensors")
    tensors = safetensors.numpy.load_file(own)
    name = "electra.embeddings.LayerNorm.bias"
    safetensors.numpy.save_file(tensors | {name: tensors[name] + 1.0}, own)
    refused("has embeddings of its own: give --set untied_gen", settings, converted)
    shutil.rmtree(tmp_path / "alone" / "generator")
    refused(r"holds no generator: put .* or give --set gener", settings, tmp_path / "alone")
    (tmp_path / "alone" / "vocab.txt").write_text("[PAD]\n")
    refused(
        "with another vocabulary",
        dataclasses.replace(settings, uniform_generator=True),
        tmp_path / "alone",
    )

    # BERT, too.
    run = plain(48)
    conversion.to_hugging_face(run, str(tmp_path / "bert"))
    settings, model, _, _ = read(run)
    conversion.to_tfbio(str(tmp_path / "bert"), str(tmp_path / "run"))
    for start in ("bert", "run"):
        after = model_at_start(settings, examples_folder, str(tmp_path / start), cpu)
        for one, other in zip(model.variables, after.variables, strict=True):
            np.testing.assert_array_equal(one, other)


# --- Fine-tuned models ---------------------------------------------------------------------------


TAGGED = "Give\tO\nIL-2\tB\nreceptor\tI\n.\tO\n\n"


@pytest.fixture
def fine_tuned_trial(shallow_encoder, cpu, tmp_path):
    """Fine-tunes a tagging model, and returns the folder of its trial."""
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(TAGGED)
    finetuning.finetune(
        finetuning.Run(
            FinetuningConfig(
                sequence_length=32, train_batch_size=2, num_trials=1, num_train_epochs=4.0
            ),
            task=task_table.find("ner", str(tmp_path)),
            data_dir=str(tmp_path),
            init_checkpoint=shallow_encoder,
            output_dir=str(tmp_path / "out"),
            strategy=cpu,
        )
    )
    return str(tmp_path / "out" / "trial_0")


@pytest.mark.parametrize(
    "name, architecture, labels",
    [
        ("a tagging run", "ElectraForTokenClassification", ["O", "B-Entity", "I-Entity"]),
        ("classification", "ElectraForSequenceClassification", ["no", "yes"]),
        ("question_answering", "ElectraForQuestionAnswering", None),
    ],
)
def test_fine_tuned_models_compute_what_ours_do(
    name, architecture, labels, make_trial, request, tmp_path
):
    import torch
    import transformers

    if name == "a tagging run":
        trial = request.getfixturevalue("fine_tuned_trial")
    else:  # whose folders are as those of a run
        trial, _ = make_trial(name, labels or [], {"pairs": False})
    folder = str(tmp_path / "converted")
    conversion.to_hugging_face(trial, folder)
    theirs = load(transformers, architecture, folder)
    outputs = len(labels or "12")
    ours = task_model.TaskModel(
        checkpoint_settings.read_encoder_config(trial),
        HeadConfig(outputs, name != "classification"),
    )
    fine_tuned.restore(trial, ours)
    ids = np.random.default_rng(0).integers(5, 100, [3, 16])
    with torch.no_grad():
        found = theirs(torch.tensor(ids))
    rows = np.repeat(np.arange(1, 4)[:, None], 16, axis=1)
    batch = {
        "input_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "document_ids": rows,
        "position_ids": np.tile(np.arange(16), [3, 1]),
        "first": np.arange(3) * 16,
    }
    logits = ours({key: tf.constant(value, tf.int32) for key, value in batch.items()}).numpy()
    if labels is None:
        start_and_end = np.stack([found.start_logits.numpy(), found.end_logits.numpy()], axis=-1)
        np.testing.assert_allclose(start_and_end.reshape(-1, 2), logits, atol=1e-5)
        return
    np.testing.assert_allclose(found.logits.numpy().reshape(logits.shape), logits, atol=1e-5)
    assert list(theirs.config.id2label.values()) == labels
    assert theirs.config.label2id == {label: number for number, label in enumerate(labels)}


def test_heads_that_transformers_lacks_are_refused(make_trial, tmp_path):
    known = {"entity_type": "Thing", "words": "blanks"}
    trial, _ = make_trial("tagging", ["O", "B", "I"], known, head="crf")
    words = "head crf .* only what is linear"
    with pytest.raises(fine_tuned.FineTunedError, match=words):
        conversion.to_hugging_face(trial, str(tmp_path / "no"))


# --- Damaged weights, and other outputs ----------------------------------------------------------


def test_the_newest_checkpoint_that_is_there_is_taken(pretrained, tmp_path, capsys):
    """As pretraining does; and a damaged one is named with its remedy."""
    run, path = tmp_path / "run", tmp_path / "run" / "ckpt-3"
    shutil.copytree(pretrained, run)
    for file in run.glob("ckpt-2.*"):
        shutil.copy(file, run / file.name.replace("ckpt-2", "ckpt-3"))
    both = "".join(f'all_model_checkpoint_paths: "ckpt-{step}"\n' for step in (2, 3))
    (run / "checkpoint").write_text('model_checkpoint_path: "ckpt-3"\n' + both)
    data = run / "ckpt-3.data-00000-of-00001"
    for broken in (b"", data.read_bytes()[:-1000], None):
        data.unlink() if broken is None else data.write_bytes(broken)
        with pytest.raises(UserError, match=f"{path} is damaged .*: remove {path}.*ckpt-2"):
            conversion.to_hugging_face(str(run), str(tmp_path / "out"))
        assert not (tmp_path / "out").exists()
    (run / "ckpt-3.index").unlink()
    conversion.to_hugging_face(str(run), str(tmp_path / "out"))
    conversion.to_hugging_face(pretrained, str(tmp_path / "same"))
    said = capsys.readouterr().out
    assert said.count(f"{path} is gone: the newest checkpoint left is {run}/ckpt-2.") == 1
    one, other = (Path(tmp_path, name, "model.safetensors") for name in ("out", "same"))
    assert one.read_bytes() == other.read_bytes()
    encoders = [Encoder(checkpoint_settings.read_encoder_config(pretrained)) for _ in range(2)]
    for place, encoder in zip((pretrained, str(run)), encoders, strict=True):
        checkpoint_weights.restore_encoder(place, encoder)  # as fine-tuning does
    for one, other in zip(*(encoder.variables for encoder in encoders), strict=True):
        np.testing.assert_array_equal(one, other)


def test_outputs_that_differ_are_refused(pretrained, tmp_path, monkeypatch):
    from tfbio.weights import hugging_face_weights

    true_write = hugging_face_weights.write

    def wrong(folder, *arguments, **settings):
        from safetensors.numpy import load_file, save_file

        true_write(folder, *arguments, **settings)
        path = Path(folder, "model.safetensors")
        tensors = load_file(path)
        name = "electra.encoder.layer.1.output.dense.weight"
        save_file(tensors | {name: tensors[name] * 1.001}, path)

    monkeypatch.setattr(hugging_face_weights, "write", wrong)
    with pytest.raises(conversion.ConversionError, match="gives other outputs, by"):
        conversion.to_hugging_face(pretrained, str(tmp_path / "converted"))
    assert not (tmp_path / "converted").exists()
