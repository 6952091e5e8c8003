"""Examples: each once an epoch, continued where it stopped; and runs on examples of all kinds."""

import contextlib
import dataclasses
import functools
import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from data_prep import examples, vocabulary
from data_prep.running import pipeline
from tests.hugging_face import save_model, small_model
from tests.pretraining_runs import eagerly, scalars
from tfbio.base.errors import DataError, UserError
from tfbio.base.manifests import MANIFEST, read_manifest
from tfbio.base.shards import read_shard
from tfbio.base.tf_example import parse_example, serialize_example
from tfbio.export import conversion
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.runs import original_examples, pretraining, pretraining_data
from tfbio.text import vocabularies
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.weights import hugging_face_settings

BATCH = 8
ONE_WORKER = pipeline.Runner(workers=1)
PACKED_FEATURES = (*original_examples.FEATURES, "document_ids", "position_ids")


@pytest.fixture
def manifest(examples_folder):
    return read_manifest(examples_folder, "examples")


def batches(folder, manifest, first, last, seed=0):
    dataset = pretraining_data.training_dataset(
        str(folder), manifest, BATCH, seed, first_step=first, last_step=last
    )
    return [batch["input_ids"].numpy() for batch in dataset]


def test_an_epoch_holds_every_example_once(examples_folder, manifest):
    expected = [
        np.frombuffer(parse_example(record)["input_ids"][0], "<u2").tolist()
        for shard in manifest.shards_of("train")
        for record in read_shard(examples_folder, shard)
    ]
    steps = len(expected) // BATCH
    read = np.concatenate(batches(examples_folder, manifest, 0, steps)).tolist()
    assert len(read) > len(expected) - BATCH
    assert read != expected[: len(read)]
    left_out = sorted(map(tuple, expected))
    for row in map(tuple, read):
        left_out.remove(row)
    assert len(left_out) == len(expected) - len(read)


