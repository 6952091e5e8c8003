"""BigBio's schemas in and out: NCBI's abstracts, and rows made up to be wrong."""

import copy
import gzip
import json
from collections import Counter

import pyarrow
import pytest
from pyarrow import parquet

from tests.tfbio.formats.conftest import EMPTY, odd
from tfbio.formats import annotation_formats as formats
from tfbio.formats import bigbio
from tfbio.formats.annotated_documents import Document, Entity, FormatError, Passage, joined
from tfbio.runs import document_formats

# The example of BigBio's task_schemas.md, shortened, with the discontinuous form that it describes.
KB = {
    "id": "0",
    "document_id": "227508",
    "passages": [
        {
            "id": "1",
            "type": "title",
            "text": ["Naloxone reverses the antihypertensive effect of clonidine."],
            "offsets": [[0, 59]],
        },
        {
            "id": "2",
            "type": "abstract",
            "text": ["Renal and hepatic failure."],
            "offsets": [[60, 86]],
        },
    ],
    "entities": [
        {
            "id": "3",
            "offsets": [[0, 8]],
            "text": ["Naloxone"],
            "type": "Chemical",
            "normalized": [{"db_name": "MESH", "db_id": "D009270"}],
        },
        {
            "id": "4",
            "offsets": [[60, 65], [78, 85]],
            "text": ["Renal", "failure"],
            "type": "Disease",
            "normalized": [],
        },
        {"id": "5", "offsets": [], "text": [], "type": "Disease", "normalized": []},
    ],
    "events": [
        {
            "id": "6",
            "type": "Reversal",
            "trigger": {"text": ["reverses"], "offsets": [[9, 17]]},
            "arguments": [{"role": "Cause", "ref_id": "3"}],
        }
    ],
    "coreferences": [{"id": "7", "entity_ids": ["3", "4"]}],
    "relations": [{"id": "8", "type": "CID", "arg1_id": "3", "arg2_id": "4", "normalized": []}],
}
ROWS = {
    "kb": KB,
    "text": {"id": "0", "document_id": None, "text": "Am I \U0001f9ec?", "labels": ["a", "b"]},
    "pairs": {"id": "0", "document_id": "N", "text_1": "A", "text_2": "B", "label": "1"},
    "qa": {
        "id": "0",
        "question_id": "55",
        "document_id": "24267510",
        "question": "Is RANKL secreted?",
        "type": "yesno",
        "choices": [],
        "context": "OPG is secreted.",
        "answer": ["yes"],
    },
    "te": {"id": "0", "premise": "A", "hypothesis": "B", "label": "neutral"},
}
# `bigbiohub.py`, as `datasets` writes it to Parquet; its `kb_features`, `text_features` and so on.
_MENTION = "text: list<element: string>, offsets: list<element: list<element: int32>>"
_LINKS = "normalized: list<element: struct<db_name: string, db_id: string>>"
TYPES = {
    "passages": f"list<element: struct<id: string, type: string, {_MENTION}>>",
    "entities": f"list<element: struct<id: string, type: string, {_MENTION}, {_LINKS}>>",
    "events": f"list<element: struct<id: string, type: string, trigger: struct<{_MENTION}>, "
    "arguments: list<element: struct<role: string, ref_id: string>>>>",
    "coreferences": "list<element: struct<id: string, entity_ids: list<element: string>>>",
    "relations": "list<element: struct<id: string, type: string, arg1_id: string, arg2_id: string, "
    f"{_LINKS}>>",
    "labels": "list<element: string>",
    "choices": "list<element: string>",
    "answer": "list<element: string>",
}


@pytest.mark.parametrize("schema", bigbio.SCHEMAS)
@pytest.mark.parametrize("name", ["x.parquet", "x.json", "x.jsonl"])
def test_what_is_written_is_read(schema, name, tmp_path):
    rows = [ROWS[schema], ROWS[schema] | {"id": "9"}]
    bigbio.write(tmp_path / name, schema, rows)
    assert bigbio.read(tmp_path / name, schema) == rows


