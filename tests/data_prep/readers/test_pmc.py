import gzip
import io
import itertools
import random
import re
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from data_prep.readers import pmc, pmc_article
from data_prep.readers.problem import Problem
from tests import reference
from tests.data_prep.readers.pmc_files import KEPT, SHIPPED, article, content, read_one
from tfbio.formats import safe_xml

ROOT = Path(__file__).resolve().parents[3]


def test_no_real_file_is_forgotten(real):
    assert {path.name for path in real(SHIPPED[0]).parent.glob("*.nxml")} == set(SHIPPED)
    assert {path.name for path in reference.corpus("pmc_nxml").glob("*.gz")} == set(KEPT)


WHOLE = (article("<p>One.</p>") + "</article>").encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"<pmc-articleset>", b"</pmc-articleset>", id="efetch"),
        pytest.param(b"<articles>", b"</articles>", id="europe-pmc"),
        pytest.param(
            b'<OAI-PMH xmlns="http://o"><ListRecords>', b"</ListRecords></OAI-PMH>", id="oai"
        ),
    ],
)
def test_sets_of_articles(tmp_path, before, after):
    path = tmp_path / "set.xml.gz"
    record = WHOLE
    if b"OAI" in before:
        record = WHOLE.replace(b"<article ", b'<article xmlns="https://jats.nlm.nih.gov/ns/1.4/" ')
        record = b"<record><metadata>" + record + b"</metadata></record>"
    foreign = record.replace(b"article-meta>", b"other-meta>")
    path.write_bytes(gzip.compress(before + record + foreign + record * 2 + after))
    first, bad, *rest = pmc.read_articles(path)
    assert [a.name for a in (first, *rest)] == ["set.xml.gz#1", "set.xml.gz#3", "set.xml.gz#4"]
    assert {(a.pmcid, a.body[0].text) for a in (first, *rest)} == {("PMC1", "One.")}
    assert bad.name == "set.xml.gz#2"
    assert "article-meta" in bad.sentence


