"""The readers of the tasks' files: the published corpora, counted by other means, and bad files."""

import collections
import gzip
import json
import re

import pytest

from tests import reference
from tfbio.formats import task_files
from tfbio.formats.label_sets import HALLMARKS
from tfbio.formats.splits import check_splits, find_split
from tfbio.formats.tables import read_own_table, read_table, read_unlabelled_table
from tfbio.formats.task_examples import (
    LabelledText,
    Question,
    TaggedSentence,
    TaskFileError,
    labels_of,
)
from tfbio.formats.text_files import read_text

GAD = ("index", "sentence", "label")
BIOSSES = ("pair_id", "sent1", "sent2", "score")
TABLES = {
    "chemprot": {},
    "ddi2013": {},
    "gad": {"header": GAD, "labels": ("0", "1")},
    "biosses": {
        "columns": ("id", "text", "pair", "score"),
        "header": BIOSSES,
        "score_range": (0, 4),
    },
}

# (folder, files) -> what the papers give for training, development and test: Table 1 of BioELECTRA,
# Table 3 of BLURB. None: not published for this copy, or the file cannot be had.
MENTIONS = {
    ("bc5cdr_chem/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (5203, 5347, 5385),
    ("bc5cdr_chem/mtl_iob", "train.tsv.gz devel.tsv.gz test.tsv.gz"): (5203, 5347, 5385),
    ("bc5cdr_disease/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (4182, 4244, 4424),
    ("ncbi_disease/blurb", "train.tsv.gz dev.tsv test.tsv"): (5134, 787, 960),
    ("ncbi_disease/mtl_iob", "train.tsv.gz devel.tsv test.tsv"): (5134, 787, 960),
    ("bc2gm/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (15197, 3061, 6325),
    ("jnlpba/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (46750, 4551, 8662),
    # The same mentions, with their types.
    ("jnlpba/mtl_5class", "train.tsv.gz devel.tsv.gz test.tsv.gz"): (46750, 4551, 8662),
}
LABELLED_WORDS = {
    ("ebm_pico/blurb", "dev.tsv.gz test.tsv.gz"): (85321, 16364),
    # An older release of the corpus, of which nothing was published.
    ("ebm_pico/scibert", "dev.txt.gz test.txt.gz"): (None, None),
}
INSTANCES = {
    ("chemprot/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (18035, 11268, 15745),
    ("ddi2013/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (25296, 2496, 5716),
    ("gad/blurb", "train.tsv.gz dev.tsv test.tsv"): (4261, 534, 535),
    ("biosses/blurb", "train.tsv dev.tsv test.tsv"): (64, 16, 20),
}
DOCUMENTS = {
    ("hoc/blurb", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (1295, 186, 371),
    ("hoc/blue", "train.tsv.gz dev.tsv.gz test.tsv.gz"): (1108, 157, 315),
}
# What the files hold where it is not what the papers say.
DIFFERENCES = {
    # Both copies, BLURB's and the MTL one it is made from, hold two mentions more.
    "bc5cdr_disease/blurb/dev.tsv.gz": 4246,
    # The papers swap the two: the test set is the test part of BioBERT's first fold, of 534 lines.
    "gad/blurb/dev.tsv": 535,
    "gad/blurb/test.tsv": 534,
    # The documents are those of BLURB's list, with the labels of the corpus's release 2.00.
    "ebm_pico/blurb/dev.tsv.gz": 87308,
}


def each(published):
    """A test case for each file: its name, and the count that is to be found."""
    return [
        pytest.param(name, DIFFERENCES.get(name, count), id=name)
        for (folder, files), counts in published.items()
        for file, count in zip(files.split(), counts, strict=True)
        for name in [f"{folder}/{file}"]
    ]


def raw(path):
    """The text of a file."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")


def test_all_published_files_are_counted_here():
    named = [
        f"{folder}/{name}"
        for cases in (MENTIONS, LABELLED_WORDS, INSTANCES, DOCUMENTS)
        for folder, names in cases
        for name in names.split()
    ]
    folders = (reference.KEPT / "corpora", reference.BESIDE / "data")
    kept, beside = (
        {
            str(path.relative_to(data))
            for corpus in ("*/blurb", "*/mtl_*", "*/blue", "ebm_pico/scibert")
            for path in data.glob(f"{corpus}/*.t*")
        }
        for data in folders
    )
    assert len(named) == len(set(named))
    # The folder beside the checkout need not hold all corpora.
    assert len(kept) == 10 and kept | beside <= set(named)


@pytest.mark.parametrize("name, count", each(MENTIONS | LABELLED_WORDS))
def test_tagged_words_are_as_published_and_give_the_file_back(name, count):
    path = reference.corpus(name)
    text = raw(path)
    counted, scheme = (r"\tB(-\w+)?$", "BIO")
    if "ebm_pico" in name:
        counted, scheme = (r"[\t ]I-(PAR|INT|OUT)$", "IO")
    sentences = task_files.read_tagged_words(str(path), scheme=scheme)
    found = sum(tag.startswith(scheme[0]) for x in sentences for tag in x.tags)
    assert found == len(re.findall(counted, text, re.MULTILINE))
    assert found == count or count is None

    lines = text.split("\n")
    # The id is the line of the first word.
    assert all(re.split("[\t ]", lines[int(x.id) - 1])[0] == x.words[0] for x in sentences)
    lines = [line for line in lines if not line.startswith("-DOCSTART-")]
    if "scibert" in name:
        # word, part of speech, "O", tag: the middle columns are not kept.
        lines = [re.sub(r"^(\S+) \S+ O (\S+)$", r"\1\t\2", line) for line in lines]
    written = ["\n".join(map("\t".join, zip(x.words, x.tags, strict=True))) for x in sentences]
    assert "\n\n".join(written) == re.sub(r"\n{2,}", "\n\n", "\n".join(lines)).strip("\n")


def test_the_documents_of_ebm_pico_are_those_of_the_list():
    folder = reference.corpus("ebm_pico/blurb")
    for split, count in (("dev", 960), ("test", 191)):
        found = re.findall(r"^-DOCSTART- \((\d+)\)$", raw(folder / f"{split}.tsv.gz"), re.MULTILINE)
        listed = raw(folder / f"index/{split}_pmid.tsv").strip().split(",")
        assert found == listed and len(listed) == count


@pytest.mark.parametrize("name, count", each(INSTANCES))
def test_tables_are_as_published_and_given_back(name, count):
    path = reference.corpus(name)
    settings = TABLES[name.partition("/")[0]]
    examples = read_table(str(path), **settings)
    header = ["\t".join(settings["header"])] if "header" in settings else []
    assert len(examples) == count == raw(path).count("\n") - len(header)
    lines = ["\t".join(x for x in (e.id, e.text, e.pair, str(e.label)) if x) for e in examples]
    assert "\n".join(header + lines) + "\n" == raw(path)


# The sentences of BLURB's documents, in the files.
HOC_SENTENCES = {"train": 12119, "dev": 1798, "test": 3547}


@pytest.mark.parametrize("name, count", each(DOCUMENTS))
def test_hoc_is_as_published_and_given_back(name, count):
    path = reference.corpus(name)
    examples = task_files.read_hoc(str(path))
    assert len({x.document for x in examples}) == count
    if "blurb" in name:
        assert len(examples) == HOC_SENTENCES[path.name.partition(".")[0]]
    assert len(set(re.findall(r"\t(\d+)_s\d+\r?$", raw(path), re.MULTILINE))) == count
    lines = ["labels\tsentence\tindex"]
    for x in examples:
        held = [int(label in x.label) for label in HALLMARKS]
        lines.append(f"{','.join(f'{i}_{one}' for i, one in enumerate(held))}\t{x.text}\t{x.id}")
    # BLUE's files have Windows line ends.
    assert "\n".join(lines) + "\n" == raw(path).replace("\r\n", "\n")


def test_hallmarks_have_the_names_of_the_original_corpus():
    """The labels of a document, by name in the original files and by number in BLURB's."""
    import tarfile

    original = collections.defaultdict(set)
    with tarfile.open(reference.corpus("hoc/original/hoc_labels_text.tar.gz")) as archive:
        for member in archive:
            if re.search(r"labels/\d+\.txt$", member.name):
                text = archive.extractfile(member).read().decode().lower()
                pmid = re.search(r"(\d+)\.txt$", member.name)[1]
                original[pmid] = {name for name in HALLMARKS if name in text}
    read = collections.defaultdict(set)
    for split in ("train", "dev", "test"):
        for x in task_files.read_hoc(str(reference.corpus(f"hoc/blurb/{split}.tsv.gz"))):
            read[x.document] |= set(x.label)
    assert len(read) == 1852
    assert read == {pmid: original[pmid] for pmid in read}


@pytest.mark.parametrize(
    "name, count, without",
    [("xquad.en.json.gz", 1190, 0), ("cs224n_half_dev-v2.0.json.gz", 6078, 3168)],
)
def test_squad_is_read_whole(name, count, without):
    path = reference.corpus(f"squad/{name}")
    questions = task_files.read_squad(str(path))
    text = raw(path)
    assert len(questions) == count == len(re.findall(r'"question":', text))
    assert sum(not x.answers for x in questions) == without
    assert without == len(re.findall(r'"is_impossible": ?true', text))
    paragraphs = [y for x in json.loads(text)["data"] for y in x["paragraphs"]]
    answers = {y["id"]: y["answers"] for x in paragraphs for y in x["qas"]}
    assert {x.id: list(x.answers) for x in questions} == {
        name: [answer["text"] for answer in of_question] for name, of_question in answers.items()
    }
    for x in questions:
        for answer, start in zip(x.answers, x.answer_starts, strict=True):
            assert x.context[start : start + len(answer)] == answer


# Formats of corpora that cannot be had here, on invented examples.


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path."""

    def write(content, name="file.tsv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def test_clinical_sts_has_the_texts_and_the_score_last(write):
    names = "index genre file year old_index sentence1 sentence2 score".replace(" ", "\t")
    path = write(f"{names}\n7\tgenre\tfile\t2012\t9\tThe pt walks.\tPatient is walking.\t4.5\n")
    (example,) = task_files.read_clinical_sts(path)
    assert example == LabelledText("7", "The pt walks.", 4.5, "Patient is walking.")
    assert isinstance(example.label, float)


@pytest.mark.parametrize("single, last", ["SE", "UL"])
@pytest.mark.parametrize("name", ["bc5cdr_chem/mtl_iob", "ncbi_disease/blurb", "jnlpba/mtl_5class"])
def test_iobes_and_bilou_are_read_as_their_iob_form(write, name, single, last):
    """Tags are changed line by line, by the one behind each."""
    names = reference.corpus(name).glob("test.tsv*")
    (source,) = names
    text = read_text(str(source))
    lines, count = text.split("\n"), 0
    for number, (line, behind) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        word, tab, tag = line.rpartition("\t")
        ends = tag[:1] in ("B", "I") and behind.rpartition("\t")[2][:1] != "I"
        if ends and word:
            lines[number] = word + tab + (single if tag[0] == "B" else last) + tag[1:]
            count += 1
    path = write("\n".join(lines))
    read, before = (task_files.read_tagged_words(x) for x in (path, str(source)))
    assert read == before
    assert count == sum(tag[0] == "B" for sentence in before for tag in sentence.tags)
    types = labels_of(before)
    assert task_files.read_tagged_words(path, types) == before and count > 900


def test_i2b2_relations_and_tags(write):
    path = write("index\tsentence\tlabel\nd.1\t@treatment$ for @problem$ .\tTrAP\n")
    (example,) = read_table(path, header=GAD, labels=("TrAP", "false"))
    assert example == LabelledText("d.1", "@treatment$ for @problem$ .", "TrAP")
    path = write("-DOCSTART- -X- O O\n\nno NN O\nfever NN B-problem\n. . O\n", "train.txt")
    (sentence,) = task_files.read_tagged_words(path, ("problem",))
    expected = TaggedSentence("3", ("no", "fever", "."), ("O", "B-problem", "O"))
    assert sentence == expected


def test_sentence_roles_have_the_label_before_the_text(write):
    path = write("id\tlabel\tsentence\n1\tmethods\tWe did.\n")
    columns = ("id", "label", "text")
    (example,) = read_table(path, columns, ("id", "label", "sentence"), ("methods",))
    assert example == LabelledText("1", "We did.", "methods")


def bioasq(**settings):
    question = {
        "id": "0a1b",
        "type": "yesno",
        "body": "Is inventol\nsafe?",
        "exact_answer": "yes",
        "snippets": [{"text": "Inventol is safe."}, {"text": "It is\ninventol."}],
    }
    return question | settings


@pytest.mark.parametrize(
    "gold, answers, starts",
    [
        # "unsafe" is another word than "safe".
        ([["Safe", "inventol"]], ("Safe", "inventol"), ((12, 0), (-1, 6))),
        (["inventol", "inventol"], ("inventol",), ((0,), (6,))),
        ("It is", ("It is",), ((-1,), (0,))),
        ([["(+)"]], ("(+)",), ((-1,), (-1,))),
        (None, (), ((), ())),
    ],
)
def test_bioasq_factoid_has_a_context_for_each_snippet(write, gold, answers, starts):
    snippets = [{"text": "Inventol is safe."}, {"text": "It is\ninventol, unsafe."}]
    record = bioasq(type="factoid", exact_answer=gold, snippets=snippets)
    path = write(json.dumps({"questions": [record, bioasq(id="2")]}))
    question = "Is inventol safe?"
    assert task_files.read_bioasq_factoid(path) == [
        Question("0a1b_000", question, "Inventol is safe.", answers, starts[0], "0a1b"),
        Question("0a1b_001", question, "It is inventol, unsafe.", answers, starts[1], "0a1b"),
    ]


def test_squad_without_answers_is_a_test_file(write):
    paragraphs = [{"context": "A b.", "qas": [{"id": "q_000", "question": "What?"}]}]
    path = write(json.dumps({"version": "7b", "data": [{"paragraphs": paragraphs}]}))
    expected = Question("q_000", "What?", "A b.", (), ())
    assert task_files.read_squad(path) == [expected]


# Data of the user's own.


@pytest.mark.parametrize(
    "columns, content, expected",
    [
        (
            ("text", "label"),
            "A b.\tyes\nC.\tno\n",
            [("1", "A b.", "yes", ""), ("2", "C.", "no", "")],
        ),
        (("text", "label"), "Label\tID\tText\nyes\tx\tA b.\n", [("x", "A b.", "yes", "")]),
        (("text", "label"), "text\tcomment\tlabel\tpair\nA\t?\tyes\tB\n", [("2", "A", "yes", "B")]),
        (("text", "pair", "label"), "A b.\tC.\tno\n", [("1", "A b.", "no", "C.")]),
        (
            ("text", "pair", "label"),
            "sentence2\tsentence1\tlabel\nC.\tA b.\tno\n",
            [("2", "A b.", "no", "C.")],
        ),
        (
            ("text", "score"),
            "A b.\t-1.5\nC.\t2e1\n",
            [("1", "A b.", -1.5, ""), ("2", "C.", 20.0, "")],
        ),
        (("text", "score"), "text\tpair\tscore\nA\tB\t3\n", [("2", "A", 3.0, "B")]),
        (
            ("text", "labels"),
            "A\tx|y, z\nB\t\n",
            [("1", "A", ("x", "y, z"), ""), ("2", "B", (), "")],
        ),
    ],
)
def test_own_tables(write, columns, content, expected):
    read = read_own_table(write(content), columns)
    assert [(x.id, x.text, x.label, x.pair) for x in read] == expected


def test_labels_are_inferred(write):
    tagged = task_files.read_tagged_words(write("a\tB-y\nb\tI-y\n\nc\tB-x-z\nd\tO\n"))
    assert labels_of(tagged) == ("x-z", "y")
    assert labels_of(task_files.read_tagged_words(write("a\tB\nb\tO\n"))) == ("",)
    many = read_own_table(write("A\tx|y\nB\ta|x\n"), ("text", "labels"))
    assert labels_of(many) == ("a", "x", "y")
    one = read_own_table(write("A\tx\nB\tb\nC\tx\n"))
    assert labels_of(one) == ("b", "x")
    scores = read_own_table(write("A\t1\n"), ("text", "score"))
    assert labels_of([*scores, Question("1", "", "", ("a",), (0,))]) == ()


# What may differ, and what may not.


@pytest.mark.parametrize("packed", [False, True])
def test_marks_line_ends_and_compression_change_nothing(write, packed):
    def saved(text):
        data = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
        return write(gzip.compress(data) if packed else data)

    # Characters within a text at which Python's splitlines would split, and blanks of other kinds.
    text = "\u00a0A\u2028b\x85c\x0b d\u00a0"
    tagged = task_files.read_tagged_words(saved(f"{text}\tB\n\n\n \nb\tO"))
    assert [x.words for x in tagged] == [(text,), ("b",)]
    table = read_table(saved(f"index\tsentence\tlabel\n1\t{text}\tx"), header=GAD)
    assert table == [LabelledText("1", text, "x")]


def read_words(path):
    return task_files.read_tagged_words(path, ("Chemical", "Disease"))


def read_io(path):
    return task_files.read_tagged_words(path, scheme="IO")


def read_gad(path):
    return read_table(path, header=GAD, labels=("0", "1"))


def read_relations(path):
    return read_table(path, labels=("CPR:3", "false"))


def read_pairs(path):
    return read_table(path, score_range=(0, 4), **COLUMNS_OF_PAIRS)


def read_own(path):
    return read_own_table(path)


def read_own_scores(path):
    return read_own_table(path, ("text", "score"))


def read_own_many(path):
    return read_own_table(path, ("text", "labels"), ("a", "b"))


COLUMNS_OF_PAIRS = {"columns": ("id", "text", "pair", "score"), "header": BIOSSES}
PAIRS = "\t".join(BIOSSES) + "\n"
HEADER = "\t".join(GAD) + "\n"
HOC = "labels\tsentence\tindex\n"
FLAGS = ",".join(f"{i}_0" for i in range(10))
SWAPPED = "".join(f"{'yes' if i % 2 else 'no'}\tText {i}.\n" for i in range(12))


@pytest.mark.parametrize(
    "read, content, message",
    [
        # Tags.
        (read_words, "a\tO\nb\tI-Disease\n", r"line 2: the tag 'I-Disease' follows 'O'"),
        (read_words, "a\tB-Disease\n\nb\tI-Disease\n", r"line 3: .* follows 'O'.*'B-Disease'"),
        (read_words, "a\tB-Disease\nb\tI-Chemical\n", r"line 2: .* follows 'B-Disease'"),
        (read_words, "a\tB-Disease\n-DOCSTART- x\nb\tI-Disease\n", r"line 3: .* follows 'O'"),
        (read_words, "a\tO\nb\tX-Disease\n", r"line 2: expected a tag of the scheme BIO .*'X-Dis"),
        (read_words, "a\tS-Disease\nb\tL-Disease\n", r"line 1: expected a tag of the scheme BIO"),
        (read_words, "a\tS-Disease\nb\tU-Disease\n", r"line 1: expected a tag of the scheme BIO"),
        (read_words, "a\tS-Disease\nb\tE-Disease\n", r"line 2: the tag 'E-Disease' follows 'S-Di"),
        (read_words, "a\tU-Disease\nb\tI-Disease\n", r"line 2: the tag 'I-Disease' follows 'U-Di"),
        (read_words, "a\tL-Disease\n", r"line 1: the tag 'L-Disease' follows 'O': write 'B-Dis"),
        (read_words, "a\tS-Disease\nb\tX\n", r"line 2: .* IOBES \(O, B-TYPE, E-TYPE, I-TYPE, S-T"),
        (read_words, "a\tB-\n", r"line 1: expected a tag of the scheme BIO .*'B-'"),
        (read_words, "a\tO-Disease\n", r"line 1: expected a tag of the scheme BIO"),
        (read_words, "a\tB-Gene\n", r"line 1: unknown type in the tag 'B-Gene'; .* 'Chemical', 'D"),
        (read_words, "a\tB\n", r"line 1: unknown type in the tag 'B'"),
        (read_words, "a\tO\nb\t\n", r"line 2: expected a tag of the scheme BIO .* found ''"),
        (read_words, "a\tO\nb\n", r"line 2: expected 2 columns .* found 'b'"),
        (read_words, "a\tO\n\tO\n", r"line 2: expected 2 columns"),
        (read_words, "a\tO\nb\tN\tO\n", r"line 2: expected 2 columns .* found 'b\\tN\\tO'"),
        (read_words, "a N O\nb O\n", r"line 2: expected 3 columns"),
        (read_words, "O\taspirin\n", r"line 1: .*'aspirin' \(the tag seems to stand in column 1\)"),
        (read_words, "", r"line 1: there is no example"),
        (read_words, "\n\n", r"line 1: there is no example"),
        (read_words, b"a\tO\nb\xff\tO\n", r"line 2: this is not text in UTF-8 \("),
        (read_words, "a\tO\n".encode("utf-16"), r"line 1: this is not text in UTF-8"),
        (read_io, "a\tI-PAR\nb\tB-PAR\n", r"line 2: expected a tag of the scheme IO .*'B-PAR'"),
        # Tables.
        (read_gad, "", r"line 1: there is no example"),
        (read_gad, HEADER, r"line 1: there is no example"),
        (read_gad, "1\tA\t0\n", r"line 1: expected the header index, sentence, label, tab"),
        (read_gad, "index\tlabel\tsentence\n1\t0\tA\n", r"line 1: .*label in this order, .* found"),
        (
            read_gad,
            HEADER + "1\tA\t0\n2\t1\tB\n",
            r"line 3: unknown label 'B'; .* '0', '1' \(.* 2\)",
        ),
        (read_gad, HEADER + "1\tA\t0\n\n2\tB\t1\n", r"line 3: the line is empty: take it out"),
        (read_gad, HEADER + "1\tA\t0\n\n", r"line 3: the line is empty"),
        (read_gad, HEADER + "1\tA\n", r"line 2: expected 3 .*\(index, sentence, label\), found 2"),
        (read_gad, HEADER + "1\tA\tB\t0\n", r"line 2: expected 3 tab-separated columns .* found 4"),
        (read_gad, HEADER + "1\tA\t\n", r"line 2: expected a label .* found ''"),
        (read_gad, HEADER + "1\tA\t1 \n", r"line 2: expected a label .* found '1 '"),
        (read_gad, HEADER + "1\t \t1\n", r"line 2: expected a text in column 2"),
        (read_gad, HEADER + "1\tA\t2\n", r"line 2: unknown label '2'; the labels are '0', '1'\."),
        (
            read_relations,
            "1\tA\tfalse\n2\tB\n",
            r"line 2: expected 3 tab-separated columns, found 2",
        ),
        (read_relations, "false\tA\t1\n", r"line 1: unknown label '1'.*stand in column 1\)"),
        (
            read_pairs,
            PAIRS + "1\tA\tB\tnan\n",
            r"line 2: expected a number from 0 to 4, found 'nan'",
        ),
        (read_pairs, PAIRS + "1\tA\tB\tinf\n", r"line 2: expected a number .* found 'inf'"),
        (read_pairs, PAIRS + "1\tA\tB\t4.2\n", r"line 2: expected a number .* found '4.2'"),
        (read_pairs, PAIRS + "1\tA\tB\t\n", r"line 2: expected a number .* found ''"),
        (read_pairs, PAIRS + "1\tA\tB\t3\n2\t3\tA\tB\n", r"line 3: .* score seems .* column 2\)"),
        (read_pairs, PAIRS + "1\tA\t\t3\n", r"line 2: expected a pair in column 3"),
        (task_files.read_clinical_sts, "id\tscore\ta\tb\n1\t2\tA\tB\n", r"line 1: expected a head"),
        (
            task_files.read_clinical_sts,
            "id\ta\tb\tscore\n1\tA\tB\t5.1\n",
            r"line 2: .* from 0 to 5",
        ),
        (
            task_files.read_hoc,
            HOC + f"{FLAGS}\tA\t1_s0\nA\t{FLAGS}\t1_s1\n",
            r"line 3: .*column 2\)",
        ),
        (task_files.read_hoc, HOC + f"{FLAGS},10_0\tA\t1_s0\n", r"line 2: expected labels 0_0,1_0"),
        (
            task_files.read_hoc,
            HOC + f"{FLAGS[:-1]}2\tA\t1_s0\n",
            r"line 2: expected labels 0_0,1_0",
        ),
        (task_files.read_hoc, HOC + f"{FLAGS}\tA\t12\n", r"line 2: .* and PMID_sN\."),
        # The user's own.
        (read_own, "A\tb\nC\n", r"line 2: expected 2 tab-separated columns, found 1"),
        (
            read_own,
            "A\tB\tc\n",
            r"line 1: expected one column for each of text, label, found 'A, B",
        ),
        (read_own, "text\ttopic\nA\tb\n", r"line 1: .* name the columns in the first line"),
        (read_own, "text\tlabel\tsentence\nA\tb\tC\n", r"line 1: expected one column for each"),
        (read_own, SWAPPED, r"line 1: .* text, label \(the label seems to stand in column 1\)"),
        (read_own, "text\tlabel\n" + SWAPPED, r"line 1: .* to stand in column 1\)"),
        (read_own, "A\t\n", r"line 1: expected a label"),
        (read_own_scores, "A\t1\nB\tinf\n", r"line 2: expected a number from -inf to inf, found"),
        (read_own_scores, "1\tA\n", r"line 1: expected a number .* to stand in column 1\)"),
        (read_own_many, "A\ta||b\n", r"line 1: expected a label .* found ''"),
        (read_own_many, "A\ta|c\n", r"line 1: unknown label 'c'"),
        (read_own_many, "A\ta|a\n", r"line 1: a label stands twice in 'a\|a'"),
        (read_own_many, "a|b\tA\n", r"line 1: unknown label 'A'.* to stand in column 1\)"),
        (
            task_files.read_hoc,
            "labels\tsentence\tindex\n" + ",".join(f"{i}_0" for i in range(10)) + "\t \t1_s0\n",
            r"line 2: expected a text in column 2, found none",
        ),
        # JSON.
        (task_files.read_squad, '{"data":\n ]', r"line 2: this is not JSON"),
        (task_files.read_squad, "[" * 100_000, r"line 1: this is not JSON"),
        (task_files.read_squad, '{"data": [{"paragraphs": 1}]}', r"article 1: expected a list"),
        (task_files.read_squad, '{"data": [{"paragraphs": [{}]}]}', r"article 1, paragraph 1: exp"),
        (task_files.read_squad, '{"data": []}', r"line 1: there is no example"),
        (
            task_files.read_squad,
            '{"data": [{"paragraphs": [{"context": "A", "qas": [{"id": "1", "answers": 1}]}]}]}',
            r"question 1: expected a list as 'answers', found 1",
        ),
        (
            task_files.read_bioasq_factoid,
            '{"questions": [{"id": "1", "type": "factoid", "body": "A", "snippets": [], '
            '"exact_answer": 1}]}',
            r"question 1: expected a list as 'exact_answer', found 1",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(write, read, content, message):
    # Compressed files are looked at as others are.
    for path in (
        write(content),
        write(gzip.compress(content if isinstance(content, bytes) else content.encode()), "f.gz"),
    ):
        with pytest.raises(TaskFileError) as error:
            read(path)
        said = str(error.value)
        assert re.match(re.escape(path) + ", " + message, said), said
        assert said.endswith(".") and "\n" not in said


def test_a_factoid_question_without_snippets_counts(write):
    record = bioasq(type="factoid", exact_answer=[["inventol"]], snippets=[])
    (question,) = task_files.read_bioasq_factoid(write(json.dumps({"questions": [record]})))
    assert (question.id, question.context, question.answers) == ("0a1b_000", "", ("inventol",))
    assert question.answer_starts == (-1,)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"exact_answer": [["a"], [3]]}, "expected a list of texts, found 3"),
        ({"body": None}, "expected text as 'body', found None"),
        ({"snippets": [{}]}, "expected text as 'text'"),
    ],
)
def test_a_mistake_in_bioasq_is_named_with_its_question(write, changes, message):
    good = bioasq(type="factoid", exact_answer=[["inventol"]])
    path = write(json.dumps({"questions": [good | changes]}))
    with pytest.raises(TaskFileError, match=f"question 0a1b: {message}"):
        task_files.read_bioasq_factoid(path)
    path = write(json.dumps({"questions": [good, good]}))
    with pytest.raises(TaskFileError, match="question 2 of the file: .*'0a1b'"):
        task_files.read_bioasq_factoid(path)


@pytest.mark.parametrize("answer, start", [("b", 0), ("A", -4), ("A", 3), ("", 0)])
def test_an_answer_that_stands_elsewhere_is_named(write, answer, start):
    gold = [{"text": answer, "answer_start": start}]
    qas = [{"id": "q1", "question": "What?", "answers": gold}]
    path = write(json.dumps({"data": [{"paragraphs": [{"context": "A b.", "qas": qas}]}]}))
    message = re.escape(f"question q1: expected {answer!r} at character {start} of the context")
    with pytest.raises(TaskFileError, match=message):
        task_files.read_squad(path)


def test_a_file_that_cannot_be_read_is_named(write, tmp_path):
    damaged = write(gzip.compress(b"a\tO\n" * 1000)[:-20], "train.tsv.gz")
    for path in (str(tmp_path / "absent.tsv"), str(tmp_path), damaged):
        with pytest.raises(TaskFileError, match=re.escape(path) + " cannot be read"):
            task_files.read_tagged_words(path)


# Splits.


@pytest.mark.parametrize(
    "split, name",
    [
        ("train", "train.tsv"),
        ("dev", "dev.tsv.gz"),
        ("dev", "devel.tsv"),
        ("dev", "valid.txt"),
        ("dev", "validation.json.gz"),
        ("test", "test.json"),
    ],
)
def test_a_split_is_found_under_the_names_in_use(write, tmp_path, split, name):
    for other in ("train_old.tsv", "tests.tsv", "dev.md"):
        write("", other)
    path = write("", name)
    assert find_split(str(tmp_path), split) == path


def test_a_split_that_is_missing_or_there_twice_is_named(write, tmp_path):
    with pytest.raises(TaskFileError) as error:
        find_split(str(tmp_path), "dev")
    for part in (str(tmp_path), "'dev'", "devel.tsv", "validation.json", ".gz"):
        assert part in str(error.value)
    write("", "dev.tsv")
    write("", "devel.tsv.gz")
    with pytest.raises(TaskFileError, match=r"more than one .* dev\.tsv, devel\.tsv\.gz"):
        find_split(str(tmp_path), "dev")


def test_a_label_of_test_that_training_lacks_is_named(write):
    train = task_files.read_tagged_words(write("a\tB-x\nb\tO\n"))
    path = write("a\tO\n\nb\tO\nc\tB-y\n", "test.tsv")
    splits = {"train": train, "test": task_files.read_tagged_words(path)}
    message = f"{re.escape(path)}, line 4: the label 'y' of test has no example in train, .* 'x'"
    with pytest.raises(TaskFileError, match=message):
        check_splits(splits)
    # So says the reader, too, if it is told the labels.
    with pytest.raises(TaskFileError, match="line 4: unknown type in the tag 'B-y'"):
        task_files.read_tagged_words(path, labels_of(train))
    train = read_own_table(write("A\tx|y\n"), ("text", "labels"))
    path = write("A\ty\nB\tx|z\n", "dev.tsv")
    splits = {"dev": read_own_table(path, ("text", "labels")), "train": train}
    with pytest.raises(TaskFileError, match=r"dev\.tsv, line 2: the label 'z' of dev"):
        check_splits(splits)


def test_an_id_that_stands_twice_is_named(write):
    path = write("1\tA\tx\n2\tB\tx\n1\tC\tx\n")
    examples = read_table(path)
    message = f"{re.escape(path)}, line 3: the id '1' stands in line 1 already"
    with pytest.raises(TaskFileError, match=message):
        check_splits({"test": examples})
    # In two splits it may: GAD counts from 0 in each.
    check_splits({"train": examples[:2], "test": examples[2:]})


@pytest.mark.parametrize("folder", ["ncbi_disease", "chemprot", "gad", "hoc"])
def test_published_splits_pass(folder):
    blurb = str(reference.corpus(f"{folder}/blurb"))
    reads = {"hoc": task_files.read_hoc, "chemprot": read_table, "gad": read_gad}
    read = reads.get(folder, task_files.read_tagged_words)
    splits = {x: read(find_split(blurb, x)) for x in ("train", "dev", "test")}
    check_splits(splits)


# --- Texts without labels ------------------------------------------------------------------------


def test_a_table_of_texts_without_labels(tmp_path):
    path = tmp_path / "new.tsv"
    path.write_bytes(b"\xef\xbb\xbfnote\tSentence\tindex\r\n\tA caf\xc3\xa9.\tx\r\nn\tB\ty\r\n")
    one, two = read_unlabelled_table(str(path))
    assert (one.id, one.text, one.pair, one.label) == ("x", "A caf\u00e9.", "", "")
    assert (two.id, two.text) == ("y", "B")
    path.write_text("text\tpair\nA\tB\n")
    (pair,) = read_unlabelled_table(str(path))
    assert (pair.id, pair.text, pair.pair) == ("2", "A", "B")


@pytest.mark.parametrize(
    "text, words",
    [
        ("A text.\nAnother.\n", "line 1: expected a column text"),
        ("text\tsentence\nA\tB\n", "line 1: expected a column text"),
        ("text\tpair\nA\t \n", "line 2: expected a pair in column 2, found none"),
        ("text\tid\nA\n", "line 2: expected 2 tab-separated columns"),
        ("text\n", "line 1: there is no example"),
    ],
)
def test_a_table_of_texts_that_is_not_so(tmp_path, text, words):
    path = tmp_path / "new.tsv"
    path.write_text(text)
    with pytest.raises(TaskFileError, match=words):
        read_unlabelled_table(str(path))


def test_what_unpacks_to_far_more_than_text_does_is_refused(write):
    path = write(gzip.compress(bytes(10_000_000)) * 30, "train.tsv.gz")
    with pytest.raises(TaskFileError, match="compressed too far to be text"):
        read_text(path)