@pytest.mark.parametrize("schema", bigbio.SCHEMAS)
def test_the_types_in_parquet_are_bigbios(schema, tmp_path):
    bigbio.write(tmp_path / "x.parquet", schema, [ROWS[schema]])
    types = {field.name: str(field.type) for field in parquet.read_schema(tmp_path / "x.parquet")}
    assert types == {name: TYPES.get(name, "string") for name in ROWS[schema]}
    # Read by pyarrow alone, and what pyarrow alone writes is read.
    assert parquet.read_table(tmp_path / "x.parquet").to_pylist() == [ROWS[schema]]
    parquet.write_table(pyarrow.Table.from_pylist([ROWS[schema]]), tmp_path / "y.parquet")
    assert bigbio.read(tmp_path / "y.parquet", schema) == [ROWS[schema]]


def test_older_forms_are_read(tmp_path):
    """A passage's text was a text, and lists may be missing or null."""
    row = copy.deepcopy(KB) | {"events": None, "entities": []}
    del row["coreferences"], row["relations"]
    for passage in row["passages"]:
        (passage["text"],) = passage["text"]
    with gzip.open(tmp_path / "x.jsonl.gz", "wt") as stream:
        stream.write(json.dumps(row) + "\n\n")
    expected = KB | {"events": [], "entities": [], "coreferences": [], "relations": []}
    assert bigbio.read(tmp_path / "x.jsonl.gz", "kb") == [expected]


def test_discontinuous_mentions_are_counted_and_never_joined():
    counts = Counter()
    ((document, entities),) = bigbio.documents([KB], counts)
    title, abstract = (passage["text"][0] for passage in KB["passages"])
    assert document.text == f"{title} {abstract}"
    assert document.passages == (Passage(0, 59, "title"), Passage(60, 86, "abstract"))
    assert entities == [Entity("Chemical", 0, 8)]
    assert counts == {bigbio.DISCONTINUOUS: 1, bigbio.WITHOUT_PLACE: 1}


@pytest.mark.parametrize("name", ["x.parquet", "x.jsonl"])
def test_all_of_ncbis_test_set_comes_back(name, ncbi_gold, tmp_path):
    annotated = [(d, [Entity(x.type, x.start, x.end) for x in own]) for d, own in ncbi_gold]
    bigbio.write(tmp_path / name, "kb", bigbio.kb_rows(annotated))
    rows = bigbio.read(tmp_path / name, "kb")
    counts = Counter()
    found = list(bigbio.documents(rows, counts))
    assert not counts and sum(len(own) for _, own in found) == 960
    for (document, entities), (given, mentions) in zip(found, annotated, strict=True):
        assert document.id == given.id and document.passages == given.passages
        # BigBio has a blank where PubTator has a line feed.
        assert document.text == given.text.replace("\n", " ")
        assert entities == mentions
    assert len(set(ids_of(rows))) == len(ids_of(rows)) == 100 + 200 + 960


def ids_of(rows):
    """All ids of rows, of which BigBio wants each once in a split."""
    return [x["id"] for row in rows for x in [row, *row["passages"], *row["entities"]]]


def test_an_id_may_have_a_quotation_mark(tmp_path):
    document = Document('a "b\\', "c", (Passage(0, 1, ""),))
    formats.write(str(tmp_path / "x.json"), "bigbio", [(document, [])])
    assert list(document_formats.read(str(tmp_path / "x.json"))) == [document]


def test_shards_of_other_documents_have_other_ids(ncbi_gold):
    """Rows of several files are a split; two of its documents may have one id, and its parts'."""
    shards = [ncbi_gold[:50], [*ncbi_gold[50:], ncbi_gold[-1]]]
    more = [(Document("7", "a", (Passage(0, 1, ""),)), []), (Document("7-1", "", ()), [])]
    ids = [x for annotated in [*shards, more] for x in ids_of(bigbio.kb_rows(annotated))]
    assert len(ids) == len(set(ids)) > 100 + 200 + 960
    assert ids_of(bigbio.kb_rows(more)) == ["7-1", "7-1-P1", "7-1-2"]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(0, "ab", "x"), (4, "cd", "y")], [("x", 0, "ab "), ("y", 4, "cd")]),  # two line feeds
        ([(0, "ab", "x"), (9, "cd", "y")], [("x", 0, "ab      "), ("y", 9, "cd")]),
        ([(1, "ab", "x"), (4, "cd", "y")], [("x", 0, " ab"), ("y", 4, "cd")]),  # without a title
        ([(0, "ab", "x"), (2, "cd", "y"), (4, "ef", "z")], [("x", 0, "abcdef")]),  # as BioC may
        (
            [(1, "ab", "x"), (3, "cd", "y"), (7, "ef", "z"), (9, "gh", "z")],
            [("x", 0, " abcd "), ("z", 7, "efgh")],
        ),
        ([(0, "ab", "x"), (3, "cd", "y")], [("x", 0, "ab"), ("y", 3, "cd")]),
    ],
)
def test_a_text_is_its_passages_with_a_blank_between_two(parts, expected):
    """As BigBio's tests have it: `" ".join(t for p in example["passages"] for t in p["text"])`."""
    document = joined("1", [(start, kind, text) for start, text, kind in parts])
    entities = [Entity("X", start, start + 2) for start, _, _ in parts]
    (row,) = bigbio.kb_rows([(document, entities)])
    text = " ".join(t for passage in row["passages"] for t in passage["text"])
    assert text == document.text.replace("\n", " ")
    for part in [*row["passages"], *row["entities"]]:
        (own,), ((start, end),) = part["text"], part["offsets"]
        assert text[start:end] == own
    assert [x["text"] for x in row["entities"]] == [[text] for _, text, _ in parts]
    found = [(x["type"], x["offsets"][0][0], x["text"][0]) for x in row["passages"]]
    assert found == expected
    ((read, again),) = bigbio.documents([row])
    assert (read.text, again) == (text, entities)