BOMB = b'<!DOCTYPE article [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>' + WHOLE
OUTSIDE = b'<!DOCTYPE article [<!ENTITY b SYSTEM "/etc/passwd">]>' + WHOLE.replace(b"One", b"&b;")
UNDECLARED = b'<!DOCTYPE article SYSTEM "http://x.invalid/p.dtd">' + WHOLE.replace(b"One", b"&b;")
LISTS = b"<list><list-item>" * 100 + b"</list-item></list>" * 100
BAD = [
    pytest.param(b"", "empty", id="empty"),
    pytest.param(gzip.compress(WHOLE)[:-40], "gzip", id="truncated-gzip"),
    pytest.param(gzip.compress(WHOLE)[:-8] + b"\0" * 8, "gzip", id="checksum"),
    pytest.param(gzip.compress(b""), "no element", id="empty-gzip"),
    pytest.param(WHOLE[: len(WHOLE) // 2], "XML", id="truncated-xml"),
    pytest.param(WHOLE[:5], "XML", id="truncated-in-the-root"),
    pytest.param(b"A title. A text.", "XML", id="text"),
    pytest.param(b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "XML", id="binary"),
    pytest.param(b"\0" * 20_000, "XML", id="zeros"),
    pytest.param(b" " * 2_000_000 + WHOLE, "no element", id="nothing-for-long"),
    pytest.param(b"<html><body>503</body></html>", "<html>", id="html"),
    pytest.param(b"<PubmedArticleSet/>", "<PubmedArticleSet>", id="pubmed"),
    pytest.param(b"<pmc-articleset><Reply/></pmc-articleset>", "no article", id="empty-set"),
    pytest.param(b"<article/>", "article-meta", id="no-metadata"),
    pytest.param(BOMB, "entities", id="bomb"),
    pytest.param(OUTSIDE, "entities", id="external-entity"),
    pytest.param(WHOLE.replace(b"One", b"<i>" * 100_000), "XML", id="deep"),
    pytest.param(WHOLE.replace(b"<p>One.</p>", LISTS), "nested deeper", id="deep-lists"),
    pytest.param(WHOLE.replace(b"One", b"a" * 11_000_000), "XML", id="huge-text"),
    pytest.param(WHOLE.replace(b"One", b"<i/>" * 3_000_000), "longer than", id="huge-article"),
]


@pytest.mark.parametrize("name", ["pone.0046493.nxml", "elife-00666.xml.gz"])
def test_undeclared_entities_cost_no_article(tmp_path, real, name):
    path = tmp_path / "article.nxml"

    def read(entities, mark=b""):
        data = re.sub(rb"<p>(?=\w)", rb"<p>" + entities + mark, content(real(name)))
        path.write_bytes(data)
        with_doctype = read_one(path)
        path.write_bytes(re.sub(rb"<!DOCTYPE[^>]*>", b"", data))
        assert b"<!DOCTYPE" in data and read_one(path) == with_doctype
        return with_doctype, data.count(entities)

    named, count = read(b"a&nbsp;&mgr;&alpha;&Eacute;&NotEqualTilde;&x-y.z;&lt;")
    plain, _ = read("a \ufffd\u03b1\u00c9\u2242\u0338\ufffd&lt;".encode())
    assert named == plain and count > 20
    read(b"a&nbsp;&mgr;&x-y.z;")
    unknown = Counter()
    list(pmc.read_articles(path, unknown))
    assert unknown == {"mgr": count, "x-y.z": count}
    outside = UNDECLARED.replace(b"http://x.invalid/p.dtd", b"/etc/passwd")
    path.write_bytes(outside)
    assert read_one(path).body[0].text == "\ufffd."


@pytest.mark.parametrize(("data", "expected"), BAD)
def test_bad_files_are_refused(tmp_path, monkeypatch, data, expected):
    if expected == "longer than":
        monkeypatch.setattr(pmc, "MAX_ARTICLE_BYTES", 10_000_000)
    path = tmp_path / "bad.xml"
    path.write_bytes(data)
    with pytest.raises(safe_xml.BadFile) as caught:
        list(pmc.read_articles(path))
    sentence = str(caught.value)
    assert expected in sentence
    assert "\n" not in sentence
    assert "root:" not in sentence


def archive(path, members, compressed=True):
    """Writes a package of (name, bytes or a changed TarInfo)."""
    with tarfile.open(path, "w:gz" if compressed else "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            if isinstance(data, dict):
                for key, value in data.items():
                    setattr(info, key, value)
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("compressed", [True, False])
def test_a_package_with_good_and_bad_members(tmp_path, real, monkeypatch, compressed):
    monkeypatch.setattr(pmc, "MAX_ARTICLE_BYTES", 1_000_000)
    files = [real(name) for name in SHIPPED]
    members = [(f"J_{index}/{path.name}", path.read_bytes()) for index, path in enumerate(files)]
    bad = [
        ("../evil.nxml", WHOLE),
        ("/etc/evil.nxml", WHOLE),
        ("a\\..\\..\\evil.nxml", WHOLE),
        ("a/../../passwd", b"x"),
        ("link.nxml", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
        ("hard.nxml", {"type": tarfile.LNKTYPE, "linkname": members[0][0]}),
        ("pipe.nxml", {"type": tarfile.FIFOTYPE}),
        ("device.nxml", {"type": tarfile.CHRTYPE}),
        ("empty.nxml", b""),
        ("cut.nxml", members[0][1][:5000]),
        ("bomb.XML", BOMB),
        ("html.xml", b"<html/>"),
        ("bare.xml", b"<article/>"),
        ("zeros.xml", b"\0" * 30_000_000),
        ("long.xml", WHOLE.replace(b"One", b"<i/>" * 1_000_000)),
    ]
    passed_over = [("J_0/figure.jpg", b"\xff\xd8" * 1000), ("J_0", {"type": tarfile.DIRTYPE})]
    mixed = [*passed_over]
    for good, group in itertools.zip_longest(members, pairs(bad)):
        mixed += [*([good] if good else []), *(group or [])]
    path = archive(tmp_path / "package.bin", mixed, compressed)
    assert pmc.is_archive(path)
    before = sorted(tmp_path.iterdir())
    result = list(pmc.read_articles(path))
    assert [a.name for a in result if isinstance(a, pmc_article.FullText)] == [
        name for name, _ in members
    ]
    assert [a.body for a in result if isinstance(a, pmc_article.FullText)] == [
        read_one(path).body for path in files
    ]
    problems = {p.name: p.sentence for p in result if isinstance(p, Problem)}
    assert problems.keys() == {name for name, _ in bad}
    assert not [s for s in problems.values() if not (s.endswith(".") and "\n" not in s)]
    assert sorted(tmp_path.iterdir()) == before  # nothing was unpacked


def pairs(items):
    return [items[index : index + 2] for index in range(0, len(items), 2)]


@pytest.mark.parametrize("compressed", [True, False])
def test_a_package_cut_short_gives_what_came_before(tmp_path, real, compressed):
    members = [(name, real(name).read_bytes()) for name in SHIPPED]
    path = archive(tmp_path / "whole.tar", members, compressed)
    whole = path.read_bytes()
    length = len(whole.rstrip(b"\0")) if not compressed else len(whole)
    cuts = [length * part // 10 for part in range(1, 10)] + [length - 1]
    if not compressed:
        with tarfile.open(path) as tar:  # between two members, in a header, in the padding
            cuts += [tar.getmembers()[4].offset + extra for extra in (0, 10, -10)]
    for cut in cuts:
        path.write_bytes(whole[:cut])
        result = []
        with pytest.raises(safe_xml.BadFile, match="archive|gzip") as caught:
            for article in pmc.read_articles(path):
                result.append(article)
        assert "\n" not in str(caught.value)
        assert [a.name for a in result] == list(SHIPPED[: len(result)])
        if cut == length - 1:
            assert len(result) == 8 if compressed else len(result) >= 7


def test_a_damaged_package_is_never_read_in_silence(tmp_path):
    """Each damage is named, or did not touch what is read."""
    members = [(f"{n}.nxml", WHOLE.replace(b"One", b"Number %d" % n)) for n in range(20)]
    path = archive(tmp_path / "package.tar", members, compressed=False)
    whole, expected = path.read_bytes(), list(pmc.read_articles(path))
    draw = random.Random(0)
    damaged = 0
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 4))):
            position = draw.randrange(len(whole.rstrip(b"\0")))
            data[position] = draw.randrange(256)
        path.write_bytes(data)
        result = []
        try:
            for article in pmc.read_articles(path):
                result.append(article)
        except safe_xml.BadFile:
            damaged += 1
            continue
        problems = sum(isinstance(article, Problem) for article in result)
        damaged += problems > 0
        assert len(result) == len(expected) or problems
    assert damaged > 30


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param([("a.jpg", b"x")], "no PMC article", id="no-article"),
        pytest.param([("a.nxml", b"<html/>")], "no PMC article", id="only-bad-ones"),
    ],
)
def test_a_package_without_articles(tmp_path, members, expected):
    path = archive(tmp_path / "package.tar.gz", members)
    with pytest.raises(safe_xml.BadFile, match=expected):
        list(pmc.read_articles(path))


