"""What --exclude reads and drops: real benchmarks in their own formats, and real abstracts."""

import gzip
import io
import itertools
import json
import pickle
import re
import resource
import tarfile
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from data_prep.readers import input_files, pubmed
from data_prep.selection import benchmark_files, exclusion, fingerprints
from tests import reference
from tfbio.base import cli

SENTENCE = (
    "Mutations of the ATP7B gene cause Wilson disease, an inherited disorder of hepatic copper "
    "transport in man (n = 12)."
)
MASKED = SENTENCE.replace("ATP7B", "@GENE$").replace("Wilson disease", "@DISEASE$")


def reason(excluded, text, **ids):
    return excluded.reason(fingerprints.words(text), **ids)


@pytest.fixture
def load(tmp_path):
    """Loads text as a file of one name."""

    def write(content, name="file.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return exclusion.load([str(path)])

    return write


@pytest.fixture(scope="module")
def abstracts():
    """3,000 real articles' titles and abstracts together."""
    texts = []
    for path in input_files.shipped_files(".xml.gz"):
        found = (c for c in pubmed.read_citations(path) if c.sections)
        for c in itertools.islice(found, 1500):
            texts.append(" ".join([c.title, *(t for *_, t in c.sections)]))
    return texts


def lines_of(path):
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    return content.decode().splitlines()


def printed(tokens):
    """Tokens as a journal prints them: no space before or after punctuation that wants none."""
    text = " ".join(tokens)
    text = re.sub(r" ([-/,.;:)\]%]|')", r"\1", text)
    return re.sub(r"([-/(\[]) ", r"\1", text).replace("beta", "β")


def documents_of(path, sentences=8):
    """The tokens of a file with a token a line, by every so many sentences."""
    found, document = [], [[]]
    for line in lines_of(path):
        if line.startswith("-DOCSTART-"):
            continue
        if line.strip():
            document[-1].append(line.split()[0])
        elif document[-1]:
            document.append([])
        if len(document) > sentences:
            found.append(list(itertools.chain(*document)))
            document = [[]]
    return found


# --- Ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, pmids, pmcids",
    [
        ("123\n45678901\n\n9\n", [9, 123, 45678901], []),
        ("PMID:123, pmid:7;PMC45\r\npmcid:PMC6", [7, 123], [6, 45]),
        ("123.txt,train/MedLine/45.xml,99.nxml", [45, 99, 123], []),
        ("\ufeff17\n18", [17, 18], []),
        (f"17|t|A title\n17|a|{SENTENCE}\n17\t0\t5\tMutat\tDisease\tD1\n", [17], []),
        (f"-DOCSTART- (17)\n\nMutations\tO\nof\tO\nX\tB\n\n{SENTENCE[:0]}", [17], []),
        (f"17.T1.T22\t{MASKED}\tCPR:3\n", [17], []),
        (f"labels\tsentence\tindex\n0_0\t{SENTENCE}\t17_s4\n", [17], []),
        (json.dumps({"17": {"CONTEXTS": [SENTENCE]}, "18": {"CONTEXTS": []}}), [17, 18], []),
        (json.dumps({"17": "yes", "18": "maybe"}), [17, 18], []),
        (json.dumps([{"pmid": 17}, {"PMID": "18"}, {"pmids": ["19", "x"]}]), [17, 18, 19], []),
        ('{"pmid": 17, "s": "a"}\n{"pmid": 18, "s": "b"}\n', [17, 18], []),
        (json.dumps({"documents": ["http://www.ncbi.nlm.nih.gov/pubmed/17"]}), [17], []),
    ],
)
def test_ids(load, content, pmids, pmcids):
    excluded = load(content)
    assert excluded.pmids.tolist() == pmids
    assert excluded.pmcids.tolist() == pmcids
    for pmid in pmids:
        assert reason(excluded, "", pmid=pmid) == "id"
        assert reason(excluded, "", pmid=pmid + 10**6, pmcid=pmid + 10**6) == ""
    for pmcid in pmcids:
        assert reason(excluded, "", pmcid=pmcid) == "id"
    assert reason(excluded, "") == ""


@pytest.mark.parametrize(
    "content",
    [
        f"0\t{SENTENCE}\t1\n17\t{SENTENCE}\t0\n",  # a running number (GAD)
        f"17\t{SENTENCE}\n",
        f"In 17 of 18 cases (17): {SENTENCE}",
        "-DOCSTART- 95369245\n\n" + "".join(f"{w}\tO\n" for w in SENTENCE.split()),  # no PMID
        json.dumps({"17": {"context": SENTENCE}, "ids": ["18", 19]}),
        json.dumps([{"id": "17", "text": SENTENCE}]),
        f'<document id="17"><sentence id="18" text="{SENTENCE}"/></document>',
    ],
)
def test_numbers_that_may_be_anything_are_no_ids(load, content):
    excluded = load(content)
    assert excluded.pmids.size == excluded.pmcids.size == 0
    assert reason(excluded, SENTENCE) == "text"


