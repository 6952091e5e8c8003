"""One folder with every kind of bad input beside good files, through the command itself."""

import bz2
import functools
import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from data_prep import documents
from data_prep.readers import input_files
from data_prep.running import pipeline
from data_prep.selection import input_units
from tfbio.base import errors
from tfbio.base.document_records import read_documents
from tfbio.base.manifests import read_manifest

ROOT = Path(__file__).resolve().parents[2]
ONE_WORKER = pipeline.Runner(workers=1)
# What must never be in the output: text of bad files, and of a file that some of them refer to.
MARK, SECRET = "abominable", "kept to itself"


def article(pmid, title, abstract=None):
    abstract = f"We measured {title} in {pmid} mice. It was so." if abstract is None else abstract
    return (
        f"<PubmedArticle><MedlineCitation><PMID>{pmid}</PMID><Article>"
        f"<ArticleTitle>{title}</ArticleTitle><Abstract><AbstractText>{abstract}</AbstractText>"
        "</Abstract></Article></MedlineCitation></PubmedArticle>"
    )


def article_set(*parts):
    return f"<PubmedArticleSet>{''.join(parts)}</PubmedArticleSet>"


def full_text(title="A title", ids=""):
    return (
        f"<article><front><article-meta>{ids}<title-group><article-title>{title}</article-title>"
        f"</title-group></article-meta></front><body><p>We saw {title}.</p></body></article>"
    )


