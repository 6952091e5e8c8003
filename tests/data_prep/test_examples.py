import functools
import itertools
import random
from collections import Counter

import numpy as np
import pytest

from data_prep import examples, vocabulary
from data_prep.running import pipeline, work_folder
from data_prep.sentences import example_rows, example_shards, segments
from tfbio.base import errors
from tfbio.base.document_records import read_documents
from tfbio.base.errors import DataError
from tfbio.base.example_records import LABELLED_OBJECTIVES, ExampleFormat
from tfbio.base.held_out import is_held_out
from tfbio.base.manifests import MANIFEST, Manifest, read_manifest, verify
from tfbio.base.shards import Shard, read_shard
from tfbio.base.tf_example import parse_example
from tfbio.text import wordpiece

WAYS = [(objective, False) for objective in example_rows.OBJECTIVES]
WAYS += [(objective, True) for objective in example_rows.PACKED_OBJECTIVES]
ONE_WORKER = pipeline.Runner(workers=1)


@pytest.fixture(scope="module")
def encoded(documents_folder, vocab_file):
    """Returns for each document its id, and the ids of its title and sentences."""
    tokenizer = wordpiece.make_tokenizer(wordpiece.read_vocab(vocab_file))
    return {
        d.id: [tokenizer.encode(text).ids for text in (d.title, *d.sentences)]
        for d in read_documents(documents_folder)
    }


@pytest.fixture(scope="module")
def examples_folder(documents_folder, vocab_file, tmp_path_factory):
    """Returns the folder of examples of 128 tokens, made in this process."""
    folder = tmp_path_factory.mktemp("made") / "examples"
    settings = examples.ExampleSettings(held_out_fraction=0.2, shards=3)
    examples.make_examples(documents_folder, vocab_file, folder, settings, runner=ONE_WORKER)
    return folder


def read(folder):
    """Yields (split, ids, segment lengths, label or None) of each example in a folder."""
    for shard in read_manifest(folder, "examples").shards:
        for record in read_shard(folder, shard):
            example = parse_example(record)
            ids, lengths = (
                np.frombuffer(example[name][0], "<u2") for name in ("input_ids", "segment_lengths")
            )
            yield shard.split, ids.tolist(), lengths.tolist(), example.get("label", [None])[0]


@pytest.mark.parametrize(("objective", "packing"), WAYS)
def test_every_example_is_well_formed_and_the_counts_are_true(
    encoded, documents_folder, vocab_file, tmp_path, objective, packing
):
    settings = examples.ExampleSettings(objective, packing, held_out_fraction=0.2, shards=3)
    manifest = examples.make_examples(
        documents_folder, vocab_file, tmp_path / "out", settings, runner=ONE_WORKER
    )
    verify(tmp_path / "out", manifest, full=True)
    vocab = wordpiece.read_vocab(vocab_file)
    owner = owners(encoded)
    places = text = pieces = 0
    splits, labels = Counter(), Counter()
    for split, ids, lengths, label in read(tmp_path / "out"):
        assert len(ids) == 128 and lengths.count(0) < len(lengths) == (8 if packing else 2), (
            split,
            label,
        )
        start = 0
        for bodies, end in pieces_of(ids, lengths, vocab):
            pieces += 1
            start = end
            whose = [{owner.get(run) for run in runs(body)} - {None} for body in bodies]
            if objective != "full_sentences" or packing:
                assert_of_one_document(bodies, whose, vocab, label == 1 and objective)
            for id_ in set().union(*whose):
                splits[split, is_held_out(id_, 0.2)] += 1
            text += sum(len(body) - body.count(vocab["[SEP]"]) for body in bodies)
        assert set(ids[start:]) <= {vocab["[PAD]"]}, (split, lengths, label)
        places += start
        labels[label] += 1
    # No held-out text is in a training example, nor the other way round.
    assert set(splits) == {("train", False), ("heldout", True)}
    assert set(labels) == ({0, 1} if objective in LABELLED_OBJECTIVES else {None})

    counts = manifest.counts
    total = sum(len(sentence) for sentences in encoded.values() for sentence in sentences)
    number = labels.total()
    assert counts["examples"] == number and counts["pieces"] == pieces
    assert counts["tokens"] == text and counts["tokens"] + counts["special_tokens"] == places
    assert counts["padding_share"] == pytest.approx(1 - places / (128 * number), abs=1e-6)
    assert counts["document_tokens"] == total
    assert counts["unknown_share"] == 0
    assert counts["heldout_documents"] == sum(is_held_out(i, 0.2) for i in encoded) > 20
    if objective != "next_sentence":
        assert counts["dropped_tokens"] == total - text
    assert (counts["dropped_tokens"] == 0) == (packing or objective == "full_sentences")
    assert counts["padding_share"] < 0.02 or not packing


