"""EBM-PICO, on files in the layout of EBM-NLP 2.00.

The release is not at hand. Its tokens and labels are made again from BLURB's published files, which
must come out byte for byte; where elements overlap these show the last one only, so that overlaps
are tested on abstracts made up.
"""

import gzip
import io
import tarfile

import pytest

from data_prep.corpora import corpus_splits, ebm_pico, released_files
from tests import reference

FOLDERS = {"train": "train", "dev": "train", "test": "test/gold"}


def release(path, splits):
    """Writes an archive like EBM-NLP's; splits: split -> PMID -> (tokens, element -> labels)."""
    with tarfile.open(path, "w:gz") as archive:

        def add(name, items):
            data = "".join(f"{item}\n" for item in items).encode()
            member = tarfile.TarInfo(f"ebm_nlp_2_00/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))

        for split, abstracts in splits.items():
            (path.parent / f"{split}_pmid.tsv").write_text(",".join(abstracts))
            for pmid, (tokens, labels) in abstracts.items():
                add(f"documents/{pmid}.tokens", tokens)
                add(f"documents/{pmid}.pos", ["NN" for _ in tokens])
                for element, values in labels.items():
                    name = f"{element}/{FOLDERS[split]}/{pmid}.AGGREGATED.ann"
                    add(f"annotations/aggregated/starting_spans/{name}", values)
                    # What must not be read: one worker's labels, and finer ones.
                    add(f"annotations/individual/phase_1/{name}", ["1"])
                    add(f"annotations/aggregated/hierarchical_labels/{name}", ["1"])


def test_the_published_files_byte_for_byte(command, tmp_path):
    data = reference.corpus("ebm_pico/blurb")
    published = {
        split: gzip.decompress((data / f"{split}.tsv.gz").read_bytes()).decode()
        for split in ("dev", "test")
    }
    splits = {"train": {"1": (["."], {"participants": ["0"]})}}
    for split, text in published.items():
        splits[split] = {}
        for part in text.split("-DOCSTART- (")[1:]:
            pmid, _, rest = part.partition(")\n\n")
            rows = [line.split("\t") for line in rest.split("\n") if line]
            labels = {
                element: [int(own == tag) for _, own in rows]
                for element, tag in ebm_pico.TAGS.items()
            }
            splits[split][pmid] = [token for token, _ in rows], labels
    release(tmp_path / "ebm_nlp_2_00.tar.gz", splits)
    for split in published:
        assert corpus_splits.read_index(tmp_path, f"{split}_pmid.tsv") == corpus_splits.read_index(
            data / "index", f"{split}_pmid.tsv"
        )
    flags = (f"--input={tmp_path}", f"--index={tmp_path}", f"--output={tmp_path}/out")
    done = command("corpora.blurb", "ebm_pico", *flags)
    assert done.returncode == 0, done.stderr
    for split, text in published.items():
        assert (tmp_path / "out" / f"{split}.tsv").read_text(encoding="utf-8") == text
        counts = {tag: text.count(f"\t{tag}\n") for tag in ("I-INT", "I-OUT", "I-PAR", "O")}
        said = ", ".join(f"{count:,} {tag}" for tag, count in counts.items())
        assert f"{split}: {said}" in done.stdout.splitlines()


def made(tokens, **labels):
    files = {("documents", "7"): released_files.File("7.tokens", tokens.encode())}
    for element, values in labels.items():
        files[element, "7"] = released_files.File(f"{element}.ann", "\n".join(values).encode())
    return list(ebm_pico.read_abstract("7", files))


def test_a_later_element_overwrites_and_periods_end_sentences():
    rows = made(
        "Men took aspirin . e.g. . Pain",
        participants="1111001",
        interventions="0150000",
        outcomes="0020001",
    )
    assert rows == [
        ("-DOCSTART- (7)",),
        ("",),
        ("Men", "I-PAR"),
        ("took", "I-INT"),
        ("aspirin", "I-OUT"),
        (".", "I-PAR"),
        ("",),
        ("e.g.", "O"),
        (".", "O"),
        ("",),
        ("Pain", "I-OUT"),
    ]


def test_an_element_without_labels_is_not_there():
    assert made("A B", outcomes="01")[2:] == [("A", "O"), ("B", "I-OUT")]


def test_labels_of_another_length_are_named():
    # Release 1.00 has commas between the labels.
    with pytest.raises(
        released_files.CorpusError, match=r"outcomes\.ann has 1 labels, but .* 2 tokens"
    ):
        made("A B", outcomes=["0,1"])


@pytest.mark.parametrize("lacking", ["tokens", "ann"])
def test_an_abstract_that_is_not_there_is_named(lacking, command, fails_in_one_sentence, tmp_path):
    none = dict.fromkeys(ebm_pico.TAGS, ["0"])
    abstract = {"1": (["."], none), "2": (["."], {"outcomes": ["0"]})}
    release(tmp_path / "x.tar.gz", dict.fromkeys(FOLDERS, abstract))
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "x.tar.gz").unlink()
    for path in tmp_path.rglob(f"2.*{lacking}"):
        path.unlink()
    flags = (f"--input={tmp_path}", f"--index={tmp_path}", f"--output={tmp_path}/out")
    said = fails_in_one_sentence(command("corpora.blurb", "ebm_pico", *flags))
    assert "train_pmid.tsv" in said and "lists 2" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("part", ["train", "test/gold"])
@pytest.mark.parametrize("element", ebm_pico.TAGS)
def test_an_element_that_the_release_lacks_is_named(part, element, tmp_path):
    """Else all its words would be O, in silence."""
    labels = dict.fromkeys(ebm_pico.TAGS, ["0"])
    abstracts = {split: {str(i): (["."], dict(labels))} for i, split in enumerate(FOLDERS)}
    release(tmp_path / "x.tar.gz", abstracts)
    assert ebm_pico.read_examples(tmp_path, tmp_path, [])
    for split, folder in FOLDERS.items():
        if folder == part:
            for _, own in abstracts[split].values():
                del own[element]
    release(tmp_path / "x.tar.gz", abstracts)
    with pytest.raises(released_files.CorpusError, match=f"no labels in .*/{element}/{part}/"):
        ebm_pico.read_examples(tmp_path, tmp_path, [])