def package(*members):
    """Makes a .tar.gz of (name, content); a content of None makes a link to /etc/passwd."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", format=tarfile.GNU_FORMAT) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if content is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
                archive.addfile(member)
            else:
                content = content.encode() if isinstance(content, str) else content
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def bomb(begin, filling):
    """Makes, when it is called, the gzip of a gigabyte of `filling`: about a megabyte."""

    def make():
        block = gzip.compress(filling * ((16 << 20) // len(filling)))
        return gzip.compress(begin) + block * 64

    return make


def zip_of(text):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.xml", text)
    return stream.getvalue()


WHOLE = article_set(article(901, MARK), article(902, f"more {MARK}"))
SOME = WHOLE[: -len("</PubmedArticleSet>")]
XML, CUT, LONG = "it is not well-formed XML", "the gzip data is damaged or cut short", "longer than"
ENTITIES = "it declares XML entities, which are refused"
LAUGHS = '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;">'


def with_doctype(subset, root="PubmedArticleSet", text=WHOLE):
    return f"<!DOCTYPE {root} [{subset}]>{text.replace(MARK, f'{MARK} &b;')}"


# Content by name, and what is said of it. {secret} is the path of a file that is none of the input.
BAD = {
    "cut.xml.gz": (gzip.compress(WHOLE.encode())[:-20], CUT),
    "checksum.xml.gz": (gzip.compress(WHOLE.encode())[:-8] + bytes(8), CUT),
    "no_gzip_after_all.xml.gz": (b"\x1f\x8b" + WHOLE.encode(), CUT),
    "zero.xml": (b"", "the file is empty"),
    "zero.xml.gz": (b"", "the file is empty"),
    "zero.nxml": (b"", "the file is empty"),
    "zero.tar.gz": (b"", "the file is empty"),
    "nothing.xml.gz": (gzip.compress(b""), XML),
    "broken.xml": (SOME + "<PubmedArticle></wrong>" + article(903, MARK), XML),
    "ends.xml": (SOME, XML),
    "two_roots.xml": (WHOLE + WHOLE, XML),
    "nul.xml": (SOME + "\0" + article(903, MARK) + "</PubmedArticleSet>", XML),
    "not_utf8.xml": (SOME.encode() + b"<x>\xe9t\xe9</x></PubmedArticleSet>", XML),
    "encoding.xml": ('<?xml version="1.0" encoding="klingon"?>' + WHOLE, XML),
    "deep.xml": (SOME + "<i>" * 5000 + "</i>" * 5000 + "</PubmedArticleSet>", XML),
    "bomb.xml": (with_doctype(LAUGHS), ENTITIES),
    "bomb.nxml": (with_doctype(LAUGHS, "article", full_text(MARK)), ENTITIES),
    "outside.xml": (with_doctype('<!ENTITY b SYSTEM "file://{secret}">'), ENTITIES),
    "outside.nxml": (
        with_doctype('<!ENTITY b SYSTEM "{secret}">', "article", full_text(MARK)),
        ENTITIES,
    ),
    "parameter.xml": (with_doctype('<!ENTITY % p SYSTEM "{secret}.dtd"> %p;'), "entit"),
    "blank.xml.gz": (bomb(b"", b" "), "its first 1,000,000 bytes hold no element"),
    "zeros.xml.gz": (bomb(b"", bytes(16)), XML),
    "text.xml.gz": (bomb(SOME.encode(), b" "), XML),
    "elements.xml.gz": (bomb(SOME.encode(), b"<x/>"), "a citation in it is " + LONG),
    "text.nxml.gz": (bomb(b"<article>", b" "), XML),
    "one_text.xml": (lambda: SOME + "<x>" + "all one word" * 1_000_000, XML),
    "html.xml": (f"<html><body>{MARK}, 503</body></html>", "its root is <html>"),
    "json.xml": (b'{"pmid": 1}', XML),
    "scan.xml": (b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj", XML),
    "photo.xml": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), XML),
    "bzip2.xml": (bz2.compress(WHOLE.encode()), XML),
    "zip.xml": (zip_of(WHOLE), XML),
    "cut.tar.gz": (
        package(("a.nxml", full_text(MARK)), ("b.nxml", full_text(MARK)))[:-20],
        CUT,
    ),
    "pictures.tar.gz": (package(("a.jpg", b"\xff\xd8")), "holds no PMC article"),
    "text.tar": (b"no archive", XML),
}
PACKAGE = [
    ("PMC1/../../out.nxml", full_text(MARK), "its name leads out of the archive"),
    ("/tmp/absolute.nxml", full_text(MARK), "its name leads out of the archive"),
    ("..\\windows.nxml", full_text(MARK), "its name leads out of the archive"),
    ("link.nxml", None, "it is a link or a device"),
    ("zero.nxml", "", "the file is empty"),
    ("cut.nxml", full_text(MARK)[:-5], XML),
    ("bomb.nxml", BAD["bomb.nxml"][0], ENTITIES),
    ("caf\udce9\n.nxml", "<article>", XML),
]
# What is neither a file nor a folder, by what makes it.
ODD = {
    "pipe.xml": (os.mkfifo, "it is not a file, but a folder, a pipe or a device"),
    "dangling.nxml": (functools.partial(os.symlink, "gone"), "it cannot be read (No such file"),
    "circle.xml": (functools.partial(os.symlink, "circle.xml"), "it cannot be read (Too many"),
}
ODD_NAME = "sp\u00e4t \n\x1b[31m\udce9.xml"


@pytest.fixture(scope="module")
def good(pubmed_slice, tmp_path_factory):
    """Returns a folder of files of which nothing may be lost."""
    folder = tmp_path_factory.mktemp("good")
    # A real file as it is, with the DOCTYPE that PubMed's have; and one in other encodings.
    old, new = sorted(pubmed_slice.iterdir())
    (folder / new.name).write_bytes(new.read_bytes())
    text = gzip.decompress(old.read_bytes()).decode()
    assert "<!DOCTYPE PubmedArticleSet PUBLIC" in text and 'encoding="utf-8"' in text
    text = text.replace('encoding="utf-8"', 'encoding="utf-16"')
    (folder / "utf16.xml.gz").write_bytes(gzip.compress(text.encode("utf-16")))
    latin = article_set(article(801, "M\u00e9ni\u00e8re's disease"))
    declared = '<?xml version="1.0" encoding="iso-8859-1"?>'
    (folder / "latin1.xml").write_bytes((declared + latin).encode("latin-1"))
    (folder / ODD_NAME).write_text(article_set(article(802, "odd names")))
    (folder / "A copy.XML").write_text(article_set(article(802, "odd names")))
    (folder / "one line.xml").write_text(
        article_set(*(article(n, f"number {n}") for n in (803, 804)))
    )
    shipped = [Path(path) for path in input_files.shipped_files() if path.endswith(".nxml")]
    (folder / "sub").mkdir()
    (folder / "sub" / shipped[0].name).write_bytes(shipped[0].read_bytes())
    (folder / "package.tar.gz").write_bytes(
        package(*((f"PMC/{path.name}", path.read_bytes()) for path in shipped[1:4]))
    )
    return folder


@pytest.fixture(scope="module")
def everything(good, tmp_path_factory):
    """Returns a folder with the same files, with bad ones and bad members of the package."""
    base = tmp_path_factory.mktemp("everything")
    folder = base / "in"
    folder.mkdir()
    for path in good.rglob("*"):
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    with tarfile.open(good / "package.tar.gz") as whole:
        contents = [(m.name, whole.extractfile(m).read()) for m in whole.getmembers()]
    contents[1:1] = [(name, content) for name, content, _ in PACKAGE]
    (folder / "package.tar.gz").write_bytes(package(*contents))

    secret = base / "secret"
    secret.write_text(SECRET)
    Path(f"{secret}.dtd").write_text(f'<!ENTITY b "{SECRET}">')
    for name, (content, _) in BAD.items():
        content = content() if callable(content) else content
        if isinstance(content, str):
            content = content.replace("{secret}", str(secret)).encode()
        (folder / name).write_bytes(content)
    for name, (make, _) in ODD.items():
        make(folder / name)
    (folder / "folder.xml").mkdir()
    (folder / "folder.xml" / "round").symlink_to(folder)
    (folder / "notes.txt").write_text(MARK)
    return folder


@pytest.fixture(scope="module")
def outcome(everything, command, tmp_path_factory):
    """Returns the process of the command, and the folder that it wrote."""
    output = tmp_path_factory.mktemp("out") / "documents"
    done = command(
        "documents",
        # One of the files once more: it is read once.
        f"--input={everything},{everything}/latin1.xml",
        f"--output={output}",
        "--workers=2",
    )
    assert done.returncode == 0, done.stderr
    return done, output


def expected_problems():
    said = {name: sentence for name, (_, sentence) in (BAD | ODD).items()}
    for name, _, sentence in PACKAGE:
        said["package.tar.gz: " + name.replace("\n", "\\n").replace("\udce9", "\\udce9")] = sentence
    return said


def test_every_bad_file_is_named_and_counted(outcome):
    done, output = outcome
    manifest = read_manifest(output, "documents")
    expected = expected_problems()
    assert len(manifest.problems) == len(expected)
    for name, sentence in expected.items():
        (problem,) = [p for p in manifest.problems if p.startswith(f"{name}: ")]
        assert problem[len(name) + 2 :].startswith(sentence) or sentence in problem
        assert problem.endswith(".") and problem.isprintable(), name
        assert f"left out {problem}" in done.stdout.splitlines(), name
    assert done.stdout.count("\nleft out ") == len(expected)
    assert "Traceback" not in done.stdout + done.stderr
    counts = manifest.counts
    assert counts["bad_input_files"] == len(BAD) + len(ODD)
    assert counts["bad_parts"] == len(PACKAGE)
    assert f"({len(BAD) + len(ODD)} bad)" in done.stdout


def test_nothing_good_is_lost_and_nothing_bad_is_kept(outcome, good, files_of, tmp_path):
    _, output = outcome
    paths = input_files.find_files([str(good)])
    alone = documents.make_documents(paths, tmp_path / "alone", runner=ONE_WORKER)
    result = list(read_documents(output))
    assert sorted(result, key=lambda d: d.id) == sorted(
        read_documents(tmp_path / "alone"), key=lambda d: d.id
    )
    assert len({d.id for d in result}) == len(result)
    manifest = read_manifest(output, "documents")
    for name in ("citation", "abstract", "body", "documents", "left_out"):
        assert manifest.counts[name] == alone.counts[name], name
    assert alone.counts["citation"] == 100 + 200 + 5
    assert alone.counts["body"] == 4 and not alone.problems
    said = b"\n".join(files_of(output).values())
    assert MARK.encode() not in said and SECRET.encode() not in said


def test_encodings_and_names_are_read_right(outcome, pubmed_slice, tmp_path):
    result = {d.id: d for d in read_documents(outcome[1])}
    assert result["pmid:801"].title == "M\u00e9ni\u00e8re's disease"
    assert {f"pmid:{n}" for n in (802, 803, 804)} < result.keys()
    assert result["pmid:802"].source == "sp\u00e4t \\n\\x1b[31m\\udce9.xml"
    as_utf8 = sorted(pubmed_slice.iterdir())[:1]
    documents.make_documents(list(map(str, as_utf8)), tmp_path / "utf8", runner=ONE_WORKER)
    expected = list(read_documents(tmp_path / "utf8"))
    assert len(expected) > 30
    for document in expected:
        assert result[document.id].title == document.title
        assert result[document.id].sentences == document.sentences


def test_undeclared_entities_are_marked_and_counted(tmp_path, command):
    (tmp_path / "s.dtd").write_text(f'<!ENTITY b "{SECRET}">')
    outside = f'<!DOCTYPE PubmedArticleSet SYSTEM "{tmp_path}/s.dtd">'
    for name, doctype in (("outside.xml", outside), ("none.xml", "")):
        text = article_set(article(len(name), "rats&nbsp;&amp; mice", f"As &b; {name}&lsquo;s."))
        (tmp_path / name).write_text(doctype + text)
    flags = [f"--input={tmp_path}", f"--output={tmp_path}/out", "--workers=1", "--strict"]
    done = command("documents", *flags)
    assert "that neither XML nor HTML knows, now \ufffd (U+FFFD): 2\n" in done.stdout
    assert read_manifest(tmp_path / "out", "documents").counts["unknown_entities"] == 2
    assert [(d.title, d.sentences) for d in read_documents(tmp_path / "out")] == [
        ("rats & mice", [f"As \ufffd {name}\u2018s."]) for name in ("none.xml", "outside.xml")
    ]


def test_strict_stops_with_one_sentence(everything, command, fails_in_one_sentence, tmp_path):
    names = ["latin1.xml", "package.tar.gz", *ODD, *(n for n in BAD if n.startswith("zero."))]
    inputs = ",".join(str(everything / name) for name in names)
    flags = [f"--input={inputs}", f"--output={tmp_path}/out", "--strict", "--workers=1"]
    done = command("documents", *flags)
    said = fails_in_one_sentence(done)
    parts = len(PACKAGE)
    assert f"{len(names) - 2} of {len(names)} input files, and {parts} parts of others," in said
    assert "--strict" in said and f"And {len(names) - 3 + parts} more" in said
    assert done.stdout.count(": the file is empty.") == 5
    assert not (tmp_path / "out").exists()


def test_a_wrong_type_given_by_name(command, fails_in_one_sentence, tmp_path):
    (tmp_path / "some.pdf").write_bytes(BAD["scan.xml"][0])
    (tmp_path / "photo.jpg").write_bytes(BAD["photo.xml"][0])
    flags = [f"--input={tmp_path}/some.pdf,{tmp_path}/photo.jpg", f"--output={tmp_path}/out"]
    done = command("documents", *flags, "--workers=1")
    assert "2 of 2 input files could not be used" in fails_in_one_sentence(done)
    assert f"some.pdf: {XML}" in done.stdout and f"photo.jpg: {XML}" in done.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["spacy", "lxml"])
def test_a_package_that_splits_no_sentences_is_refused_before_anything_is_read(
    command, fails_in_one_sentence, tmp_path, name
):
    (tmp_path / "a.xml").write_text(article_set(article(1, "a title")))
    flags = [f"--input={tmp_path}/a.xml", f"--output={tmp_path}/out", "--workers=2"]
    said = fails_in_one_sentence(command("documents", *flags, f"--sentence_splitter={name}"))
    assert f"--sentence_splitter={name}: it is not a spaCy pipeline" in said
    assert not (tmp_path / "out").exists()


def test_a_file_of_too_many_units_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(input_units, "UNITS_OF_INPUT", 2)
    (tmp_path / "a.txt").write_text("".join(f"{'text ' * 9}{n}.\n\n" for n in range(99)))
    settings = documents.DocumentSettings(sentence_splitter="pysbd", shard_megabytes=0.001)
    with pytest.raises(errors.DataError) as error:
        documents.make_documents(
            [f"{tmp_path}/a.txt"], tmp_path / "out", settings, runner=ONE_WORKER
        )
    said = f"{tmp_path}/a.txt has more than 2 units: raise --shard_megabytes."
    assert str(error.value) == said


@pytest.mark.parametrize(
    "module, moment", [(input_files, "find_files"), (input_files, "divide_into_inputs")]
)
def test_a_file_that_goes_away_meanwhile(tmp_path, monkeypatch, module, moment):
    for name in ("gone.xml", "stays.xml"):
        (tmp_path / name).write_text(article_set(article(len(name), name)))
    function = getattr(module, moment)

    def remove(*arguments):
        result = function(*arguments)
        (tmp_path / "gone.xml").unlink()
        return result

    monkeypatch.setattr(module, moment, remove)
    paths = input_files.find_files([str(tmp_path)])
    settings = documents.DocumentSettings(sentence_splitter="scispacy")
    manifest = documents.make_documents(paths, tmp_path / "out", settings, runner=ONE_WORKER)
    assert manifest.problems == ["gone.xml: it cannot be read (No such file or directory)."]
    assert [d.id for d in read_documents(tmp_path / "out")] == ["pmid:9"]


def test_a_folder_that_cannot_be_listed_is_not_passed_over(tmp_path, monkeypatch):
    (tmp_path / "locked").mkdir()
    (tmp_path / "a.xml").touch()
    scandir = os.scandir

    def refuse(path):  # permissions mean nothing to root
        if os.path.basename(path) == "locked":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(errors.UserError, match="locked cannot be listed: Permission denied"):
        input_files.find_files([str(tmp_path)])


MEASURE = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "data_prep.documents", *sys.argv[1:]])
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
sys.exit(done.returncode)
"""