def owners(encoded):
    """Maps each run of eight tokens to the one document that has it, or to None for several."""
    owner = {}
    for id_, sentences in encoded.items():
        for run in runs(sum(sentences, [])):
            owner[run] = None if owner.get(run, id_) != id_ else id_
    return owner


def pieces_of(ids, lengths, vocab):
    """Yields the bodies of the segments of each piece of an example, and where the piece ends."""
    cls, sep = vocab["[CLS]"], vocab["[SEP]"]
    start = 0
    for first, second in zip(lengths[::2], lengths[1::2], strict=True):
        if not first:
            assert not second
            continue
        assert ids[start] == cls and ids[start + first - 1] == sep
        bodies = [ids[start + 1 : start + first - 1]]
        if second:
            assert ids[start + first + second - 1] == sep
            bodies.append(ids[start + first : start + first + second - 1])
        start += first + second
        yield bodies, start


def assert_of_one_document(bodies, whose, vocab, objective_of_swapped):
    """Checks that a segment is of one document, and so are the two of a piece, unless labelled."""
    special = {vocab["[SEP]"], vocab["[CLS]"]}
    assert not [body for body in bodies if not special.isdisjoint(body)]
    assert not [owners for owners in whose if not (len(owners) <= 1)]
    if objective_of_swapped == "next_sentence":
        assert not whose[0] & whose[1]
    else:
        assert len(set().union(*whose)) <= 1


def runs(tokens):
    return zip(*(tokens[n:] for n in range(8)), strict=False)


def test_the_examples_are_those_of_the_builder(
    encoded, documents_folder, examples_folder, vocab_file
):
    expected = Counter()
    generators = {}  # one for each split of each shard, which are small
    for shard in read_manifest(documents_folder, "documents").shards:
        for document in read_documents(documents_folder, [shard]):
            split = "heldout" if is_held_out(document.id, 0.2) else "train"
            rng = generators.setdefault(
                (shard.file, split), random.Random(example_rows.key(0, split, document.id))
            )
            sentences = encoded[document.id]
            ids = sum(sentences, [])
            bounds = list(itertools.accumulate(map(len, sentences), initial=0))
            for piece in segments.electra(bounds, 128, rng):
                first, second = (
                    sum((ids[a:b] for a, b in spans), []) for spans in (piece.first, piece.second)
                )
                expected[split, tuple(first), tuple(second)] += 1
    result = Counter()
    for split, ids, (first, second), _ in read(examples_folder):
        result[split, tuple(ids[1 : first - 1]), tuple(ids[first : first + second][:-1])] += 1
    assert result == expected
    assert (examples_folder / "vocab.txt").read_bytes() == vocab_file.read_bytes()


def test_abstract_and_body_of_an_article_are_held_out_together(vocab_file):
    """Else the held-out loss, and the test articles of tasks, would be of texts that were read."""
    settings = {"objective": "electra", "packing": False, "documents_per_example": 1}
    form = ExampleFormat.of(settings | {"sequence_length": 16, "vocab_size": 2000})
    shards = {"train": 1, "heldout": 1}
    job = example_rows.Job(str(vocab_file), "", True, "electra", False, form, 0.5, shards, 0)
    articles = [f"pmid:{number}" for number in range(40)]
    documents = [
        example_rows.Document(article + part, [b"The cells of the patients."])
        for article in articles
        for part in ("", "#body")
    ]
    counts = Counter()
    example_rows.build_rows(documents, job, counts)
    held_out = [article for article in articles if is_held_out(article, 0.5)]
    assert counts["heldout_documents"] == 2 * len(held_out) and 10 < len(held_out) < 30


