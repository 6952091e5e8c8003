import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from data_prep import vocabulary
from data_prep.sentences import vocabulary_training
from tfbio.base import errors
from tfbio.base.document_records import read_documents
from tfbio.base.errors import DataError
from tfbio.base.held_out import hash_fraction
from tfbio.base.manifests import load_manifest, read_manifest
from tfbio.text import special_tokens, wordpiece
from tfbio.text.fast_tokenizer import load_fast_tokenizer

ROOT = Path(__file__).resolve().parents[2]
# The files of each kind, and what the flags are.
FILES = {
    "wordpiece": ("vocab.txt",),
    "unigram": ("a.model", "a.vocab"),
    "bpe": ("a.model", "a.vocab"),
    "byte_bpe": ("vocab.json", "merges.txt"),
}


@pytest.fixture(scope="module")
def made(documents_folder, tmp_path_factory):
    """Returns for each kind a vocabulary of 2000 tokens learnt on the slice."""
    paths = {}
    for kind, (name, *_) in FILES.items():
        paths[kind] = tmp_path_factory.mktemp(kind) / name
        vocabulary.make_vocabulary(documents_folder, paths[kind], kind=kind, size=2000)
    return paths


@pytest.fixture(scope="module")
def sentences(documents_folder):
    """Returns every title and sentence that the vocabularies were learnt on."""
    return [
        text
        for document in read_documents(documents_folder)
        for text in (document.title, *document.sentences)
    ]


@pytest.mark.parametrize("kind", FILES)
def test_the_same_bytes_from_any_process(documents_folder, made, tmp_path, kind):
    for threads, seed in (("1", "1"), ("4", "2")):
        output = tmp_path / threads / FILES[kind][0]
        flags = [f"--documents={documents_folder}", f"--output={output}", "--size=2000"]
        # The command line of before there were kinds must do.
        flags += [f"--kind={kind}"] if kind != "wordpiece" else []
        environment = {"RAYON_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        environment |= {"TOKENIZERS_PARALLELISM": "true", "PYTHONHASHSEED": seed}
        subprocess.run(
            [sys.executable, "-m", "data_prep.vocabulary", *flags],
            cwd=ROOT,
            env=os.environ | environment,
            check=True,
        )
        for name in (*FILES[kind], f"{output.stem}.manifest.json"):
            expected = made[kind].with_name(name).read_bytes()
            assert output.with_name(name).read_bytes() == expected, name


def test_wordpiece_is_as_it_was(vocab_file, made):
    assert made["wordpiece"].read_bytes() == vocab_file.read_bytes()


def test_it_is_a_bert_vocabulary(documents_folder, vocab_file):
    vocab = wordpiece.read_vocab(vocab_file)
    assert list(vocab)[:5] == list(special_tokens.SPECIAL_TOKENS)
    assert len(vocab) == 2000
    # It was learnt on these texts, so it knows them, and their frequent words in one piece.
    tokenizer = wordpiece.make_tokenizer(vocab)
    tokens = [
        token
        for document in read_documents(documents_folder)
        for sentence in document.sentences
        for token in tokenizer.encode(sentence).tokens
    ]
    assert tokens.count("[UNK]") == 0
    assert {"patients", "cell", "results", "##s"} <= vocab.keys()
    manifest = load_manifest(vocab_file.parent / "vocab.manifest.json", "vocabulary")
    assert manifest.shards[0].sha256 == hashlib.sha256(vocab_file.read_bytes()).hexdigest()


def test_byte_bpe_is_roberta_s(made, sentences):
    import transformers

    tokenizer = transformers.RobertaTokenizerFast.from_pretrained(made["byte_bpe"].parent)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    assert tokenizer.convert_ids_to_tokens(range(5)) == special
    assert tokenizer.all_special_ids == [0, 2, 3, 1, 4]
    encoder = load_fast_tokenizer(made["byte_bpe"])
    ids, offsets = encoder(sentences)
    theirs = tokenizer(sentences, add_special_tokens=False)["input_ids"]
    for text, part, other in zip(sentences, np.split(ids, offsets[1:-1]), theirs, strict=True):
        assert part.tolist() == other, text
    assert ids.min() > 4
    assert tokenizer.decode(theirs[0]) == sentences[0]


def test_a_sample_depends_on_ids_alone(documents_folder, tmp_path):
    def learn(name, documents):
        output = tmp_path / name / "vocab.txt"
        manifest = vocabulary.make_vocabulary(
            documents_folder, output, size=800, sample_documents=documents
        )
        return manifest.counts["documents"], output.read_text()

    total = read_manifest(documents_folder, "documents").counts["documents"]
    everything = learn("all", 0)
    assert everything[0] == total == learn("as_many", total)[0]
    number, tokens = learn("some", 60)
    assert 30 < number < 90 and tokens != everything[1]
    chosen = [
        document
        for document in read_documents(documents_folder)
        if hash_fraction(f"vocabulary {document.id}") < 60 / total
    ]
    texts = [text for document in chosen for text in (document.title, *document.sentences)]
    assert len(chosen) == number
    assert vocabulary_training.train_wordpiece(lambda: texts, 800) == tokens.splitlines()


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_only_a_cased_vocabulary_has_upper_case(documents_folder, command, made, tmp_path, kind):
    def in_upper_case(path):
        names = path.with_name(FILES[kind][-1]).read_text(encoding="utf-8").splitlines()
        tokens = [name.partition("\t")[0] for name in names]
        return {token for token in tokens if token.lower() != token and token[0] not in "[<"}

    output = tmp_path / FILES[kind][0]
    flags = [f"--documents={documents_folder}", f"--kind={kind}", f"--output={output}"]
    done = command("vocabulary", *flags, "--size=800", "--nolower_case")
    assert done.returncode == 0, done.stderr
    assert len(in_upper_case(output)) > 26 and not in_upper_case(made[kind])


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        ("unigram", 50, "--size=50 is too small: .* alone are"),
        ("bpe", 50, "--size=50 is too small: .* alone are"),
        ("byte_bpe", 260, "--size=260 is too small: .* alone are 261"),
        ("unigram", 90_000, r"--size=90000 is too large: .* no more than \d+ tokens"),
        ("bpe", 90_000, r"--size=90000 is too large: .* no more than \d+ tokens"),
    ],
)
def test_sizes_that_do_not_suit_the_documents(documents_folder, tmp_path, kind, size, message):
    output = tmp_path / FILES[kind][0]
    with pytest.raises(errors.UserError, match=message):
        vocabulary.make_vocabulary(documents_folder, output, kind=kind, size=size)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe"])
