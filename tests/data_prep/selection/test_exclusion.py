"""Tests what --exclude drops: real benchmarks in their own formats, and real abstracts."""

import itertools
import json
import re
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest

from data_prep.readers import input_files, pubmed
from data_prep.selection import exclusion
from tests import reference, shipped_citations
from tests.data_prep.selection.benchmark_texts import MASKED, SENTENCE, lines_of, reason


@pytest.fixture(scope="module")
def abstracts():
    """Returns 3,000 real articles' titles and abstracts together."""
    texts = []
    for path in input_files.shipped_files(".xml.gz"):
        result = (c for c in pubmed.read_citations(path) if c.sections)
        for c in itertools.islice(result, 1500):
            texts.append(" ".join([c.title, *(t for *_, t in c.sections)]))
    return texts


def printed(tokens):
    """Tokens as a journal prints them: no space before or after punctuation that wants none."""
    text = " ".join(tokens)
    text = re.sub(r" ([-/,.;:)\]%]|')", r"\1", text)
    return re.sub(r"([-/(\[]) ", r"\1", text).replace("beta", "β")


def documents_of(path, sentences=8):
    """Yields the tokens of a file with a token a line, by every so many sentences."""
    result, document = [], [[]]
    for line in lines_of(path):
        if line.startswith("-DOCSTART-"):
            continue
        if line.strip():
            document[-1].append(line.split()[0])
        elif document[-1]:
            document.append([])
        if len(document) > sentences:
            result.append(list(itertools.chain(*document)))
            document = [[]]
    return result


# --- Texts -------------------------------------------------------------------------------------


def test_a_sentence_is_found_however_it_was_published(load):
    tokens = re.findall(r"\w+|[^\w\s]", SENTENCE)
    penn = [{"(": "-LRB-", ")": "-RRB-"}.get(token, token) for token in tokens]
    article = f"Copper. We report on it. {SENTENCE} It was severe."
    words = SENTENCE.split()
    pairs = list(itertools.zip_longest(words[::2], words[1::2], fillvalue=""))
    for content in (
        SENTENCE,
        f"id,{SENTENCE},label",
        f"3\t{SENTENCE}\tfalse",
        f"3\t{MASKED}\tfalse",
        "".join(f"{token}\tO\n" for token in tokens),
        "".join(f"{token} NN O O\n" for token in penn),
        json.dumps({"data": [{"paragraphs": [{"context": SENTENCE}]}]}),
        f"<a><b>Copper.</b>{SENTENCE}</a>",
        # Markup inside the sentence, and a paragraph of Word's.
        f"<a><s>{' '.join(f'<i>{x}</i> {y}' for x, y in pairs)}</s></a>",
        f'<d xmlns:w="w"><w:p>{"".join(f"<w:r><w:t>{x} </w:t></w:r>" for x in words)}</w:p></d>',
        f"9|a|{SENTENCE}",
        SENTENCE.replace("cause", "&quot;cause&quot;"),
    ):
        excluded = load(content)
        assert reason(excluded, article) == "text", content
        assert reason(excluded, article.upper()) == "text"
        assert reason(excluded, article.replace("hepatic copper", "renal iron")) == ""


def test_short_texts(load):
    # Eight words of two letters or more are the least; a shorter one excludes nothing.
    eight = "Copper toxicosis in Bedlington terriers maps to chromosome 10"
    excluded = load(f"{eight}\nCopper toxicosis in terriers maps there")
    assert reason(excluded, f"Background. {eight}, we find.") == "text"
    assert reason(excluded, f"Background. {eight.replace('terriers', 'dogs')}, we find.") == ""
    assert reason(excluded, "Copper toxicosis in terriers maps there") == ""
    # A masked one is found whatever the masks stand for, if all the rest is there.
    excluded = load("We suggest that the @GENE$ gene plays no major role in the risk of @DISEASE$")
    text = "We suggest that the {} gene plays no major role in the {} of Graves' disease."
    assert reason(excluded, text.format("CTLA-4", "risk")) == "text"
    assert reason(excluded, text.format("CTLA-4", "course")) == ""


def test_runs_at_their_length(load):
    words = [f"word{chr(97 + i)}" for i in range(20)]
    excluded = load(" ".join(words))
    assert reason(excluded, "x y " + " ".join(words[3 : 3 + exclusion.RUN]) + " z") == "text"
    assert reason(excluded, " ".join(words[3 : 2 + exclusion.RUN])) == ""
    with_numbers = " 5 % ".join(words[: exclusion.RUN])
    assert reason(excluded, with_numbers) == "text"