@pytest.mark.parametrize(
    "name, count",
    {
        "ebm_pico/blurb/dev.tsv.gz": 960,
        "ebm_pico/blurb/index/train_pmid.tsv": 3842,
        "hoc/blurb/index/test_pmid.tsv": 371,
        "hoc/blurb/dev.tsv.gz": 186,
        "chemprot/blurb/dev.tsv.gz": None,
        "pubmedqa/ori_pqal.json.gz": 1000,
        "pubmedqa/test_ground_truth.json": 500,
        "ncbi_disease/pubtator/NCBIdisease_Test.PubTator": 100,
        "jnlpba/blurb/dev.tsv.gz": 0,
        "gad/blurb/dev.tsv": 0,
        "squad/xquad.en.json.gz": 0,
    }.items(),
)
def test_ids_of_real_benchmarks(name, count):
    path = reference.corpus(name)
    if count is None:
        count = len({line.split(".")[0] for line in lines_of(path)})
    assert exclusion.load([str(path)]).pmids.size == count


# --- Texts -------------------------------------------------------------------------------------


def test_a_sentence_is_found_however_it_was_published(load):
    tokens = re.findall(r"\w+|[^\w\s]", SENTENCE)
    penn = [{"(": "-LRB-", ")": "-RRB-"}.get(token, token) for token in tokens]
    article = f"Copper. We report on it. {SENTENCE} It was severe."
    for content in (
        SENTENCE,
        f"id,{SENTENCE},label",
        f"3\t{SENTENCE}\tfalse",
        f"3\t{MASKED}\tfalse",
        "".join(f"{token}\tO\n" for token in tokens),
        "".join(f"{token} NN O O\n" for token in penn),
        json.dumps({"data": [{"paragraphs": [{"context": SENTENCE}]}]}),
        f"<a><b>Copper.</b>{SENTENCE}</a>",
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
    found = [reason(excluded, f"{t} {a}") == "text" for pmid, t, a in rows if pmid in used]
    print(f"ChemProt: {sum(found)} of {len(found)} abstracts")
    # Of the 8 others the file has a single short sentence, such as "@CHEMICAL$, the first
    # prostate-selective @GENE$ antagonist." Their ids are in the file, and find them.
    assert len(found) > 700 and np.mean(found) >= 0.985
    assert all(reason(excluded, "", pmid=int(pmid)) == "id" for pmid, _, _ in rows if pmid in used)


def test_masked_interactions_find_the_documents_that_they_were_made_of():
    data = reference.corpus("ddi2013")
    excluded = exclusion.load([str(data / "blurb/test.tsv.gz")])
    used = {".".join(line.split(".")[:2]) for line in lines_of(data / "blurb/test.tsv.gz")}
    found = []
    with zipfile.ZipFile(data / "original/DDICorpus-2013.zip") as archive:
        for name in archive.namelist():
            if "Test" in name and "DDI" in name.split("/")[2] and name.endswith(".xml"):
                root = ElementTree.fromstring(archive.read(name))
                if root.get("id") in used:
                    text = " ".join(s.get("text") for s in root.iter("sentence"))
                    found.append(reason(excluded, text) == "text")
    print(f"DDI: {sum(found)} of {len(found)} documents")
    assert len(found) > 100 and np.mean(found) >= 0.97


def test_a_tokenised_file_finds_the_abstracts_as_pubmed_has_them():
    excluded = exclusion.load([str(reference.corpus("ncbi_disease/blurb/test.tsv"))])
    texts = {}
    for line in lines_of(reference.corpus("ncbi_disease/pubtator/NCBIdisease_Test.PubTator")):
        if match := re.match(r"(\d+)\|[ta]\|(.*)", line):
            texts[match[1]] = f"{texts.get(match[1], '')} {match[2]}"
    assert len(texts) == 100
    assert all(reason(excluded, text) == "text" for text in texts.values())


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
    found = [reason(excluded, printed(d)) == "text" for d in documents_of(path)]
    assert len(found) > 100 and all(found)


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
    found = [
        reason(excluded, f"{a[:300]} {edit(s)} {a[300:]}") == "text"
        for a, s in zip(itertools.cycle(abstracts), sentences, strict=False)
    ]
    assert np.mean(found) >= share
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
    assert all(reason(excluded, text) == "text" for text in texts)


@pytest.mark.slow
def test_real_abstracts_that_all_benchmarks_together_exclude():
    """Few, and the articles that they were made of among them."""
    names = "bc2gm bc5cdr_chem bc5cdr_disease biosses chemprot ddi2013 ebm_pico gad hoc jnlpba "
    names += "ncbi_disease pubmedqa squad"
    excluded = exclusion.load([str(reference.corpus(name)) for name in names.split()])
    found = {}
    for path in input_files.shipped_files(".xml.gz"):
        for c in pubmed.read_citations(path):
            if c.sections:
                text = " ".join([c.title, *(t for *_, t in c.sections)])
                found[int(c.pmid)] = reason(excluded, text, pmid=int(c.pmid))
    by_id = {pmid for pmid, why in found.items() if why == "id"}
    by_text = {pmid for pmid, why in found.items() if why == "text"}
    print(by_id, sorted(by_text))
    assert by_id == {404962, 409732, 417361, 418433}
    # Read: sentences of BC2GM and BC5CDR are theirs, for one.
    assert {401676, 424937, 427715} <= by_text
    assert len(by_text) <= 35


# --- Files -------------------------------------------------------------------------------------


def test_folders_and_archives_hold_what_files_hold(tmp_path, load):
    whole = load(f"{SENTENCE}\n")
    folder = tmp_path / "folder" / "deep"
    folder.mkdir(parents=True)
    (folder / "a.tsv.gz").write_bytes(gzip.compress(SENTENCE.encode()))
    (folder / "guide.pdf").write_bytes(b"%PDF-1.4 " + MASKED.encode())
    (folder / ".DS_Store").write_bytes(b"\0\0\0\1Bud1" + SENTENCE.encode())
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("../../escape.txt", SENTENCE)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        info = tarfile.TarInfo("/absolute.txt")
        info.size = len(SENTENCE)
        archive.addfile(info, io.BytesIO(SENTENCE.encode()))
    (tmp_path / "c.tar.gz").write_bytes(content.getvalue())
    for path in (tmp_path / "folder", tmp_path / "b.zip", tmp_path / "c.tar.gz"):
        assert exclusion.load([str(path)]).digest == whole.digest
    assert not (tmp_path.parent / "escape.txt").exists()


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("empty.txt", b"", "holds neither PMIDs nor text"),
        ("short.txt", b"too short\n", "holds neither PMIDs nor text"),
        ("model.bin", b"\0\1\2", "holds neither PMIDs nor text"),
        ("seven.txt", b"copper toxicosis in bedlington terriers maps there", "of 8 words or more"),
        ("cut.gz", gzip.compress(SENTENCE.encode() * 9)[:-20], "cannot be read"),
        ("bad.zip", b"PK\x03\x04 and no more", "cannot be read"),
        ("deep.json", b"[" * 100_000, "nested too deep"),
    ],
)
def test_bad_files_are_named(load, name, content, message):
    with pytest.raises(cli.UserError, match=message) as error:
        load(content, name)
    assert name in str(error.value) and str(error.value).startswith("--exclude: ")
    assert str(error.value).count("\n") == 0


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
        f"--exclude: {tmp_path}/a.txt: 0 ids, 1 text",
        f"--exclude: {tmp_path}/b.txt: 3 ids, 0 texts",
        f"--exclude: {tmp_path}/c.tsv: 1 id, 2 texts",
    ]
    assert said(*(tmp_path / name for name in files)) == said(tmp_path) == lines
    # Of a folder with many files the sum is said.
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text(f"1{number:02}")
    assert said(tmp_path) == [f"--exclude: {tmp_path} (23 files): 23 ids, 2 texts"]


