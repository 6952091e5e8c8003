import json
import statistics

from data_prep import corpus_report
from tfbio.base import file_paths, storage
from tfbio.base.document_records import Document, read_documents
from tfbio.base.manifests import MANIFEST, Manifest, write_manifest
from tfbio.base.shards import write_shard
from tfbio.text import wordpiece


def test_the_report_says_what_the_documents_are(
    command, documents_folder, vocab_file, tmp_path, monkeypatch
):
    # Without digits in the vocabulary, numbers are unknown tokens.
    known = [token for token in wordpiece.read_vocab(vocab_file) if not token.strip("#").isdigit()]
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("".join(f"{token}\n" for token in known), encoding="utf-8")
    done = command(
        "corpus_report",
        f"--documents={documents_folder}",
        f"--vocab={vocab}",
        f"--output={tmp_path}/report",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{tmp_path}/report/report.md"
    assert (tmp_path / "report/report.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "report/report.md").read_text(encoding="utf-8")

    # Every figure again, from the documents themselves.
    result = list(read_documents(documents_folder))
    words = [len(" ".join([d.title, *d.sentences]).split()) for d in result]
    sentences = sum(len(d.sentences) for d in result)
    high = statistics.quantiles(words, n=10, method="inclusive")[-1]
    assert (
        f"| abstracts | {len(result):,} | {sum(words):,} | {sum(words) / len(words):.1f} "
        f"| {statistics.median(words):.0f} | {high:.0f} | {sentences:,} |\n"
    ) in text
    tokenizer = wordpiece.make_tokenizer(wordpiece.read_vocab(vocab))
    tokens = [
        x for d in result for t in (d.title, *d.sentences) for x in tokenizer.encode(t).tokens
    ]
    unknown = tokens.count("[UNK]")
    assert unknown > 100
    assert (
        f"Tokens per word with vocab.txt: {len(tokens) / sum(words):.3f} ({len(tokens):,} tokens, "
        f"{unknown / len(tokens):.4%} unknown).\n"
    ) in text
    assert "\n2 input files, 0 of them bad (and 0 bad articles in the others).\n" in text

    # It is the same in several batches.
    monkeypatch.setattr(corpus_report, "_BATCH", 50)
    assert len(result) > 150
    measured = corpus_report.measure(documents_folder, str(vocab))
    assert (measured["tokens"], measured["unknown"]) == (len(tokens), unknown)
    assert measured["words"][corpus_report.ABSTRACTS].tolist() == words

    counts = json.loads((documents_folder / "manifest.json").read_text())["counts"]
    assert f"| PubMed citations | {counts['citation']} |" in text
    for reason, number in counts["left_out"].items():
        assert f"| - {reason.replace('_', ' ')} | {number} |" in text
    assert f"| = documents | {len(result)} |" in text


def test_a_report_may_lie_in_an_object_store(documents_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = corpus_report._write_report(documents_folder, "here")
    store = "memory://reports"
    corpus_report._write_report(documents_folder, f"{store}/corpus")
    written = file_paths.at(store, "corpus")
    assert (written / "report.md").read_bytes() == here.read_bytes()
    assert (written / "report.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    storage.remove_folder(store)


def test_bodies_are_counted_apart(tmp_path):
    documents = [
        Document("pmid:1", "a.xml", "A title", ["One two three."], [""]),
        Document("pmid:1#body", "b.nxml", "A title", ["Four.", "Five."], ["", ""]),
    ]
    shard = write_shard(
        tmp_path / "documents-00000-00000.tfrecord", (d.serialize() for d in documents)
    )
    counts = {"documents": 2, "left_out": {}, "input_files": 2}
    write_manifest(tmp_path / MANIFEST, Manifest("documents", {}, counts, [shard]))
    result = corpus_report.measure(tmp_path)
    assert result["words"][corpus_report.ABSTRACTS].tolist() == [5]
    assert result["words"][corpus_report.BODIES].tolist() == [4]
    assert result["sentences"][corpus_report.BODIES].tolist() == [2]