def test_masked_relations_find_the_abstracts_that_they_were_made_of():
    """ChemProt, BLURB's masked sentences against the original texts: by text alone."""
    data = reference.corpus("chemprot")
    excluded = exclusion.load([str(data / "blurb/test.tsv.gz")])
    used = {line.split(".")[0] for line in lines_of(data / "blurb/test.tsv.gz")}
    with zipfile.ZipFile(data / "original/chemprot_test_gs.zip") as archive:
        table = archive.read("chemprot_test_gs/chemprot_test_abstracts_gs.tsv").decode()
    rows = [line.split("\t") for line in table.splitlines()]
    result = [reason(excluded, f"{t} {a}") == "text" for pmid, t, a in rows if pmid in used]
    print(f"ChemProt: {sum(result)} of {len(result)} abstracts")
    # Of the 8 others the file has a single short sentence, such as "@CHEMICAL$, the first
    # prostate-selective @GENE$ antagonist." Their ids are in the file, and find them.
    assert len(result) > 700 and np.mean(result) >= 0.985
    assert not [
        pmid for pmid, _, _ in rows if pmid in used and reason(excluded, "", pmid=int(pmid)) != "id"
    ]


def test_masked_interactions_find_the_documents_that_they_were_made_of():
    data = reference.corpus("ddi2013")
    excluded = exclusion.load([str(data / "blurb/test.tsv.gz")])
    used = {".".join(line.split(".")[:2]) for line in lines_of(data / "blurb/test.tsv.gz")}
    result = []
    with zipfile.ZipFile(data / "original/DDICorpus-2013.zip") as archive:
        for name in archive.namelist():
            if "Test" in name and "DDI" in name.split("/")[2] and name.endswith(".xml"):
                root = ElementTree.fromstring(archive.read(name))
                if root.get("id") in used:
                    text = " ".join(s.get("text") for s in root.iter("sentence"))
                    result.append(reason(excluded, text) == "text")
    print(f"DDI: {sum(result)} of {len(result)} documents")
    assert len(result) > 100 and np.mean(result) >= 0.97


def test_a_tokenised_file_finds_the_abstracts_as_pubmed_has_them():
    excluded = exclusion.load([str(reference.corpus("ncbi_disease/blurb/test.tsv"))])
    texts = {}
    for line in lines_of(reference.corpus("ncbi_disease/pubtator/NCBIdisease_Test.PubTator")):
        if match := re.match(r"(\d+)\|[ta]\|(.*)", line):
            texts[match[1]] = f"{texts.get(match[1], '')} {match[2]}"
    assert len(texts) == 100
    assert not [text for text in texts.values() if reason(excluded, text) != "text"]


@pytest.mark.parametrize(
    "name",
    [
        "bc5cdr_chem/blurb/test.tsv.gz",
        "bc5cdr_disease/blurb/test.tsv.gz",
        "jnlpba/blurb/test.tsv.gz",
        "jnlpba/mtl_5class/test.tsv.gz",
        "ebm_pico/scibert/test.txt.gz",
        "ebm_pico/blurb/test.tsv.gz",
        "bc2gm/blurb/dev.tsv.gz",
    ],
)
def test_tokenised_files_find_the_abstracts_as_printed(name):
    path = reference.corpus(name)
    excluded = exclusion.load([str(path)])
    result = [reason(excluded, printed(d)) == "text" for d in documents_of(path)]
    assert len(result) > 100 and all(result)


@pytest.mark.parametrize(
    "name, column, edit, share",
    [
        # With names in place of the masks.
        (
            "gad/blurb/test.tsv",
            1,
            lambda s: s.replace("@GENE$", "ERCC1").replace("@DISEASE$", "GO"),
            0.96,
        ),
        ("hoc/blurb/dev.tsv.gz", 1, lambda s: printed(s.split()), 0.99),
        ("biosses/blurb/train.tsv", 1, str, 1),
    ],
    ids=["gad", "hoc", "biosses"],
)
def test_sentences_planted_in_other_abstracts(name, column, edit, share, abstracts):
    path = reference.corpus(name)
    excluded = exclusion.load([str(path)])
    sentences = [line.split("\t")[column] for line in lines_of(path)[1:]]
    sentences = [s for s in sentences if len(s.split()) >= 12]
    result = [
        reason(excluded, f"{a[:300]} {edit(s)} {a[300:]}") == "text"
        for a, s in zip(itertools.cycle(abstracts), sentences, strict=False)
    ]
    assert np.mean(result) >= share
    assert np.mean([reason(excluded, a) == "text" for a in abstracts]) < 0.002


