import random
from collections import Counter

import pytest

from data_prep import examples
from tfbio import records, tokenization


class OriginalBuilder:
    """ExampleBuilder of google-research/electra's build_pretraining_dataset.py, on token ids.

    Its code, but that the random draws come from `rng`, and that `randint` is spelt out.
    """

    def __init__(self, max_length, rng):
        self._current_sentences = []
        self._current_length = 0
        self._max_length = max_length
        self._target_length = max_length
        self._rng = rng

    def add_line(self, bert_tokids):
        if (not bert_tokids) and self._current_length != 0:  # empty lines separate docs
            return self._create_example()
        self._current_sentences.append(bert_tokids)
        self._current_length += len(bert_tokids)
        if self._current_length >= self._target_length:
            return self._create_example()
        return None

    def _create_example(self):
        # small chance to only have one segment as in classification tasks
        if self._rng.random() < 0.1:
            first_segment_target_length = 100000
        else:
            # -3 due to not yet having [CLS]/[SEP] tokens in the input text
            first_segment_target_length = (self._target_length - 3) // 2

        first_segment = []
        second_segment = []
        for sentence in self._current_sentences:
            # the sentence goes to the first segment if (1) the first segment is
            # empty, (2) the sentence doesn't put the first segment over length or
            # (3) 50% of the time when it does put the first segment over length
            if (
                len(first_segment) == 0
                or len(first_segment) + len(sentence) < first_segment_target_length
                or (
                    len(second_segment) == 0
                    and len(first_segment) < first_segment_target_length
                    and self._rng.random() < 0.5
                )
            ):
                first_segment += sentence
            else:
                second_segment += sentence

        # trim to max_length while accounting for not-yet-added [CLS]/[SEP] tokens
        first_segment = first_segment[: self._max_length - 2]
        second_segment = second_segment[: max(0, self._max_length - len(first_segment) - 3)]

        # prepare to start building the next example
        self._current_sentences = []
        self._current_length = 0
        # small chance for random-length instead of max_length-length example
        if self._rng.random() < 0.05:
            self._target_length = 5 + int(self._rng.random() * (self._max_length - 4))
        else:
            self._target_length = self._max_length
        return first_segment, second_segment


@pytest.fixture(scope="module")
def encoded(documents_folder, vocab_file):
    """For each document its id, and the ids of its title and sentences."""
    tokenizer = tokenization.wordpiece(tokenization.read_vocab(vocab_file))
    return {
        d.id: [tokenizer.encode(text).ids for text in (d.title, *d.sentences)]
        for d in records.read_documents(documents_folder)
    }


@pytest.fixture(scope="module")
def examples_folder(documents_folder, vocab_file, tmp_path_factory):
    """Examples of 128 tokens, made in this process."""
    folder = tmp_path_factory.mktemp("made") / "examples"
    examples.make_examples(
        documents_folder, vocab_file, folder, held_out_fraction=0.2, shards=3, workers=1
    )
    return folder


@pytest.mark.parametrize("max_length", [32, 128, 512])
def test_segments_are_those_of_the_original(encoded, max_length):
    several = 0
    for seed, sentences in enumerate(encoded.values()):
        # The first target is full length, as the original's is, when its draw is not below 5 %.
        if random.Random(seed).random() < 0.05:
            continue
        rng = random.Random(seed)
        rng.random()
        original = OriginalBuilder(max_length, rng)
        expected = [original.add_line(list(ids)) for ids in (*sentences, [])]
        ours = list(examples.build_examples(sentences, max_length, random.Random(seed)))
        assert ours == [example for example in expected if example and any(example)]
        several += len(ours) > 1
    assert several > (10 if max_length < 512 else 0)


def test_the_odds_are_those_of_the_original():
    # Sentences of one token, so that an example is as long as its target lets it be: 98 tokens of
    # one segment, or 97 of two.
    firsts = [
        next(examples.build_examples([[7]] * 500, 100, random.Random(seed))) for seed in range(4000)
    ]
    full = [(first, second) for first, second in firsts if len(first) + len(second) >= 97]
    assert 0.04 < 1 - len(full) / len(firsts) < 0.06
    assert 0.085 < sum(not second for _, second in full) / len(full) < 0.115
    assert {len(first) for first, _ in full} == {46, 47, 48, 98}  # targets of 98, 99, 100; single
    lengths = sorted(len(first) + len(second) for first, second in firsts)
    assert 2 <= lengths[0] < 10