def test_a_missing_file_is_named():
    with pytest.raises(cli.UserError, match="--exclude: nowhere.txt does not exist"):
        exclusion.load(["nowhere.txt"])


def test_a_file_may_repeat_another(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(SENTENCE)
    exclusion.load([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")])


def test_only_plain_numbers_are_ids():
    for text in (b"-5\n+7\n", "\u0665\u0665\n".encode(), b"1e5\n", b"1_000", b'{"pmid": -5}'):
        assert benchmark_files.read(text)[0] == set()
    assert benchmark_files.read(b"0055\nPMC12\n")[0] == {"0055", "PMC12"}


def test_entities_are_not_expanded(load, tmp_path):
    (tmp_path / "secret").write_text(SENTENCE)
    xml = f'<!DOCTYPE a [<!ENTITY e SYSTEM "{tmp_path}/secret">]><a>{MASKED}<b>&e;</b></a>'
    assert load(xml).runs.size + load(xml).anchors.size == load(MASKED).runs.size + 1


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
    again = pickle.loads(pickle.dumps(one))
    assert again.digest == one.digest and len(pickle.dumps(one)) < 4_000_000
    program = f"from data_prep.selection import exclusion; print(exclusion.load({paths!r}).digest)"
    assert said_in_new_processes(program) == {one.digest}


def test_lookup_finds_what_a_set_finds():
    rng = np.random.default_rng(4)
    for size in (0, 1, 1000, 100_000):
        hashes = np.unique(rng.integers(0, 2**64, size, dtype=np.uint64))
        asked = np.concatenate([rng.integers(0, 2**64, 500, dtype=np.uint64), hashes[::3]])
        found = exclusion._Lookup(hashes).find(asked)
        assert set(found.tolist()) == set(hashes.tolist()) & set(asked.tolist())


def test_a_small_file_takes_little_memory(load):
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 29), hard))
    try:
        assert load("7\n8\n").pmids.tolist() == [7, 8]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