def test_a_package_with_a_huge_header_or_a_bomb(tmp_path, monkeypatch):
    path = tmp_path / "package.tar.gz"
    info = tarfile.TarInfo("x" * 50_000_000)  # in a header as long
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        tar.addfile(info)
    with pytest.raises(safe_xml.BadFile, match="header is too long"):
        list(pmc.read_articles(path))
    monkeypatch.setattr(pmc, "MIN_BOMB_BYTES", 10_000_000)
    archive(path, [("good.nxml", WHOLE), ("movie.mpg", b"\0" * 50_000_000)])
    articles = pmc.read_articles(path)
    assert next(articles).pmcid == "PMC1"
    with pytest.raises(safe_xml.BadFile, match="compressed too far"):
        next(articles)


def test_is_archive_goes_by_content(tmp_path, real):
    assert not pmc.is_archive(real(SHIPPED[0]))
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(WHOLE))
    assert not pmc.is_archive(path)
    assert read_one(path).pmcid == "PMC1"


# getrusage would count what the parent process held when it started this one.
MEASURE = """
import re, sys
from data_prep.readers import pmc, pmc_article, pmc_paragraphs
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024
articles = pmc.read_articles(sys.argv[1])
for _ in range(100):
    next(articles)
before = peak()
print(100 + sum(1 for _ in articles), before, peak())
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["package", "set"])
def test_memory_does_not_grow_with_the_file(tmp_path, real, kind):
    data = [real(name).read_bytes() for name in SHIPPED]
    data = [d[re.search(rb"<article[ >]", d).start() :] for d in data]
    path = tmp_path / "big"
    copies = 110  # 80 MB
    if kind == "set":
        with open(path, "wb") as stream:
            stream.write(b"<pmc-articleset>")
            for _ in range(copies):
                stream.writelines(data)
            stream.write(b"</pmc-articleset>")
    else:
        with tarfile.open(path, "w:gz", compresslevel=1) as tar:
            for copy in range(copies):
                for index, xml_ in enumerate(data):
                    info = tarfile.TarInfo(f"{copy}/{index}.nxml")
                    info.size = len(xml_)
                    tar.addfile(info, io.BytesIO(xml_))
                for index in range(400):  # the archive must not remember its members either
                    tar.addfile(tarfile.TarInfo(f"{copy}/{index}.jpg"))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    count, before, after = map(int, done.stdout.split())
    print(f"{kind}: {count} articles, {before} MB after 100 of them, {after} MB at the end")
    assert count == copies * len(data)
    assert after - before < 10
