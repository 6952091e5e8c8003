"""The readers of released corpora: from the files of a release to the instances of each split."""

import io
import json
import re
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from data_prep.corpora import corpus, ddi
from tests.fuzz import damage, grammars, harness
from tests.fuzz.releases import RELEASES

CELLS = ("T1", "7", "2:0", "900-907", "5-2", "0-3;8-9", "||", "true", "CPR:3", "0", "Arg1:T9", "..")


def reads(folder):
    """A release gives rows of three splits, or is refused; its folder says which it is."""
    (inner,) = folder.iterdir()
    found = RELEASES[inner.name][1](inner)
    splits = found[0] if isinstance(found, tuple) else found
    assert splits.keys() == set(corpus.SPLITS)
    for rows in splits.values():
        for row in rows:
            assert all(isinstance(column, str) for column in row)
            tags = [tag for tag in row[1:] if len(row) == 2 and inner.name != "biobert_folds"]
            assert all(re.fullmatch("O|[BI](-.+)?", tag) for tag in tags)
    return splits


def masks_what_is_said(folder):
    """Each pair of drugs stands in its sentence, which is otherwise as it was."""
    (path,) = folder.iterdir()
    file = corpus.File(path.name, path.read_bytes())
    root = file.xml()
    rows = ddi.read_file(file)
    pairs = [(pair, x) for x in root.iterfind("sentence") for pair in x.iterfind("pair")]
    for (id_, masked, _), (pair, sentence) in zip(rows, pairs, strict=True):
        assert id_ == pair.get("id", "")
        mentions = {x.get("id"): x.get("text") for x in sentence.iterfind("entity")}
        texts = [mentions[pair.get(name)] for name in ("e1", "e2")]
        if masked.count("@DRUG$") == 2:
            before, between, after = masked.split("@DRUG$")
            choices = {before + x + between + y + after for x, y in (texts, texts[::-1])}
            assert sentence.get("text", "") in choices, (masked, sentence.get("text"))
        else:
            assert masked.count("@DRUG-DRUG$") == 1, masked


@st.composite
def releases(draw):
    """A release of which one file has mutations of its grammar, or damage."""
    name = draw(st.sampled_from(sorted(RELEASES)))
    files = {path: text.encode() for path, text in RELEASES[name][0].items()}
    path = draw(st.sampled_from(sorted(files)))
    text = RELEASES[name][0][path]
    ways = [damage.damaged(st.just(files[path]))]
    if path.endswith(".json") and len(text) < 2000:
        ways.append(grammars.json_files(json.loads(text)))
    elif path.endswith(".json"):
        ways.append(
            st.sampled_from(grammars.JSON_PIECES).map(
                lambda x: text.replace('"yes"', x, 1).encode("utf-8", "surrogatepass")
            )
        )
    elif path.endswith(".jsonl"):
        ways.append(grammars.json_files(json.loads(text.split("\n")[0])))
    elif path.endswith(".xml") and "CDATA" not in text:
        ways.append(grammars.xml_elements(etree.fromstring(text.encode())))
    else:
        ways += [grammars.lines(text, CELLS), grammars.lines(text, CELLS, " ")]
    if re.search(r"\d", text):
        ways.append(grammars.numbers_changed(text))
    if draw(st.integers(0, 9)) == 0 and len(files) > 1:
        del files[path]
    else:
        files[path] = draw(st.one_of(ways))
    return {f"{name}/{path}": data for path, data in files.items()}


@given(releases())
def test_mutated_releases(files):
    harness.judge(reads, files)


def _archive(files, kind):
    stream = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(stream, "w") as archive:
            for path, data in files.items():
                archive.writestr(path, data)
    else:
        with tarfile.open(fileobj=stream, mode="w:gz" if kind == "tgz" else "w") as archive:
            for path, data in files.items():
                member = tarfile.TarInfo(path)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


MEDNLI = {path: text.encode() for path, text in RELEASES["mednli"][0].items()}
ODD_NAMES = (
    "../x",
    "/x",
    "a\\..\\..\\x",
    "x\0y",
    "\u2028",
    "mli_train_v1.jsonl",
    "deep.zip",
    "x.gz",
)


@given(
    st.sampled_from(["zip", "tar", "tgz"]),
    st.sampled_from(ODD_NAMES),
    st.sampled_from([b"", b"x", *MEDNLI.values()]),
)
@harness.few
def test_odd_members(kind, name, data):
    files = {**MEDNLI, name: data} if name not in MEDNLI else MEDNLI | {f"a/{name}": data}
    harness.judge(reads, {f"mednli/mednli.{kind}": _archive(files, kind)})


@given(
    st.sampled_from(["zip", "tar", "tgz"]).flatmap(
        lambda kind: st.tuples(st.just(kind), damage.damaged(st.just(_archive(MEDNLI, kind))))
    )
)
@harness.few
def test_damaged_archives(found):
    kind, data = found
    harness.judge(reads, {f"mednli/mednli.{kind}": data})


def test_bombs():
    harness.judge(reads, {"mednli/mli_train_v1.jsonl.gz": damage.bomb()})
    harness.judge(reads, {"mednli/mednli.tgz": damage.bomb(1200, b"\0")})


@st.composite
def drugs(draw):
    """A sentence of DDI with mentions that are where they say, or elsewhere."""
    text = "Aspirin and ibuprofen interact."
    entities = ""
    for number, mention in enumerate(("Aspirin", "ibuprofen")):
        start = text.index(mention)
        offsets = f"{start}-{start + len(mention) - 1}"
        if draw(st.integers(0, 3)) == 0:
            offsets = draw(
                st.sampled_from(["900-907", "0-900", "6-0", "5", "-3-6", "1e5-7", "0-6;12-20"])
            )
        entities += f'<entity id="e{number}" charOffset="{offsets}" text="{mention}"/>'
    pair = '<pair id="p" e1="e0" e2="e1" ddi="false"/>'
    return f'<document><sentence text="{text}">{entities}{pair}</sentence></document>'


@given(drugs())
def test_drugs(text):
    harness.judge(masks_what_is_said, {"a.xml": text.encode()})


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