@pytest.mark.slow
def test_memory_of_the_command_with_a_file_of_one_long_line(pubmed_slice, tmp_path):
    # The file's citations again and again under other PMIDs: all are read, and one of each is kept.
    text = gzip.decompress(sorted(pubmed_slice.iterdir())[1].read_bytes()).decode()
    begin, *citations = re.split(r"(?=<PubmedArticle>)", text.replace("\n", " "))
    citations[-1] = citations[-1].removesuffix("</PubmedArticleSet> ")
    total = 0
    with open(tmp_path / "line.xml", "w", encoding="utf-8") as stream:
        stream.write(begin)
        while stream.tell() < 150e6:
            for citation in citations:
                total += 1
                stream.write(re.sub(r"(<PMID[^>]*>)\d+", rf"\g<1>{total}", citation, count=1))
        stream.write("</PubmedArticleSet>")
    flags = [f"--input={tmp_path}/line.xml", f"--output={tmp_path}/out", "--workers=2"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *flags, "--duplicates=exact"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    counts = read_manifest(tmp_path / "out", "documents").counts
    assert counts["citation"] == total > 5_000
    assert counts["documents"] + sum(counts["left_out"].values()) == total
    assert 100 < counts["documents"] <= 200
    # Of the largest process; a worker with its libraries and the splitter has most of it.
    assert int(re.search(r"peak (\d+)", done.stdout)[1]) < 1024