def test_examples_are_shuffled_over_shards_of_one_size(encoded, examples_folder):
    where = {tuple(s[0][:8]): n for n, s in enumerate(encoded.values()) if len(s[0]) >= 8}
    manifest = read_manifest(examples_folder, "examples")
    sizes = [shard.records for shard in manifest.shards_of("train")]
    assert len(sizes) == 3 and max(sizes) - min(sizes) <= 1
    order = []
    for _, ids, _, _ in itertools.islice(read(examples_folder), sizes[0]):
        title = tuple(ids[1:9])
        order += [where[title]] if title in where else []
    # Neighbours are as far apart as in any random order: a third of the range on average.
    distances = [abs(a - b) for a, b in zip(order, order[1:], strict=False)]
    assert len(order) > 20
    assert sum(distances) / len(distances) > len(encoded) / 5
    # And each shard has its part of what stands early, and of what stands late.
    assert 0.3 < sum(n < len(encoded) / 2 for n in order) / len(order) < 0.7


def test_an_interrupted_run_goes_on_and_does_nothing_twice(
    documents_folder, vocab_file, examples_folder, files_of, tmp_path, monkeypatch
):
    built, written = [], []
    build_rows, write_shard = example_rows.build_rows, example_shards.write_shard

    def build(documents, *rest):
        built.append(documents[0].id)
        if len(built) == 3:
            raise KeyboardInterrupt
        return build_rows(documents, *rest)

    def write(path, *rest):
        written.append(path.name)
        if len(written) == 2:
            raise KeyboardInterrupt
        return write_shard(path, *rest)

    monkeypatch.setattr(example_rows, "build_rows", build)
    monkeypatch.setattr(example_shards, "write_shard", write)
    settings = examples.ExampleSettings(held_out_fraction=0.2, shards=3)
    make = functools.partial(
        examples.make_examples,
        documents_folder,
        vocab_file,
        tmp_path / "out",
        settings,
        runner=ONE_WORKER,
    )
    for _ in range(2):
        with pytest.raises(BaseException, match="."):
            make()
            pytest.fail("was not interrupted")
        assert not (tmp_path / "out" / MANIFEST).exists()
    make()
    # Of the shards of documents and of the four of examples, one each was begun twice.
    shards = len(read_manifest(documents_folder, "documents").shards)
    assert len(built) == shards + 1 and len(set(built)) == shards
    assert len(written) == 5 and len(set(written)) == 4
    assert files_of(tmp_path / "out") == files_of(examples_folder)


def test_shards_that_are_seen_late_are_not_left_out(
    documents_folder, vocab_file, examples_folder, files_of, tmp_path
):
    """The listing of a folder that several machines share may be older than its files."""
    settings = examples.ExampleSettings(held_out_fraction=0.2, shards=3)
    step_files = work_folder.step_files

    def make():
        given = documents_folder, vocab_file, tmp_path / "out", settings
        examples.make_examples(*given, runner=ONE_WORKER)

    for late in ("documents", "train", "heldout"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                work_folder,
                "step_files",
                lambda work, prefix, late=late: step_files(work, prefix)[prefix == late :],
            )
            with pytest.raises(DataError, match=f" {late} steps are to be seen in .* it continues"):
                make()
        assert not (tmp_path / "out" / MANIFEST).exists()
    make()
    assert files_of(tmp_path / "out") == files_of(examples_folder)


def test_a_shard_larger_than_a_chunk_loses_nothing(
    documents_folder, vocab_file, tmp_path, monkeypatch
):
    monkeypatch.setattr(example_rows, "CHUNK", 20_000)
    settings = examples.ExampleSettings(packing=True, shards=5)
    manifest = examples.make_examples(
        documents_folder, vocab_file, tmp_path / "out", settings, runner=ONE_WORKER
    )
    counts = manifest.counts
    assert counts["dropped_tokens"] == 0 and counts["tokens"] == counts["document_tokens"]
    sizes = [shard.records for shard in manifest.shards_of("train")]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([1], 16), ([16 << 25], 16), ([16 << 25, 1], 17), ([300 << 20, 340 << 20], 20)],
)
def test_there_is_a_training_shard_for_each_32_mib_of_documents_and_16_at_least(sizes, expected):
    shards = [Shard(f"documents-{i}.tfrecord", 1, size, "") for i, size in enumerate(sizes)]
    assert examples._shards_for(Manifest("documents", {}, {}, shards)) == expected


def test_pairs_are_not_packed():
    with pytest.raises(errors.UserError, match="--packing cannot be had with .*next_sentence"):
        examples.ExampleSettings(objective="next_sentence", packing=True)