def test_every_epoch_and_every_seed_shuffles_a_shard_anew(examples_folder, manifest):
    one = dataclasses.replace(manifest, shards=manifest.shards_of("train")[:1])
    records = one.shards[0].records
    rows = np.concatenate(batches(examples_folder, one, 0, -(-2 * records // BATCH)))
    first, second = rows[:records], rows[records : 2 * records]
    assert sorted(map(tuple, first)) == sorted(map(tuple, second))
    assert (first != second).any(axis=1).mean() > 0.5
    (other,) = batches(examples_folder, one, 0, 1, seed=1)
    assert (rows[:BATCH] != other).any()


def test_continues_at_any_step_with_the_same_batches(examples_folder, manifest):
    epoch = sum(shard.records for shard in manifest.shards_of("train")) // BATCH
    last = 2 * epoch + 5
    whole = batches(examples_folder, manifest, 0, last)
    for first in (1, epoch // 2, epoch, epoch + 1, last - 1):
        continued = batches(examples_folder, manifest, first, last)
        assert len(continued) == last - first
        np.testing.assert_array_equal(continued, whole[first:])


def test_epochs_and_seeds_have_orders_of_their_own(examples_folder, manifest):
    epoch = sum(shard.records for shard in manifest.shards_of("train")) // BATCH
    whole = batches(examples_folder, manifest, 0, 2 * epoch)
    assert (whole[0] != whole[epoch]).any()
    assert (whole[0] != batches(examples_folder, manifest, 0, 1, seed=1)[0]).any()


def test_batches_are_static_int32(examples_folder, manifest):
    for dataset in (
        pretraining_data.training_dataset(str(examples_folder), manifest, BATCH, 0, 0, 5),
        pretraining_data.held_out_dataset(str(examples_folder), manifest, BATCH),
    ):
        for name in original_examples.FEATURES:
            spec = dataset.element_spec[name]
            assert spec.shape == [BATCH, 64] and spec.dtype == "int32", name


@pytest.fixture(scope="module")
def packed(packed_folder):
    """Packed examples, and their manifest."""
    return str(packed_folder), read_manifest(packed_folder, "examples")


@pytest.mark.parametrize("hosts", [2, 16])
def test_the_rows_of_all_hosts_are_the_global_batch_and_each_decodes_its_own(
    packed, monkeypatch, hosts
):
    """At a batch of 4,096, from the first step and from a later one, and on held-out examples."""
    folder, manifest = packed
    decoded, parse_example = [], tf.io.parse_example

    def counted(serialized, spec):
        def count(records):
            decoded.append(len(records))
            return records

        counting = tf.numpy_function(count, [serialized], tf.string)
        return parse_example(tf.ensure_shape(counting, serialized.shape), spec)

    def batches_of(dataset_of, pipelines):
        """Of each step the rows of all hosts, and how many records the busiest of them decoded."""
        per_host, most = [], 0
        for host in range(pipelines):
            decoded.clear()
            context = tf.distribute.InputContext(pipelines, host, 8 * pipelines)
            dataset = dataset_of(context)
            per_host.append(list(dataset.as_numpy_iterator()))
            most = max(most, sum(decoded))
        steps = [
            {name: np.concatenate([rows[name] for rows in step]) for name in step[0]}
            for step in zip(*per_host, strict=True)
        ]
        return steps, most

    monkeypatch.setattr(tf.io, "parse_example", counted)
    training = functools.partial(pretraining_data.training_dataset, folder, manifest, 4096, 0)
    held_out = functools.partial(pretraining_data.held_out_dataset, folder, manifest, 64)
    from_first, from_third = functools.partial(training, 0, 3), functools.partial(training, 2, 3)
    for dataset_of, size in ((from_first, 4096), (from_third, 4096), (held_out, 64)):
        whole, records_read = batches_of(dataset_of, 1)
        shared, most = batches_of(dataset_of, hosts)
        assert len(shared) == len(whole) > 0, size
        for expected, found in zip(whole, shared, strict=True):
            assert set(expected) == set(PACKED_FEATURES), size
            for name, rows in expected.items():
                assert len(rows) == size, name
                np.testing.assert_array_equal(found[name], rows, name)
        assert 0 < most <= records_read / hosts + size
        if dataset_of is from_first:
            third = shared[2]["input_ids"]
        elif dataset_of is from_third:
            np.testing.assert_array_equal(shared[0]["input_ids"], third)


def by_hand(record, length):
    """What a record says, token by token."""
    example = parse_example(record)
    ids = np.frombuffer(example["input_ids"][0], "<u2")
    lengths = np.frombuffer(example["segment_lengths"][0], "<u2").tolist()
    columns = {name: [0] * length for name in PACKED_FEATURES}
    columns["input_ids"] = ids.tolist()
    start = 0
    for document in range(len(lengths) // 2):
        first, second = lengths[2 * document : 2 * document + 2]
        for n in range(first + second):
            columns["input_mask"][start + n] = 1
            columns["segment_ids"][start + n] = int(n >= first)
            columns["document_ids"][start + n] = document + 1
            columns["position_ids"][start + n] = n
        start += first + second
    return columns


@pytest.mark.parametrize("packing", [False, True])
def test_features_are_what_the_record_says(documents_folder, vocab_file, tmp_path, packing):
    settings = examples.ExampleSettings(packing=packing, held_out_fraction=0.2, shards=1)
    runner = pipeline.Runner(workers=1)
    manifest = examples.make_examples(
        documents_folder, vocab_file, tmp_path / "out", settings, runner=runner
    )
    folder = str(tmp_path / "out")
    (shard,) = manifest.shards_of("heldout")
    expected = [by_hand(record, 128) for record in read_shard(folder, shard)]
    dataset = pretraining_data.held_out_dataset(folder, manifest, BATCH)
    names = PACKED_FEATURES if packing else original_examples.FEATURES
    count = 0
    for batch in dataset.as_numpy_iterator():
        assert set(batch) == set(names)
        for row in range(BATCH):
            for name in names:
                assert batch[name][row].tolist() == expected[count][name], name
            count += 1
    assert count == len(expected) // BATCH * BATCH > 20
    assert not [spec for spec in dataset.element_spec.values() if spec.shape != [BATCH, 128]]
    counts = pretraining_data.word_counts(folder, manifest)
    (shard,) = manifest.shards_of("train")
    tokens = sum(sum(by_hand(r, 128)["input_mask"]) for r in read_shard(folder, shard))
    assert counts.sum() == tokens


def test_a_shard_that_was_cut_is_named(examples_folder, manifest, tmp_path):
    folder = tmp_path / "examples"
    shutil.copytree(examples_folder, folder)
    shard = manifest.shards_of("train")[0]
    path = folder / shard.file
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=f"{shard.file} has .* bytes instead of"):
        pretraining_data.find_examples([str(folder)], [64], manifest.settings["vocab_size"])


@pytest.mark.parametrize("stop", [0, 500, 900, 950])
def test_a_run_that_stops_early_has_the_examples_of_the_whole(stop, examples_folder, tmp_path):
    manifest = read_manifest(examples_folder, "examples")
    # The same examples, said to be of another length.
    shorter = tmp_path / "shorter"
    shutil.copytree(examples_folder, shorter)
    said = json.loads((shorter / MANIFEST).read_text())
    said["settings"]["sequence_length"] = 32
    (shorter / MANIFEST).write_text(json.dumps(said))
    folders = [str(shorter), str(examples_folder)]
    whole = PretrainingConfig(
        encoder=EncoderConfig(vocab_size=manifest.settings["vocab_size"]),
        sequence_length=32,
        final_sequence_length=64,
        final_phase_fraction=0.1,
        num_train_steps=1000,
        run=PretrainingRun(stop_at_step=stop),
    )
    data = pretraining_data.find_data(whole, folders)
    assert [folder for folder, _ in data] == folders[: 2 if stop in (0, 950) else 1]
    if stop == 500:
        assert pretraining_data.find_data(whole, folders[:1]) == data


def test_what_does_not_fit_the_settings_is_refused(examples_folder, manifest, tmp_path):
    words = manifest.settings["vocab_size"]
    find = pretraining_data.find_examples
    with pytest.raises(DataError, match=r"of length 128, but --examples gives \[64\]"):
        find([str(examples_folder)], [128], words)
    with pytest.raises(DataError, match=f"--set encoder.vocab_size={words}"):
        find([str(examples_folder)], [64], words + 1)
    # A model from elsewhere may have more rows than the vocabulary of the examples, and not fewer.
    with pytest.raises(DataError, match=f"with a vocabulary of {words} tokens"):
        find([str(examples_folder)], [64], words - 1, may_be_padded=True)
    longer = tmp_path / "longer"
    shutil.copytree(examples_folder, longer)
    content = json.loads((longer / MANIFEST).read_text())
    content["settings"]["sequence_length"] = 128
    (longer / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(DataError, match="of length 128, which no phase of the settings has"):
        find([str(examples_folder), str(longer)], [64], words)
    with pytest.raises(DataError, match="fewer than one batch of 4096"):
        pretraining_data.held_out_dataset(str(examples_folder), manifest, 4096)
    empty = dataclasses.replace(manifest, shards=[])
    with pytest.raises(DataError, match="no training examples"):
        pretraining_data.training_dataset(str(examples_folder), empty, BATCH, 0, 0, 5)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_trains_on_packed_examples(shallow, packed, cpu, tmp_path, capsys, jit_compile):
    """Takes the objective that XLA compiles more quickly."""
    run = dataclasses.replace(shallow.run, jit_compile=jit_compile)
    short = dataclasses.replace(shallow, num_train_steps=4, run=run)
    if jit_compile:
        short = dataclasses.replace(short, objective="mlm")
    with contextlib.nullcontext() if jit_compile else eagerly():
        pretraining.pretrain(short, [packed[0]], str(tmp_path / "model"), cpu)
    said = capsys.readouterr().out.splitlines()
    assert ("compiling the training step ..." in said) == jit_compile
    assert ("tracing the training step ..." in said) != jit_compile
    logs = EventAccumulator(str(tmp_path / "model" / "logs" / "heldout"))
    logs.Reload()
    assert np.isfinite(tf.make_ndarray(logs.Tensors("loss")[-1].tensor_proto))


def test_trains_on_examples_of_the_original_code(shallow, examples_folder, cpu, tmp_path):
    manifest = read_manifest(examples_folder, "examples")
    shutil.copy(examples_folder / "vocab.txt", tmp_path)
    (tmp_path / "pretrain_tfrecords").mkdir()
    for number, shard in enumerate(manifest.shards):
        name = f"pretrain_data.tfrecord-{number}-of-{len(manifest.shards)}"
        with tf.io.TFRecordWriter(str(tmp_path / "pretrain_tfrecords" / name)) as writer:
            for record in read_shard(examples_folder, shard):
                example = parse_example(record)
                ids = np.frombuffer(example["input_ids"][0], "<u2").tolist()
                first, second = np.frombuffer(example["segment_lengths"][0], "<u2").tolist()
                rest = len(ids) - first - second
                features = {
                    "input_ids": ids,
                    "input_mask": [1] * (first + second) + [0] * rest,
                    "segment_ids": [0] * first + [1] * second + [0] * rest,
                }
                writer.write(serialize_example(features))
    short = dataclasses.replace(shallow, num_train_steps=2)
    model = str(tmp_path / "model")
    with eagerly():
        pretraining.pretrain(short, [str(tmp_path / "pretrain_tfrecords")], model, cpu)
    assert tf.train.latest_checkpoint(model).endswith("ckpt-2")
    assert Path(model, "vocab.txt").read_bytes() == (examples_folder / "vocab.txt").read_bytes()


def test_a_table_with_more_rows_than_tokens_comes_in_is_trained_and_goes_out(
    examples_folder, manifest, cpu, tmp_path
):
    """As Megatron-LM pads it: 30,592 rows for 30,522 tokens."""
    words, folders = manifest.settings["vocab_size"], [str(examples_folder)]
    architecture = "MegatronBertForPreTraining"
    peer = small_model(architecture, vocab_size=words + 70, max_position_embeddings=64)
    save_model(peer, tmp_path)
    shutil.copy(examples_folder / "vocab.txt", tmp_path)
    settings = PretrainingConfig(
        objective="mlm",
        encoder=hugging_face_settings.read_shape(str(tmp_path)),
        sequence_length=64,
        sentence_pair_head=True,
        frequency_biases=True,
        train_batch_size=2,
        num_train_steps=2,
        num_warmup_steps=0,
        run=PretrainingRun(num_eval_batches=1),
    )
    model, back = str(tmp_path / "model"), str(tmp_path / "back")
    with pytest.raises(DataError, match=f"--set encoder.vocab_size={words}, or other examples"):
        pretraining.pretrain(settings, folders, model, cpu)
    with eagerly():
        pretraining.pretrain(settings, folders, model, cpu, init_checkpoint=str(tmp_path))
    conversion.to_hugging_face(model, back)
    after, found = type(peer).from_pretrained(back, output_loading_info=True)
    assert not any(found.values()), found
    assert after.config.vocab_size == words + 70
    before, after = (x.bert.embeddings.word_embeddings.weight.detach() for x in (peer, after))
    assert before.shape == after.shape and not before.equal(after)
    # Another token in place of a masked one is a token of the vocabulary.
    tokenizer = load_fast_tokenizer(examples_folder / "vocab.txt")
    assert Pretrainer(settings, tokenizer, cpu).masking.vocab_size == words
    electra = dataclasses.replace(settings, objective="electra", sentence_pair_head=False)
    assert Pretrainer(electra, tokenizer, cpu).model.words == words


@pytest.mark.parametrize(
    "kind, files",
    [("byte_bpe", ["vocab.json", "merges.txt"]), ("unigram", ["vocab.model"])],
)
def test_trains_with_other_vocabularies(shallow, documents_folder, cpu, tmp_path, kind, files):
    vocab, folder = tmp_path / files[0], tmp_path / "examples"
    vocabulary.make_vocabulary(documents_folder, vocab, size=1500, kind=kind)
    made = examples.ExampleSettings(
        "full_sentences", sequence_length=64, held_out_fraction=0.2, shards=1
    )
    examples.make_examples(documents_folder, vocab, folder, made, runner=ONE_WORKER)
    other = dataclasses.replace(
        shallow,
        objective="mlm",
        mask_unit="word",
        encoder=dataclasses.replace(shallow.encoder, vocab_size=1500),
        num_train_steps=2,
    )
    model = str(tmp_path / "model")
    with eagerly():
        pretraining.pretrain(other, [str(folder)], model, cpu)
    assert scalars(model, "heldout")["loss"][-1][0] == 2
    for file in files:
        assert Path(model, file).read_bytes() == (tmp_path / file).read_bytes()
    # What is hidden ends where, by the kind's own mark of the space before a word, words end.
    encoder = load_fast_tokenizer(vocabularies.find_vocabulary(model))
    trainer = Pretrainer(other, encoder, cpu)
    manifest = read_manifest(folder, "examples")
    batch = next(iter(pretraining_data.held_out_dataset(str(folder), manifest, 16)))
    masked = trainer.mask(batch, tf.constant([0, 0]), None)
    if kind == "byte_bpe":
        tokens = json.loads(vocab.read_text())
    else:
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(vocab))
        tokens = {pieces.id_to_piece(i): i for i in range(1500)}
    begins = np.zeros(1500, bool)
    begins[[i for token, i in tokens.items() if token[0] in "\u0120\u2581"]] = True
    ids, count, inside = batch["input_ids"].numpy(), 0, 0
    special = trainer.masking.special_ids
    for row, (positions, weights) in enumerate(zip(masked.positions, masked.weights, strict=True)):
        hidden = np.zeros(64, bool)
        hidden[positions.numpy()[weights.numpy() > 0]] = True
        goes_on = ~begins[ids[row]] & ~np.isin(ids[row], special)
        # A word's token is hidden as the one before it is, unless that is [CLS] or [SEP].
        inner = goes_on[1:] & ~np.isin(ids[row][:-1], special)
        assert (hidden[1:] == hidden[:-1])[inner].all(), row
        count += hidden.sum()
        inside += inner.sum()
    assert count > 16 and inside > 16


@pytest.fixture
def examples_of(pairs_folder, tmp_path):
    """Copies the examples of pairs, with a manifest that tells of another objective or length."""

    def copy(name, **changes):
        folder = tmp_path / name
        shutil.copytree(pairs_folder, folder)
        content = json.loads((folder / MANIFEST).read_text())
        content["settings"] |= changes
        if changes.get("objective", "") is None:
            del content["settings"]["objective"]
        (folder / MANIFEST).write_text(json.dumps(content))
        return str(folder)

    return copy


def test_examples_of_another_objective_are_refused(settings, examples_of, cpu, tmp_path):
    folder = examples_of("pairs", objective="sentence_order")
    told = "made with --objective=sentence_order.* sentence_pair_loss=true"
    with pytest.raises(UserError, match=told):
        pretraining.pretrain(settings, [folder], str(tmp_path / "model"), cpu)
    assert not (tmp_path / "model").exists()


@pytest.fixture
def with_pairs(settings):
    return dataclasses.replace(
        settings, objective="mlm", sentence_pair_head=True, sentence_pair_loss=True
    )


def test_labels_are_what_the_record_says(pairs_folder):
    manifest = read_manifest(pairs_folder, "examples")
    dataset = pretraining_data.held_out_dataset(str(pairs_folder), manifest, BATCH)
    assert dataset.element_spec["label"].shape == [BATCH]
    read = [batch["label"].tolist() for batch in dataset.as_numpy_iterator()]
    shards = manifest.shards_of("heldout")
    records = itertools.chain(*(read_shard(str(pairs_folder), shard) for shard in shards))
    expected = [parse_example(record)["label"][0] for record in records]
    assert sum(read, []) == expected[: len(read) * BATCH]
    assert 20 < sum(expected) < len(expected) - 20


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"objective": "electra"}, "was made with --objective=electra, so"),
        ({"objective": "electra", "packing": True}, "with --packing, which puts several documents"),
        ({"objective": "full_sentences"}, "full_sentences, of which an example is a single seg"),
        ({"objective": None}, "holds examples of the original ELECTRA code, so"),
    ],
)
def test_examples_without_labels_of_pairs_are_refused(with_pairs, examples_of, changes, why):
    folder = examples_of("others", **changes)
    with pytest.raises(UserError) as error:
        pretraining_data.find_data(with_pairs, [folder])
    said = str(error.value).replace(folder, "out/examples")
    assert why in said and len(said) < 280
    assert "make examples with --objective=next_sentence (BERT) or sentence_order" in said