def test_fewer_tokens_than_asked_are_said(documents_folder, command, tmp_path, kind):
    flags = [f"--documents={documents_folder}", f"--kind={kind}", "--sample_documents=20"]
    output = tmp_path / FILES[kind][0]
    said = command("vocabulary", *flags, f"--output={output}", "--size=30000").stdout
    made = load_fast_tokenizer(output).vocab_size
    assert 500 < made < 30_000
    assert said.splitlines()[0].startswith(f"{made:,} tokens in {output}, learnt from ")
    assert said.splitlines()[1:] == [
        f"--size=30000 asked for {30_000 - made:,} more, but no two tokens that could be joined "
        "stand together twice in these documents. Learn from more documents, or give pretraining "
        f"--set encoder.vocab_size={made}."
    ]
    # One that could be made in full says nothing, and is the same with any larger size.
    again = tmp_path / "again" / FILES[kind][0]
    said = command("vocabulary", *flags, f"--output={again}", f"--size={made}").stdout
    assert len(said.splitlines()) == 1 and again.read_bytes() == output.read_bytes()


def test_flags_that_do_not_go_together(documents_folder, tmp_path):
    with pytest.raises(errors.UserError, match="--kind=unigram: the name must end in .model"):
        vocabulary.make_vocabulary(documents_folder, tmp_path / "vocab.txt", kind="unigram")
    with pytest.raises(errors.UserError, match="--lower_case does not go with --kind=byte_bpe"):
        vocabulary.make_vocabulary(
            documents_folder, tmp_path / "vocab.json", kind="byte_bpe", lower_case=True
        )


def test_finished_output_is_reused_or_defended(documents_folder, tmp_path, capsys):
    output = tmp_path / "vocab.txt"
    with pytest.raises(errors.UserError, match="--size=50 is too small"):
        vocabulary.make_vocabulary(documents_folder, output, size=50)
    assert not list(tmp_path.iterdir())
    vocabulary.make_vocabulary(documents_folder, output, size=500)
    vocabulary.make_vocabulary(documents_folder, output, size=500)
    assert "is complete and is reused" in capsys.readouterr().out
    with pytest.raises(DataError, match="size=500, not 600"):
        vocabulary.make_vocabulary(documents_folder, output, size=600)

    manifest = tmp_path / "vocab.manifest.json"
    manifest.unlink()  # as a run killed just before its end leaves it
    vocabulary.make_vocabulary(documents_folder, output, size=500)
    assert manifest.exists()
    manifest.unlink()
    output.write_text("a vocabulary of the user's own\n")
    with pytest.raises(DataError, match="not this command's"):
        vocabulary.make_vocabulary(documents_folder, output, size=500)
    vocabulary.make_vocabulary(documents_folder, output, size=500, overwrite=True)
    assert len(wordpiece.read_vocab(output)) == 500


def test_the_command_reports(command, fails_in_one_sentence, tmp_path):
    done = command("vocabulary", f"--documents={tmp_path}/gone", f"--output={tmp_path}/v.txt")
    assert "python -m data_prep.documents" in fails_in_one_sentence(done)
    assert "python -m data_prep.vocabulary --documents=" in command("vocabulary", "--help").stdout


def test_two_vocabularies_of_one_stem_do_not_share_a_manifest(documents_folder, tmp_path):
    first = tmp_path / "vocab.txt"
    made = vocabulary.make_vocabulary(documents_folder, first, size=500)
    for overwrite in (False, True):
        with pytest.raises(DataError, match="is that of vocab.txt: give --output another name"):
            vocabulary.make_vocabulary(
                documents_folder,
                tmp_path / "vocab.json",
                kind="byte_bpe",
                size=500,
                overwrite=overwrite,
            )
    assert vocabulary.make_vocabulary(documents_folder, first, size=500) == made
