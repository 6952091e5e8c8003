"""Files for fine-tuning of BigBio's schemas: NCBI-disease is BLURB's, and rows made up."""

import pytest
from absl import flags

from data_prep.corpora import bigbio_tasks, corpus_splits, released_files
from tests import reference
from tests.data_prep.corpora.test_abstract_mentions import of_blurb, of_rows
from tests.tfbio.formats.conftest import gold
from tests.tfbio.formats.test_bigbio import KB, ROWS
from tfbio.formats import bigbio
from tfbio.formats.annotated_documents import Entity, joined
from tfbio.task_types import own_data


def write(folder, schema, rows, ending="jsonl"):
    for name in ("train", "validation", "test"):
        bigbio.write(folder / f"{name}.{ending}", schema, rows)


def test_ncbis_test_set_is_blurbs_with_one_type(tmp_path):
    text = reference.corpus("ncbi_disease/pubtator/NCBIdisease_Test.PubTator").read_text()
    annotated = [
        (
            joined(name, [(0, "title", title), (len(title) + 1, "abstract", abstract)]),
            [Entity("Disease", start, end) for start, end, *_ in mentions],
        )
        for name, title, abstract, mentions in gold(text)
    ]
    write(tmp_path, "kb", bigbio.kb_rows(annotated), "parquet")
    # A generator is empty behind its first file.
    bigbio.write(tmp_path / "test.parquet", "kb", bigbio.kb_rows(annotated))
    rows = bigbio_tasks.read_examples(tmp_path, "kb", [])["test"]
    assert rows.count(("",)) == 940
    one = [(row[0], row[1].removesuffix("-Disease")) if row[1:] else row for row in rows]
    assert of_rows(one) == of_blurb(reference.corpus("ncbi_disease/blurb"), "test")


def test_mentions_in_parts_and_shorter_ones_are_left_out(tmp_path):
    longer = {
        "id": "9",
        "type": "Gene",
        "text": ["clonidine."],
        "offsets": [[49, 59]],
        "normalized": [],
    }
    shorter = longer | {"id": "10", "type": "Drug", "text": ["clonidine"], "offsets": [[49, 58]]}
    same = longer | {"id": "11", "type": "Drug"}
    write(tmp_path, "kb", [KB | {"entities": [*KB["entities"], shorter, longer, same]}])
    left = []
    rows = bigbio_tasks.read_examples(tmp_path, "kb", left)["train"]
    assert [row for row in rows if row[1:] and row[1] != "O"] == [
        ("Naloxone", "B-Chemical"),
        ("clonidine", "B-Gene"),
        (".", "I-Gene"),
    ]
    assert [(x[0], x[2]) for x in left[:4]] == [
        ("227508.4", "discontinuous"),
        ("227508.5", "without_a_place"),
        ("227508.49-59", "overlaps"),
        ("227508.49-58", "overlaps"),
    ]
    # A passage ends a sentence.
    assert rows[7:10] == [(".", "I-Gene"), ("",), ("Renal", "O")]


@pytest.mark.parametrize(
    "schema, task, expected",
    [
        ("text", "multilabel", ("Am I \U0001f9ec?", None, ("a", "b"))),
        ("pairs", "pair", ("A", "B", "1")),
        ("te", "pair", ("A", "B", "neutral")),
        ("qa", "pair", ("Is RANKL secreted?", "OPG is secreted.", "yes")),
    ],
)
def test_fine_tuning_reads_the_files(schema, task, expected, tmp_path):
    rows = [ROWS[schema] | {"id": "1"}]
    if schema == "qa":
        rows.append(ROWS["qa"] | {"id": "2", "answer": ["yes", "no"]})
        rows.append(ROWS["qa"] | {"id": "3", "context": None})
    if schema in ("pairs", "te"):
        rows.append(ROWS[schema] | {"id": "2", "label": None})
    write(tmp_path, schema, rows)
    before = set(flags.FLAGS)
    bigbio_tasks.define_flags()
    try:
        flags.FLAGS(["x", f"--input={tmp_path}", f"--output={tmp_path}/out", f"--schema={schema}"])
        bigbio_tasks.main(["x"])
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
    left = (tmp_path / "out" / "left_out.jsonl").read_text()
    assert ("not_one_answer" in left) == ("without_a_context" in left) == (schema == "qa")
    assert ("without_a_label" in left) == (schema in ("pairs", "te"))
    for split in corpus_splits.SPLITS:
        (example,) = own_data.OWN[task][1].read(str(tmp_path / "out" / f"{split}.tsv"), None)
        assert (example.text, example.pair or None, example.label) == expected


def test_what_does_not_fit_is_named(tmp_path):
    with pytest.raises(released_files.CorpusError, match="has no file of the split train"):
        bigbio_tasks.read_examples(tmp_path, "te", [])
    write(tmp_path, "text", [ROWS["text"] | {"labels": ["a|b"]}])
    with pytest.raises(released_files.CorpusError, match="row 0: a label is null or has a bar"):
        bigbio_tasks.read_examples(tmp_path, "text", [])
    (tmp_path / "set-train-00000-of-00001.json").write_text("[]")
    with pytest.raises(released_files.CorpusError, match="has 2 files of the split train"):
        bigbio_tasks.read_examples(tmp_path, "text", [])


def test_a_mention_without_a_type_is_an_entity(tmp_path):
    write(tmp_path, "kb", [KB | {"entities": [KB["entities"][0] | {"type": None}]}])
    rows = bigbio_tasks.read_examples(tmp_path, "kb", [])["train"]
    assert rows[0] == ("Naloxone", "B-Entity")


def test_passages_that_adjoin_are_sentences_of_their_own(tmp_path):
    title, abstract = KB["passages"]
    glued = KB | {
        "passages": [
            title | {"text": ["Of clonidine"], "offsets": [[0, 12]]},
            abstract | {"text": ["Renal failure."], "offsets": [[12, 26]]},
            abstract | {"text": ["End"], "offsets": [[27, 30]]},
        ],
        "entities": [
            KB["entities"][0] | {"text": ["clonidine"], "offsets": [[3, 12]]},
            KB["entities"][0] | {"text": ["Renal failure"], "offsets": [[12, 25]]},
            KB["entities"][0] | {"text": ["failure"], "offsets": [[18, 25]]},
        ],
    }
    write(tmp_path, "kb", [glued])
    left = []
    rows = bigbio_tasks.read_examples(tmp_path, "kb", left)["train"]
    assert rows == [
        *(("Of", "O"), ("clonidine", "B-Chemical"), ("",)),
        *(("Renal", "B-Chemical"), ("failure", "I-Chemical"), (".", "O"), ("",)),
        *(("End", "O"), ("",)),
    ]
    assert [x[0] for x in left] == ["227508.18-25"] * 3  # of each split, at its offsets