def test_settings_that_matter_change_the_output(documents_folder, vocab_file, tmp_path, capsys):
    def make(output, overwrite=False, **settings):
        settings = examples.ExampleSettings(shards=1, **settings)
        folder = tmp_path / output
        examples.make_examples(
            documents_folder, vocab_file, folder, settings, overwrite=overwrite, runner=ONE_WORKER
        )
        return (tmp_path / output / "train-00000-of-00001.tfrecord").read_bytes()

    # Another vocabulary, which may be somebody's.
    (tmp_path / "a").mkdir()
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / "a" / name).touch()
        with pytest.raises(DataError, match="there, and is another vocabulary than .*--overwrite"):
            make("a")
        assert (tmp_path / "a" / name).exists()
    first = make("a", overwrite=True)
    assert sorted(path.name for path in (tmp_path / "a").glob("vocab*")) == ["vocab.txt"]
    assert not (tmp_path / "a" / "merges.txt").exists()
    assert make("a") == first
    assert "is complete and is reused" in capsys.readouterr().out
    assert make("b", seed=1) != first
    with pytest.raises(DataError, match="seed=0, not 1"):
        make("a", seed=1)
    make("c", held_out_fraction=0.0)
    manifest = read_manifest(tmp_path / "c", "examples")
    assert not manifest.shards_of("heldout")
    assert manifest.counts["train_documents"] == manifest.counts["documents"] > 100


def test_byte_level_bpe_is_not_recorded_as_lower_case(documents_folder, tmp_path, capsys):
    """So that --nolower_case, which changes nothing, meets the same examples."""
    vocab = tmp_path / "vocab.json"
    vocabulary.make_vocabulary(documents_folder, vocab, kind="byte_bpe", size=400)
    for lower_case in (True, False):
        settings = examples.ExampleSettings(shards=1, lower_case=lower_case)
        manifest = examples.make_examples(
            documents_folder, vocab, tmp_path / "out", settings, runner=ONE_WORKER
        )
        assert manifest.settings["lower_case"] is False
    assert "is complete and is reused" in capsys.readouterr().out


def test_bad_input_is_one_sentence(
    command, fails_in_one_sentence, documents_folder, vocab_file, tmp_path
):
    output = tmp_path / "out"
    unmasked = tmp_path / "unmasked.txt"
    unmasked.write_text(vocab_file.read_text().replace("[MASK]\n", ""))

    def fail(documents, vocab):
        flags = [f"--documents={documents}", f"--vocab={vocab}", f"--output={output}"]
        return fails_in_one_sentence(command("examples", *flags))

    said = fail(documents_folder, unmasked)
    assert "unmasked.txt has no [MASK]" in said and "data_prep.vocabulary" in said
    assert "cannot be read" in fail(documents_folder, tmp_path / "gone.txt")
    assert "no folder" in fail(tmp_path / "gone", vocab_file)
    assert "no manifest.json" in fail(tmp_path, vocab_file)
    assert not output.exists()


@pytest.mark.slow
def test_bytes_do_not_depend_on_workers(
    command, documents_folder, vocab_file, examples_folder, files_of, tmp_path
):
    flags = [f"--documents={documents_folder}", f"--vocab={vocab_file}", "--shards=3"]
    done = command(
        "examples", *flags, "--held_out_fraction=0.2", "--workers=2", f"--output={tmp_path}/two"
    )
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "two") == files_of(examples_folder)


def test_each_shard_reads_one_part_of_each_file_of_rows():
    """In an object store each part is a request."""
    form = ExampleFormat(16, 2000, 1, False)
    job = example_rows.Job("", "", True, "electra", False, form, 0.5, {"train": 4, "heldout": 2}, 0)
    deal = example_shards.Deal("heldout", "a", [[5, 3], [9, 2], [0, 0]], dealt=1)
    places = dict(example_shards.place(deal, job))
    assert places == {("heldout", 1): ("a", 14, 3), ("heldout", 0): ("a", 17, 2)}


def test_a_worker_with_another_version_of_tfbio_makes_nothing(tmp_path):
    job = example_rows.Job("", "", True, "electra", False, None, 0.5, {"train": 1}, 0, "0.0.9")
    for make in (
        lambda: example_shards.build(Shard("a", 0, 0, ""), "", str(tmp_path), job),
        lambda: example_shards.write((("train", 0), []), str(tmp_path), job),
    ):
        with pytest.raises(errors.DataError, match=r"has tfbio .*, and .* given tfbio 0\.0\.9"):
            make()