def test_odd_documents_come_back(tmp_path):
    """A mention over the end of a passage is one with the blank between.

    The passage before the two line feeds of `odd` has one of them, as a blank.
    """
    over = Document("over", "ab\ncd", (Passage(0, 2, ""), Passage(3, 5, "")))
    annotated = [odd(), EMPTY, (over, [Entity("X", 1, 4)])]
    bigbio.write(tmp_path / "x.parquet", "kb", bigbio.kb_rows(annotated))
    rows = bigbio.read(tmp_path / "x.parquet", "kb")
    found = list(bigbio.documents(rows))
    assert [own for _, own in found] == [list(own) for _, own in annotated]
    first, *others = odd()[0].passages
    assert found[0][0].passages == (first._replace(end=first.end + 1), *others)
    assert [d.passages for d, _ in found[1:]] == [d.passages for d, _ in annotated[1:]]
    assert rows[2]["entities"][0]["text"] == ["b c"]


@pytest.mark.parametrize("name", ["x.parquet", "x.json"])
def test_a_tagger_reads_the_documents_and_tells_them_from_bioc(name, ncbi_gold, tmp_path):
    formats.write(str(tmp_path / name), "bigbio", ncbi_gold)
    assert document_formats.find_files([str(tmp_path)]) == [str(tmp_path / name)]
    read = list(document_formats.read(str(tmp_path / name)))
    assert [(x.id, x.passages) for x in read] == [(x.id, x.passages) for x, _ in ncbi_gold]
    if name == "x.json":
        rows = json.loads((tmp_path / name).read_text())
        (tmp_path / "sorted.json").write_text(json.dumps(rows, sort_keys=True, indent=2))
        assert list(document_formats.read(str(tmp_path / "sorted.json"))) == read
    formats.write(str(tmp_path / "bioc.json"), "bioc", ncbi_gold)
    assert not bigbio.is_kb(tmp_path / "bioc.json")
    assert [x for x, _ in ncbi_gold] == list(document_formats.read(str(tmp_path / "bioc.json")))


def changed(**fields):
    row = copy.deepcopy(KB)
    for path, value in fields.items():
        *keys, last = path.split("__")
        place = row
        for key in keys:
            place = place[int(key) if key.isdigit() else key]
        place[last] = value
    return row


@pytest.mark.parametrize(
    "row, message",
    [
        ({"passages": "x"}, r"x\.jsonl, row 1, passages: expected a list, found 'x'"),
        ({"entities": [1]}, "row 1, entities: expected an object, found 1"),
        ({"id": None}, "row 1, id: expected a text, found None"),
        ({"entities__0__offsets": [[0, "8"]]}, "entities.offsets: expected a whole number"),
        ({"entities__0__offsets": [[0, True]]}, "entities.offsets: expected a whole number"),
        (
            {"entities__0__offsets": [[1, 9]]},
            "document 227508, mention 3: the document has 'aloxon",
        ),
        ({"entities__0__text": ["naloxone"]}, "has 'Naloxone' at 0 to 8, not 'naloxone'"),
        ({"entities__1__offsets": [[60, 65], [79, 86]]}, "mention 4: the document has 'ailure.'"),
        ({"entities__1__offsets": [[60, 65]]}, "mention 4: expected a start and an end for each"),
        ({"entities__0__offsets": [[-8, 8]]}, "mention 3: the document has ''"),
        ({"passages__1__offsets": [[50, 76]]}, "passage 2: its offsets are 50 to 76"),
        ({"passages__1__offsets": [[60, 87]]}, "passage 2: its offsets are 60 to 87"),
        ({"passages__1__offsets": [[10**9, 10**9 + 26]]}, "passage 2: its offsets are 1000000000"),
    ],
)
def test_what_does_not_fit_is_named(row, message, tmp_path):
    (tmp_path / "x.jsonl").write_text(json.dumps(changed(**row)))
    with pytest.raises(FormatError, match=message):
        list(bigbio.documents(bigbio.read(tmp_path / "x.jsonl", "kb")))