@pytest.mark.parametrize(
    "name, field",
    [("pubmedqa/ori_pqal.json.gz", "CONTEXTS"), ("squad/xquad.en.json.gz", "context")],
)
def test_contexts_of_questions_are_found(name, field):
    path = reference.corpus(name)
    excluded = exclusion.load([str(path)])
    content = json.loads("\n".join(lines_of(path)))
    if field == "CONTEXTS":
        texts = [" ".join(value[field]) for value in content.values()]
    else:
        texts = [p[field] for d in content["data"] for p in d["paragraphs"]]
    assert not [text for text in texts if reason(excluded, text) != "text"]


@pytest.mark.slow
def test_real_abstracts_that_all_benchmarks_together_exclude(tmp_path_factory):
    """Few, and the articles that they were made of among them."""
    names = "bc2gm bc5cdr_chem bc5cdr_disease biosses chemprot ddi2013 ebm_pico gad hoc jnlpba "
    names += "ncbi_disease pubmedqa squad"
    excluded = exclusion.load([str(reference.corpus(name)) for name in names.split()])
    result = {}
    for c in shipped_citations.read(tmp_path_factory):
        if c.sections:
            text = " ".join([c.title, *(t for *_, t in c.sections)])
            result[int(c.pmid)] = reason(excluded, text, pmid=int(c.pmid))
    by_id = {pmid for pmid, why in result.items() if why == "id"}
    by_text = {pmid for pmid, why in result.items() if why == "text"}
    print(by_id, sorted(by_text))
    assert by_id == {404962, 409732, 417361, 418433}
    # Read: sentences of BC2GM and BC5CDR are theirs, for one.
    assert {401676, 424937, 427715} <= by_text
    assert len(by_text) <= 35


# --- Files -------------------------------------------------------------------------------------


def test_what_was_read_is_said(tmp_path):
    def said(*paths):
        lines = []
        exclusion.load([str(path) for path in paths], lines.append)
        return lines

    files = {
        "a.txt": f"PMID\tsentence\n17\t{SENTENCE}\n18\tToo short to tell.\n",
        "b.txt": "17\n18\nPMC19\n",
        "c.tsv": f"labels\tsentence\tindex\n0_0\t{SENTENCE}\t17_s4\n0_0\t{MASKED}\t17_s5\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    lines = [
        f"--exclude: {tmp_path}/a.txt: 2 ids, 1 text",
        f"--exclude: {tmp_path}/b.txt: 3 ids, 0 texts",
        f"--exclude: {tmp_path}/c.tsv: 1 id, 2 texts",
    ]
    assert said(*(tmp_path / name for name in files)) == said(tmp_path) == lines
    # Of a folder with many files the sum is said.
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text(f"1{number:02}")
    assert said(tmp_path) == [f"--exclude: {tmp_path} (23 files): 23 ids, 2 texts"]


def test_a_file_may_repeat_another(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(SENTENCE)
    paths = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    assert exclusion.load(paths).digest == exclusion.load(paths[:1]).digest


def test_the_same_whatever_names_it(tmp_path, said_in_new_processes):
    """The order of files does not matter, nor the process; pickling keeps all."""
    paths = [
        str(reference.corpus(name))
        for name in (
            "squad/xquad.en.json.gz",
            "ncbi_disease/blurb",
            "pubmedqa/test_ground_truth.json",
        )
    ]
    one = exclusion.load(paths)
    assert exclusion.load(paths[::-1] + paths[:1]).digest == one.digest
    assert exclusion.load(paths[:2]).digest != one.digest
    reason(one, SENTENCE)
    program = f"from data_prep.selection import exclusion; print(exclusion.load({paths!r}).digest)"
    assert said_in_new_processes(program) == {one.digest}


def test_lookup_finds_what_a_set_finds():
    rng = np.random.default_rng(4)
    for size in (0, 1, 1000, 100_000):
        hashes = np.unique(rng.integers(0, 2**64, size, dtype=np.uint64))
        asked = np.concatenate([rng.integers(0, 2**64, 500, dtype=np.uint64), hashes[::3]])
        result = exclusion._Lookup(hashes).find(asked)
        assert set(result.tolist()) == set(hashes.tolist()) & set(asked.tolist()), size


def test_seven_words_exclude_nothing(load):
    seven = "Copper toxicosis in Bedlington terriers maps there"
    excluded = load(f"Vitamin deficiency among elderly patients in northern Finland\n{seven}")
    assert reason(excluded, f"Background. {seven}, we find.") == ""


def test_a_part_of_fewer_than_four_words_does_not_make_a_masked_text_longer(load):
    known = "Vitamin deficiency among elderly patients in northern Finland"
    excluded = load(f"{known}\nRisk of the disease rises @GENE$ in older men")
    assert reason(excluded, "The risk of the disease rises with age in many people.") == ""
