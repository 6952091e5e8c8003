import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from data_prep import vocabulary
from tfbio import cli, records, tokenization

ROOT = Path(__file__).resolve().parents[2]


def test_the_same_bytes_from_any_process(documents_folder, vocab_file, tmp_path):
    expected = vocab_file.read_bytes()
    for threads in ("1", "4"):
        output = tmp_path / f"{threads}.txt"
        flags = [f"--documents={documents_folder}", f"--output={output}", "--size=2000"]
        subprocess.run(
            [sys.executable, "-m", "data_prep.vocabulary", *flags],
            cwd=ROOT,
            env=os.environ | {"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true"},
            check=True,
        )
        assert output.read_bytes() == expected


def test_it_is_a_bert_vocabulary(documents_folder, vocab_file):
    vocab = tokenization.read_vocab(vocab_file)
    assert list(vocab)[:5] == list(tokenization.SPECIAL_TOKENS)
    assert len(vocab) == 2000
    # It was learnt on these texts, so it knows them, and their frequent words in one piece.
    tokenizer = tokenization.wordpiece(vocab)
    tokens = [
        token
        for document in records.read_documents(documents_folder)
        for sentence in document.sentences
        for token in tokenizer.encode(sentence).tokens
    ]
    assert tokens.count("[UNK]") == 0
    assert {"patients", "cell", "results", "##s"} <= vocab.keys()
    manifest = records.load_manifest(vocab_file.parent / "vocab.manifest.json", "vocabulary")
    assert manifest.shards[0].sha256 == hashlib.sha256(vocab_file.read_bytes()).hexdigest()


def test_cased_text_keeps_its_case():
    texts = ["DNA and RNA of Homo sapiens"] * 3
    cased = vocabulary.train(lambda: texts, 60, lower_case=False)
    assert "DNA" in cased and "dna" not in cased
    assert "dna" in vocabulary.train(lambda: texts, 60, lower_case=True)


def test_finished_output_is_reused_or_defended(documents_folder, tmp_path, capsys):
    output = tmp_path / "vocab.txt"
    with pytest.raises(cli.UserError, match="--size=50 is too small"):
        vocabulary.make_vocabulary(documents_folder, output, size=50)
    assert not list(tmp_path.iterdir())
    vocabulary.make_vocabulary(documents_folder, output, size=500)
    vocabulary.make_vocabulary(documents_folder, output, size=500)
    assert "is complete and is reused" in capsys.readouterr().out
    with pytest.raises(records.DataError, match="size=500, not 600"):
        vocabulary.make_vocabulary(documents_folder, output, size=600)

    manifest = tmp_path / "vocab.manifest.json"
    manifest.unlink()  # as a run killed just before its end leaves it
    vocabulary.make_vocabulary(documents_folder, output, size=500)
    assert manifest.exists()
    manifest.unlink()
    output.write_text("a vocabulary of the user's own\n")
    with pytest.raises(records.DataError, match="not this command's"):
        vocabulary.make_vocabulary(documents_folder, output, size=500)
    vocabulary.make_vocabulary(documents_folder, output, size=500, overwrite=True)
    assert len(tokenization.read_vocab(output)) == 500


def test_the_command_reports(command, fails_in_one_sentence, tmp_path):
    done = command("vocabulary", f"--documents={tmp_path}/gone", f"--output={tmp_path}/v.txt")
    assert "python -m data_prep.documents" in fails_in_one_sentence(done)
    assert "python -m data_prep.vocabulary --documents=" in command("vocabulary", "--help").stdout
