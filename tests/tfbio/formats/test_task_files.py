"""Tests what all readers of the tasks' files do, and the mistakes that they name."""

import gzip
import re

import pytest

from tests import reference
from tests.tfbio.formats.published_corpora import (
    BIOSSES,
    DOCUMENTS,
    GAD,
    INSTANCES,
    LABELLED_WORDS,
    MENTIONS,
    read_gad,
)
from tfbio.formats import bioasq_factoid, clinical_sts, hoc, squad, tagged_words
from tfbio.formats.tables import read_own_table, read_table
from tfbio.formats.task_examples import LabelledText, TaggedSentence
from tfbio.formats.task_file_errors import TaskFileError


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


def test_i2b2_relations_and_tags(write):
    path = write("index\tsentence\tlabel\nd.1\t@treatment$ for @problem$ .\tTrAP\n")
    (example,) = read_table(path, header=GAD, labels=("TrAP", "false"))
    assert example == LabelledText("d.1", "@treatment$ for @problem$ .", "TrAP")
    path = write("-DOCSTART- -X- O O\n\nno NN O\nfever NN B-problem\n. . O\n", "train.txt")
    (sentence,) = tagged_words.read(path, ("problem",))
    expected = TaggedSentence("3", ("no", "fever", "."), ("O", "B-problem", "O"))
    assert sentence == expected


@pytest.mark.parametrize("packed", [False, True])
def test_marks_line_ends_and_compression_change_nothing(write, packed):
    def saved(text):
        data = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
        return write(gzip.compress(data) if packed else data)

    # Characters within a text at which Python's splitlines would split, and blanks of other kinds.
    text = "\u00a0A\u2028b\x85c\x0b d\u00a0"
    tagged = tagged_words.read(saved(f"{text}\tB\n\n\n \nb\tO"))
    assert [x.words for x in tagged] == [(text,), ("b",)]
    table = read_table(saved(f"index\tsentence\tlabel\n1\t{text}\tx"), header=GAD)
    assert table == [LabelledText("1", text, "x")]


def read_words(path):
    return tagged_words.read(path, ("Chemical", "Disease"))


