"""Tests how benchmarks in their own formats are read."""

import bz2
import datetime
import gzip
import io
import json
import os
import resource
import tarfile
import zipfile
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from data_prep.selection import benchmark_files, exclusion
from tests import reference
from tests.data_prep.locked_folders import refuse_locked
from tests.data_prep.selection.benchmark_texts import MASKED, SENTENCE, lines_of, reason
from tfbio.base import errors


@pytest.mark.parametrize(
    "content, pmids, pmcids",
    [
        ("123\n45678901\n\n9\n", [9, 123, 45678901], []),
        ("PMID:123, pmid:7;PMC45\r\npmcid:PMC6", [7, 123], [6, 45]),
        ("123.txt,train/MedLine/45.xml,99.nxml", [45, 99, 123], []),
        ("\ufeff17\n18", [17, 18], []),
        ("pmid\n17\n18\n", [17, 18], []),
        ("PMCID\r\nPMC17\r\n", [], [17]),
        ("[17, 18]", [17, 18], []),
        ('["17", "PMID:18", "PMC19"]', [17, 18], [19]),
        (f'pmid,label,text\n17,yes,"{SENTENCE}"\n18,no,"A, ""b"" c."\n', [17, 18], []),
        (f'text\tPMID\tpmcid\n{SENTENCE}\t17\t\n"A, B" c.\t"18"\tPMC19\n', [17, 18], [19]),
        (f'"pmid"\tlabel\ttext\n17\tyes\t{SENTENCE}\n\n18\n19\tno\ta\tb\n', [17, 18, 19], []),
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


def test_lines_may_end_as_on_old_macs():
    ids, texts = benchmark_files.read(
        b"17|t|Copper transport.\r17|a|It is seen in man.\r\r18|t|b\r"
    )
    assert ids == {"17", "18"} and {"Copper transport.", "b"} <= texts


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c"])
def test_lines_end_at_line_feeds_alone(inside):
    """Others, which end a line for Unicode, may stand in the texts of JSON and of tables."""
    text = f"Copper transport{inside}in man."
    contents = [
        f"label\ttext\tpmid\r\nyes\t{text}\t17\r\nno\tb\t18\r\n",
        f"17|a|{text}\n18|t|b\n",
    ]
    if inside > "\x1f":  # JSON escapes those before it
        contents.append(f'{{"pmid": 17, "s": "{text}"}}\n{{"pmid": 18, "s": "b"}}\r\n')
    for content in contents:
        ids, texts = benchmark_files.read(content.encode())
        assert ids == {"17", "18"} and {text, "b"} <= texts, content
    lines = f"0\t{text}\tyes\r\n1\tb\tno\r\n"
    assert benchmark_files.read(lines.encode()) == (set(), {"0", text, "yes", "1", "b", "no"})


@pytest.mark.parametrize(
    "content",
    [
        f"0\t{SENTENCE}\t1\n17\t{SENTENCE}\t0\n",  # a running number (GAD)
        f"17\t{SENTENCE}\n",
        f'id,sentence,label\n17,"{SENTENCE}",1\n',
        f"In 17 of 18 cases (17): {SENTENCE}",
        "-DOCSTART- 95369245\n\n" + "".join(f"{w}\tO\n" for w in SENTENCE.split()),  # no PMID
        json.dumps({"17": {"context": SENTENCE}, "ids": ["18", 19]}),
        json.dumps([{"id": "17", "text": SENTENCE}]),
        json.dumps(["17", SENTENCE]),
        f"id\tsentence\n17\t{SENTENCE}\n",
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


def _locked_zip():
    """Returns a zip archive whose headers say that its file is encrypted."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.txt", SENTENCE)
    data = bytearray(stream.getvalue())
    data[6] |= 1  # the general-purpose flags of the file's own header
    data[data.index(b"PK\1\2") + 8] |= 1  # and of the directory's
    return bytes(data)


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("empty.txt", b"", "holds neither PMIDs nor text"),
        ("short.txt", b"too short\n", "holds neither PMIDs nor text"),
        ("model.bin", b"\0\1\2", "holds neither PMIDs nor text"),
        ("seven.txt", b"copper toxicosis in bedlington terriers maps there", "of 8 words or more"),
        ("cut.gz", gzip.compress(SENTENCE.encode() * 9)[:-20], "cannot be read"),
        ("bad.zip", b"PK\x03\x04 and no more", "cannot be read"),
        ("locked.zip", _locked_zip(), r"cannot be read \(.*password"),
        ("deep.json", b"[" * 100_000, "nested too deep"),
        ("negative.json", b"[-5, 17]", "holds neither PMIDs nor text"),
        ("pmcid.json", b"[-12345]", "holds neither PMIDs nor text"),
        ("large.json", b"[17, 4294967298]", "holds neither PMIDs nor text"),
    ],
)
def test_bad_files_are_named(load, name, content, message):
    with pytest.raises(errors.UserError, match=message) as error:
        load(content, name)
    assert name in str(error.value) and str(error.value).startswith("--exclude: ")
    assert str(error.value).count("\n") == 0


def test_a_missing_file_is_named():
    with pytest.raises(errors.UserError, match="--exclude: nowhere.txt does not exist"):
        exclusion.load(["nowhere.txt"])


def test_only_plain_numbers_are_ids():
    for text in (
        b"-5\n+7\n",
        "\u0665\u0665\n".encode(),
        b"1e5\n",
        b"1_000",
        b'{"pmid": -5}',
        b"[true]",
    ):
        assert benchmark_files.read(text)[0] == set()
    assert benchmark_files.read(b"0055\nPMC12\n")[0] == {"0055", "PMC12"}


def test_entities_are_not_expanded(load, tmp_path):
    (tmp_path / "secret").write_text(SENTENCE)
    xml = f'<!DOCTYPE a [<!ENTITY e SYSTEM "{tmp_path}/secret">]><a>{MASKED}<b>&e;</b></a>'
    assert load(xml).runs.size + load(xml).anchors.size == load(MASKED).runs.size + 1


def test_a_small_file_takes_little_memory(load):
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 29), hard))
    try:
        assert load("7\n8\n").pmids.tolist() == [7, 8]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_a_short_sentence_of_a_table_is_matched_whatever_parts_the_columns(load):
    """One of fewer telling words than a window: all of it must be in the text."""
    short = "In patients with leukaemia imatinib inhibits the BCR-ABL kinase."
    for content in (f"text\tlabel\n{short}\tyes\n", f"text,label\n{short},yes\n"):
        assert reason(load(content), short) == "text", content


def test_folders_behind_links_are_read_and_locked_ones_named(tmp_path, load, monkeypatch):
    whole = load(f"{SENTENCE}\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/a.tsv").write_text(SENTENCE)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/task").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "in")
    assert exclusion.load([str(tmp_path / "in")]).digest == whole.digest
    (tmp_path / "in/locked").mkdir()
    monkeypatch.setattr(os, "scandir", refuse_locked(os.scandir))
    with pytest.raises(errors.UserError, match="--exclude: .*in/locked cannot be listed: Perm"):
        exclusion.load([str(tmp_path / "in")])


def test_files_that_are_no_text_are_named(tmp_path):
    def said():
        lines = []
        exclusion.load([str(tmp_path / "in")], lines.append)
        return lines

    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("17\n")
    with zipfile.ZipFile(tmp_path / "in/e.zip", "w") as archive:
        archive.writestr("f.pdf", b"%PDF-1.4 ")
    no_text = {"b.tsv": SENTENCE.encode("utf-16"), "c.bz2": bz2.compress(SENTENCE.encode())}
    for name, content in no_text.items():
        (tmp_path / "in" / name).write_bytes(content)
    (tmp_path / "in/d.tsv").symlink_to(tmp_path / "nowhere")
    assert said() == [
        f"--exclude: {tmp_path}/in/a.txt: 1 id, 0 texts",
        *(
            f"--exclude: {tmp_path}/in/{name}: skipped, it is no text"
            for name in ("b.tsv", "c.bz2", "d.tsv", "e.zip/f.pdf")
        ),
    ]
    for number in range(20):
        (tmp_path / "in" / f"{number}.bin").write_bytes(b"\0")
    assert said()[1:] == [f"--exclude: {tmp_path}/in: 24 files are skipped, they are no text"]


def test_of_a_path_without_text_the_files_are_said_before_the_error(tmp_path):
    (tmp_path / "a.tsv").write_bytes(SENTENCE.encode("utf-16"))
    lines = []
    with pytest.raises(errors.UserError, match="holds neither PMIDs nor text"):
        exclusion.load([str(tmp_path / "a.tsv")], lines.append)
    assert lines == [f"--exclude: {tmp_path}/a.tsv: skipped, it is no text"]


def test_parquet_is_read_as_rows(tmp_path, load):
    rows = [
        {"pmid": 17, "tokens": SENTENCE.split(), "tags": [0, 1], "day": datetime.date(2020, 1, 1)},
        {"pmid": 18, "tokens": None, "tags": None, "day": None},
    ]
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), stream)
    for content in (stream.getvalue(), gzip.compress(stream.getvalue())):
        excluded = load(content, "train-00000-of-00001.parquet")
        assert excluded.pmids.tolist() == [17, 18]
        assert reason(excluded, SENTENCE) == "text"
    with pytest.raises(errors.UserError, match=r"--exclude: .*cut.parquet is no file of Parquet"):
        load(stream.getvalue()[:-20], "cut.parquet")
    # PAR1 is a gene.
    assert reason(load(f"PAR1 {SENTENCE}"), SENTENCE) == "text"


def test_tokens_of_json_are_a_sentence(load):
    penn = SENTENCE.replace("(", "-LRB- ").replace(")", " -RRB-").split()
    for content in (
        [{"tokens": SENTENCE.split()}],
        [{"tokens": penn, "ner_tags": ["O"] * len(penn)}],
        [[[*penn, ""], ["It", "is", "."]]],
    ):
        assert reason(load(json.dumps(content)), SENTENCE) == "text", content
    # Neither tags nor addresses are words of a text.
    url = "http://www.ncbi.nlm.nih.gov/pubmed/"
    others = {"documents": [f"{url}{n}" for n in range(1, 9)], "tags": ["B-Some-long-type"] * 9}
    ids, texts = benchmark_files.read(json.dumps(others).encode())
    assert ids == set("12345678")
    assert not [text for text in texts if " " in text]


def test_types_with_blanks_are_tags(load):
    words = SENTENCE.split()
    for tag in ("O", "B-B-Cell line", "I-Disease or syndrome"):
        excluded = load("".join(f"{word}\t{tag}\n" for word in words))
        assert reason(excluded, SENTENCE) == "text", tag