def test_labels_of_two_meanings_are_refused(with_pairs, pairs_folder, examples_of):
    both = dataclasses.replace(with_pairs, final_sequence_length=32)
    other = {"sequence_length": 32, "objective": "sentence_order"}
    with pytest.raises(UserError, match="labels mean different things"):
        pretraining_data.find_data(both, [str(pairs_folder), examples_of("other", **other)])
    same = examples_of("same", sequence_length=32)
    data = pretraining_data.find_data(both, [str(pairs_folder), same])
    assert [folder for folder, _ in data] == [str(pairs_folder), same]


def test_examples_of_two_vocabularies_are_refused(pairs_folder, examples_of):
    words = read_manifest(pairs_folder, "examples").settings["vocab_size"]
    other = examples_of("other", sequence_length=32, vocab_sha256="0" * 64)
    with pytest.raises(DataError, match="were made with different vocabularies"):
        pretraining_data.find_examples([str(pairs_folder), other], [64, 32], words)


def test_examples_of_cased_and_uncased_text_are_refused(pairs_folder, examples_of):
    """A second length, or a second corpus, of one vocabulary."""
    words = read_manifest(pairs_folder, "examples").settings["vocab_size"]
    for name, length in (("long", 32), ("corpus", 64)):
        cased = examples_of(name, sequence_length=length, lower_case=False)
        told = f"{pairs_folder}, whose text is in lower case, and {cased}, made with --nolower_case"
        with pytest.raises(DataError, match=told):
            pretraining_data.find_examples([str(pairs_folder), cased], [64, length], words)
    # Byte-level BPE ignores case, and had either value in earlier versions.
    other = examples_of("bytes")
    Path(other, "vocab.txt").rename(Path(other, "vocab.json"))
    assert len(pretraining_data.find_examples([other, cased], [64, 64], words)) == 2
