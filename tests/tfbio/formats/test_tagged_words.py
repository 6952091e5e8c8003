"""The readers of tagged words: the published corpora, counted by other means, and other schemes."""

import re

import pytest

from tests import reference
from tests.tfbio.formats.published_corpora import LABELLED_WORDS, MENTIONS, each, raw
from tfbio.formats import tagged_words
from tfbio.formats.label_sets import labels_of
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.formats.text_files import read_text


@pytest.mark.parametrize("name, count", each(MENTIONS | LABELLED_WORDS))
def test_tagged_words_are_as_published_and_give_the_file_back(name, count):
    path = reference.corpus(name)
    text = raw(path)
    counted, scheme = (r"\tB(-\w+)?$", "BIO")
    if "ebm_pico" in name:
        counted, scheme = (r"[\t ]I-(PAR|INT|OUT)$", "IO")
    sentences = tagged_words.read(str(path), scheme=scheme)
    found = sum(tag.startswith(scheme[0]) for x in sentences for tag in x.tags)
    assert found == len(re.findall(counted, text, re.MULTILINE))
    assert found == count or count is None

    lines = text.split("\n")
    # The id is the line of the first word.
    assert not [x for x in sentences if re.split("[\t ]", lines[int(x.id) - 1])[0] != x.words[0]]
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
        assert found == listed and len(listed) == count, split


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
    read, before = (tagged_words.read(x) for x in (path, str(source)))
    assert read == before
    assert count == sum(tag[0] == "B" for sentence in before for tag in sentence.tags)
    types = labels_of(before)
    assert tagged_words.read(path, types) == before and count > 900


def test_a_document_has_the_number_of_its_line_until_the_next(write):
    """Reads it with parentheses, as in BLURB's files, and without, as in JNLPBA's."""
    lines = ["-DOCSTART- (17)", "", "a\tO", "", "b\tO", "-DOCSTART- 9", "c\tO", "-DOCSTART- -X- O"]
    read = tagged_words.read(write("\n".join([*lines, "", "d\tO"])))
    assert [(x.words, x.document) for x in read] == [
        (("a",), "17"),
        (("b",), "17"),
        (("c",), "9"),
        (("d",), ""),
    ]


@pytest.mark.parametrize("name", ["bc5cdr_chem/mtl_iob", "ncbi_disease/blurb", "jnlpba/mtl_5class"])
def test_iob1_is_read_as_its_iob2_form(write, name, capsys):
    """B becomes I unless an entity of the same type ends right before it, as CoNLL 2003 has it."""
    (source,) = reference.corpus(name).glob("test.tsv*")
    before = tagged_words.read(str(source))
    capsys.readouterr()
    lines, count = [], 0
    for sentence in before:
        last = "O"
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            touches = last[1:] == tag[1:] and last != "O"
            lines.append(f"{word}\t{tag if touches or tag == 'O' else f'I{tag[1:]}'}")
            last, count = tag, count + (tag[0] == "B" and touches)
        lines.append("")
    assert count or name == "bc5cdr_chem/mtl_iob"
    path = write("\n".join(lines))
    for types in (None, labels_of(before)):
        read = tagged_words.read(path, types)
        assert [x.tags for x in read] == [x.tags for x in before]
    # Once, though the file was read twice.
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith(f"{path} is in the scheme IOB1") and said.endswith("is read as B.")


def test_conll_2003_is_read_as_released(write):
    lines = ["-DOCSTART- -X- O O", "", "EU NNP I-NP I-ORG", "rejects VBZ I-VP O"]
    lines += ["German JJ I-NP I-MISC", "call NN I-NP O", "", "Peter NNP I-NP I-PER"]
    lines += ["Blackburn NNP I-NP I-PER", "Anna NNP B-NP B-PER", "Oslo NNP B-NP I-LOC"]
    read = tagged_words.read(write("\n".join(lines)))
    assert [sentence.tags for sentence in read] == [
        ("B-ORG", "O", "B-MISC", "O"),
        ("B-PER", "I-PER", "B-PER", "B-LOC"),
    ]


@pytest.mark.parametrize("begun", ["a\tB-x\n\n", "a\tI-y\nb\tB-x\n\n", "a\tB-x\nb\tI-x\nc\tO\n"])
def test_damaged_iob2_is_not_read_as_iob1(write, begun, capsys):
    with pytest.raises(TaskFileError, match="the tag 'I-[xy]' follows 'O': write 'B-[xy]'"):
        tagged_words.read(write(f"{begun}d\tO\ne\tI-x\n"))
    assert not capsys.readouterr().out


@pytest.mark.parametrize("single, last", ["SE", "UL"])
def test_the_scheme_is_seen_where_types_have_blanks(write, single, last):
    lines = [f"T-cells\t{single}-Cell type", "B\tB-Cell type", f"cells\t{last}-Cell type"]
    (sentence,) = tagged_words.read(write("\n".join(lines)))
    assert sentence.tags == ("B-Cell type", "B-Cell type", "I-Cell type")