def read_io(path):
    return tagged_words.read(path, scheme="IO")


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
        (read_words, "a\tO\nb\tI-Disease\nc\tO\nd\tB-Disease\n", r"line 2: .* 'I-Disease' follows"),
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
        (
            read_words,
            "a\tB-Gene\n",
            r"line 1: the type in the tag 'B-Gene' is none of 'Chemical', 'D",
        ),
        (read_words, "a\tB\n", r"line 1: the type in the tag 'B' is none of"),
        (read_words, "a\tO\nb\t\n", r"line 2: expected a tag of the scheme BIO .* found ''"),
        (read_words, "a\tO\nb\n", r"line 2: expected 2 columns .* found 'b'"),
        (read_words, "a\tO\n\tO\n", r"line 2: expected 2 columns"),
        (read_words, "a\tO\nb\tN\tO\n", r"line 2: expected 2 columns .* found 'b\\tN\\tO'"),
        (read_words, "a N O\nb O\n", r"line 2: expected 3 columns"),
        (read_words, "O\taspirin\n", r"line 1: .*'aspirin' \(the tag seems to stand in column 1\)"),
        # A chunk's tag is none of an entity.
        (
            tagged_words.read,
            "EU NNP I-NP I-ORG\nrejects VBZ I-VP O\nGermany NNP I-NP B-ORG\n",
            r"line 1: the tag 'I-ORG' follows 'O': write 'B-ORG' where an entity begins\.$",
        ),
        (read_words, "a\tB-Disease\tB-Gene\n", r"line 1: the type .* is none of .*'Disease' \("),
        (read_words, "", r"line 1: this file is empty"),
        (read_words, "\n\n", r"line 1: there is no example"),
        (read_words, b"a\tO\nb\xff\tO\n", r"line 2: this is not text in UTF-8 \("),
        (read_words, "a\tO\n".encode("utf-16"), r"line 1: this is not text in UTF-8"),
        (read_io, "a\tI-PAR\nb\tB-PAR\n", r"line 2: expected a tag of the scheme IO .*'B-PAR'"),
        # Tables.
        (read_gad, "", r"line 1: this file is empty"),
        (read_gad, HEADER, r"line 1: there is no example"),
        (read_gad, "1\tA\t0\n", r"line 1: expected the header index, sentence, label, tab"),
        (read_gad, "index\tlabel\tsentence\n1\t0\tA\n", r"line 1: .*label in this order, .* found"),
        (
            read_gad,
            HEADER + "1\tA\t0\n2\t1\tB\n",
            r"line 3: the label 'B' is none of '0', '1' .* \(.* 2\)",
        ),
        (read_gad, HEADER + "1\tA\t0\n\n2\tB\t1\n", r"line 3: the line is empty: take it out"),
        (read_gad, HEADER + "1\tA\t0\n\n", r"line 3: the line is empty"),
        (read_gad, HEADER + "1\tA\n", r"line 2: expected 3 .*\(index, sentence, label\), found 2"),
        (read_gad, HEADER + "1\tA\tB\t0\n", r"line 2: expected 3 tab-separated columns .* found 4"),
        (read_gad, HEADER + "1\tA\t\n", r"line 2: expected a label .* found ''"),
        (read_gad, HEADER + "1\tA\t1 \n", r"line 2: expected a label .* found '1 '"),
        (read_gad, HEADER + "1\t \t1\n", r"line 2: expected a text in column 2"),
        (read_gad, HEADER + "1\tA\t2\n", r"line 2: the label '2' is none of '0', '1' \("),
        (
            read_relations,
            "1\tA\tfalse\n2\tB\n",
            r"line 2: expected 3 tab-separated columns, found 2",
        ),
        (read_relations, "false\tA\t1\n", r"line 1: the label '1' is none of.*stand in column 1\)"),
        (
            read_pairs,
            PAIRS + "1\tA\tB\tnan\n",
            r"line 2: expected a number from 0 to 4, found 'nan'",
        ),
        (read_pairs, PAIRS + "1\tA\tB\tinf\n", r"line 2: expected a number .* found 'inf'"),
        (read_pairs, PAIRS + "1\tA\tB\t4.2\n", r"line 2: expected a number .* found '4.2'"),
        (
            read_pairs,
            PAIRS + "1\tA\tB\t3,5\n",
            r"line 2: .* from 0 to 4, found '3,5': write a decimal point\.$",
        ),
        (read_pairs, PAIRS + "1\tA\tB\t\n", r"line 2: expected a number .* found ''"),
        (read_pairs, PAIRS + "1\tA\tB\t3\n2\t3\tA\tB\n", r"line 3: .* score seems .* column 2\)"),
        (read_pairs, PAIRS + "1\tA\t\t3\n", r"line 2: expected a pair in column 3"),
        (clinical_sts.read, "id\tscore\ta\tb\n1\t2\tA\tB\n", r"line 1: expected a head"),
        (
            clinical_sts.read,
            "id\ta\tb\tscore\n1\tA\tB\t5.1\n",
            r"line 2: .* from 0 to 5",
        ),
        (
            hoc.read,
            HOC + f"{FLAGS}\tA\t1_s0\nA\t{FLAGS}\t1_s1\n",
            r"line 3: .*column 2\)",
        ),
        (hoc.read, HOC + f"{FLAGS},10_0\tA\t1_s0\n", r"line 2: expected labels 0_0,1_0"),
        (
            hoc.read,
            HOC + f"{FLAGS[:-1]}2\tA\t1_s0\n",
            r"line 2: expected labels 0_0,1_0",
        ),
        (hoc.read, HOC + f"{FLAGS}\tA\t12\n", r"line 2: .* and PMID_sN\."),
        # The user's own.
        (read_own, "A\tb\nC\n", r"line 2: expected 2 tab-separated columns, found 1"),
        (
            read_own,
            "A\tB\tc\n",
            r"line 1: expected one column for each of text, label, found 'A, B",
        ),
        (read_own, "text\ttopic\nA\tb\n", r"line 1: .* name the columns in the first line"),
        (read_own, "text\tlabel\tsentence\nA\tb\tC\n", r"line 1: expected one column for each"),
        (
            read_own,
            SWAPPED,
            r"line 1: .* text, label \(the label seems .* column 1\): name the col",
        ),
        (read_own, "A\t\n", r"line 1: expected a label"),
        (read_own_scores, "A\t1\nB\tinf\n", r"line 2: expected a number, found 'inf'\.$"),
        (read_own_scores, "A\t3,5\n", r"line 1: expected a number, found '3,5': write a decimal p"),
        (read_own_scores, "1\tA\n", r"line 1: expected a number, .* to stand in column 1\)"),
        (read_own_many, "A\ta||b\n", r"line 1: expected a label .* found ''"),
        (read_own_many, "A\ta|c\n", r"line 1: the label 'c' is none of"),
        (read_own_many, "A\ta,b\n", r"line 1: the label 'a,b' .*: write bars, 'a\|b'"),
        (read_own_many, "A\ta|a\n", r"line 1: a label stands twice in 'a\|a'"),
        (read_own_many, "a|b\tA\n", r"line 1: the label 'A' is none of.* to stand in column 1\)"),
        (
            hoc.read,
            "labels\tsentence\tindex\n" + ",".join(f"{i}_0" for i in range(10)) + "\t \t1_s0\n",
            r"line 2: expected a text in column 2, found none",
        ),
        # JSON.
        (squad.read, '{"data":\n ]', r"line 2: this is not JSON"),
        (squad.read, "[" * 100_000, r"line 1: this is not JSON"),
        (squad.read, '{"data": [{"paragraphs": 1}]}', r"article 1: expected a list"),
        (squad.read, '{"data": [{"paragraphs": [{}]}]}', r"article 1, paragraph 1: exp"),
        (squad.read, '{"data": []}', r"line 1: there is no example"),
        (
            squad.read,
            '{"data": [{"paragraphs": [{"context": "A", "qas": [{"id": "1", "answers": 1}]}]}]}',
            r"question 1: expected a list as 'answers', found 1",
        ),
        (
            bioasq_factoid.read,
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
        assert said.endswith(".") and "\n" not in said, path