def test_every_example_is_well_formed_and_no_token_is_lost(encoded, examples_folder, vocab_file):
    manifest = records.read_manifest(examples_folder, "examples")
    records.verify(examples_folder, manifest, full=True)
    vocab = tokenization.read_vocab(vocab_file)
    cls, sep, pad = vocab["[CLS]"], vocab["[SEP]"], vocab["[PAD]"]
    bodies = {"train": Counter(), "heldout": Counter()}
    tokens = special = padding = 0
    for shard in manifest.shards:
        for record in records.read_shard(examples_folder, shard):
            example = records.parse_example(record)
            ids, mask = example["input_ids"], example["input_mask"]
            segments = example["segment_ids"]
            assert len(ids) == len(mask) == len(segments) == 128
            real = sum(mask)
            assert mask == [1] * real + [0] * (128 - real)
            assert ids[0] == cls and ids[real - 1] == sep and set(ids[real:]) <= {pad}
            first = ids.index(sep) + 1
            second = real - first
            assert ids[:real].count(sep) == (2 if second else 1)
            assert segments == [0] * first + [1] * second + [0] * (128 - real)
            bodies[shard.split][tuple(i for i in ids[1:real] if i != sep)] += 1
            special += 3 if second else 2
            tokens += real - (3 if second else 2)
            padding += 128 - real
    counts = manifest.counts
    assert (tokens, special) == (counts["tokens"], counts["special_tokens"])
    assert counts["examples"] == sum(map(len, bodies.values())) + sum(
        n - 1 for body in bodies.values() for n in body.values()
    )
    assert counts["padding_share"] == pytest.approx(padding / (128 * counts["examples"]), abs=1e-6)
    assert counts["unknown_share"] == 0

    # Each document's examples are in its own split, and together are its text, cut at most where
    # an example ran over; the order of the corpus is not the order of the examples.
    expected = {"train": Counter(), "heldout": Counter()}
    for id_, sentences in encoded.items():
        split = "heldout" if records.is_held_out(id_, 0.2) else "train"
        rng = random.Random(examples._digest(0, id_))
        for first, second in examples.build_examples(sentences, 128, rng):
            expected[split][tuple(first + second)] += 1
    assert bodies == expected
    assert counts["heldout_documents"] == sum(records.is_held_out(i, 0.2) for i in encoded) > 20
    assert (examples_folder / "vocab.txt").read_bytes() == vocab_file.read_bytes()


def test_examples_are_shuffled_over_the_corpus(encoded, examples_folder):
    where = {tuple(s[0][:8]): n for n, s in enumerate(encoded.values()) if len(s[0]) >= 8}
    order = []
    manifest = records.read_manifest(examples_folder, "examples")
    sizes = [shard.records for shard in manifest.shards_of("train")]
    assert len(sizes) == 3 and max(sizes) < 1.5 * min(sizes)
    for record in records.read_shard(examples_folder, manifest.shards[0]):
        title = tuple(records.parse_example(record)["input_ids"][1:9])
        order += [where[title]] if title in where else []
    # Neighbours are as far apart as in any random order: a third of the range on average.
    distances = [abs(a - b) for a, b in zip(order, order[1:], strict=False)]
    assert len(order) > 20
    assert sum(distances) / len(distances) > len(encoded) / 5


def test_settings_that_matter_change_the_output(documents_folder, vocab_file, tmp_path, capsys):
    def make(output, **settings):
        examples.make_examples(
            documents_folder, vocab_file, tmp_path / output, shards=1, workers=1, **settings
        )
        return (tmp_path / output / "train-00000-of-00001.tfrecord").read_bytes()

    first = make("a")
    assert make("a") == first
    assert "is complete and is reused" in capsys.readouterr().out
    assert make("b", seed=1) != first
    with pytest.raises(records.DataError, match="seed=0, not 1"):
        make("a", seed=1)
    none = records.read_manifest(tmp_path / "a", "examples").counts
    make("c", held_out_fraction=0.0)
    manifest = records.read_manifest(tmp_path / "c", "examples")
    assert not manifest.shards_of("heldout")
    assert manifest.counts["examples"] == none["examples"]


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