@pytest.mark.parametrize("name", ["x.parquet", "x.json", "x.jsonl"])
def test_a_file_of_another_format_is_named(name, tmp_path):
    (tmp_path / name).write_text("PAR1 is it not")
    with pytest.raises(FormatError, match=rf"{name}.*(is no file of Parquet|this is not JSON)"):
        bigbio.read(tmp_path / name, "text")


def test_without_pyarrow_a_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(
        FormatError, match=r"pyarrow is not installed: `pip install 'tfbio\[data\]'"
    ):
        bigbio.write(tmp_path / "x.parquet", "te", [ROWS["te"]])
    bigbio.write(tmp_path / "x.jsonl", "te", [ROWS["te"]])
    assert bigbio.read(tmp_path / "x.jsonl", "te") == [ROWS["te"]]


def test_a_line_feed_alone_ends_a_line_of_json(tmp_path):
    """JSON may hold other characters at which Python's `splitlines` splits."""
    rows = [ROWS["text"] | {"text": "a\u2028b\x85c"}]
    bigbio.write(tmp_path / "x.jsonl", "text", rows)
    assert bigbio.read(tmp_path / "x.jsonl", "text") == rows


def test_entities_are_in_the_order_of_the_text():
    """As all that writes them asks for; a file has them in any order."""
    mentions = [
        KB["entities"][0] | {"text": [text], "offsets": [[at, at + len(text)]]}
        for at, text in ((49, "clonidine"), (9, "reverses the"), (9, "reverses"), (0, "Naloxone"))
    ]
    ((_, entities),) = bigbio.documents([KB | {"entities": mentions}])
    assert [(x.start, x.end) for x in entities] == [(0, 8), (9, 17), (9, 21), (49, 58)]


def test_new_text_may_have_entities_that_are_wrong(tmp_path):
    """Reads the texts alone, as prediction keeps no entities of its input."""
    wrong = KB["entities"][0] | {"text": ["other"], "offsets": [[0, 5]]}
    bigbio.write(tmp_path / "x.json", "kb", [KB | {"entities": [wrong]}])
    (document,) = document_formats.read(str(tmp_path / "x.json"))
    ((expected, _),) = bigbio.documents([KB])
    assert document == expected


def test_parquet_in_gzip_is_refused(tmp_path):
    bigbio.write(tmp_path / "x.parquet", "kb", [KB])
    path = tmp_path / "x.parquet.gz"
    path.write_bytes(gzip.compress((tmp_path / "x.parquet").read_bytes()))
    with pytest.raises(FormatError, match=r"x\.parquet\.gz: .*: unpack it"):
        list(document_formats.read(str(path)))


def test_json_lines_may_be_called_json(tmp_path):
    """Hugging Face's `Dataset.to_json` writes lines, whatever the name."""
    rows = [ROWS["te"], ROWS["te"] | {"id": "9"}]
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / "x.json").write_text(f"{lines}\n\n")
    (tmp_path / "x.json.gz").write_bytes(gzip.compress(lines.encode()))
    for name in ("x.json", "x.json.gz"):
        assert bigbio.read(tmp_path / name, "te") == rows
    (tmp_path / "x.json").write_text(json.dumps(rows[0]))
    assert bigbio.read(tmp_path / "x.json", "te") == rows[:1]
    (tmp_path / "x.json").write_text(f"{lines[:-3]}")
    with pytest.raises(FormatError, match="x.json, line 2: this is not JSON"):
        bigbio.read(tmp_path / "x.json", "te")
    (tmp_path / "x.json").write_text('[{"id": "0"}')
    with pytest.raises(FormatError, match="x.json: this is not JSON"):
        bigbio.read(tmp_path / "x.json", "te")
