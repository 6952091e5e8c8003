import json

from data_prep import corpus_report
from tfbio.base.document_records import Document, read_documents
from tfbio.base.manifests import MANIFEST, Manifest, write_manifest
from tfbio.base.shards import write_shard
from tfbio.text import wordpiece


def test_the_report_says_what_the_documents_are(command, documents_folder, vocab_file, tmp_path):
    done = command(
        "corpus_report",
        f"--documents={documents_folder}",
        f"--vocab={vocab_file}",
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
    assert f"| abstracts | {len(result):,} | {sum(words):,} |" in text
    assert f"| {sum(words) / len(words):.1f} |" in text and f"| {sentences:,} |" in text
    tokenizer = wordpiece.make_tokenizer(wordpiece.read_vocab(vocab_file))
    tokens = sum(len(tokenizer.encode(t).ids) for d in result for t in (d.title, *d.sentences))
    assert f"{tokens / sum(words):.3f} ({tokens:,} tokens" in text

    counts = json.loads((documents_folder / "manifest.json").read_text())["counts"]
    assert f"| PubMed citations | {counts['citation']} |" in text
    for reason, number in counts["left_out"].items():
        assert f"| - {reason.replace('_', ' ')} | {number} |" in text
    assert f"| = documents | {len(result)} |" in text


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
