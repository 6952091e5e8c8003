"""The readers of released corpora: from the files of a release to the examples of each split."""

import importlib
import io
import json
import os
import re
import tarfile
import zipfile

import pytest
from absl import flags
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from data_prep.corpora import clinical_notes, corpus_splits, ddi, released_files
from data_prep.running import left_out
from tests.fuzz import damage, grammars, harness
from tests.fuzz.releases import LISTED, RELEASES

FLAGS = flags.FLAGS
CELLS = ("T1", "7", "2:0", "900-907", "5-2", "0-3;8-9", "||", "true", "CPR:3", "0", "Arg1:T9", "..")
LARGE = ("pubmedqa", "pubmedqa_fold")
DOCUMENTS = ("biosses",)  # of Word
WORDS = (
    *CELLS,
    "",
    "Unknown AND",
    "false",
    "5.1",
    "-1",
    "GENE-Y",
    "protein",
    "PIP",
    "DOCTOR",
    "maybe",
    "&x;",
    "\n",
)


def reads(folder):
    """A release gives rows of three splits, or is refused; its folder says which it is."""
    (inner,) = folder.iterdir()
    left = []
    result = RELEASES[inner.name][1](inner, left)
    splits = result[0] if isinstance(result, tuple) else result
    assert splits.keys() == set(corpus_splits.SPLITS)
    for rows in splits.values():
        for row in rows:
            assert all(isinstance(column, str) for column in row)
            tags = [tag for tag in row[1:] if len(row) == 2]
            assert all(re.fullmatch("O|[BI](-.+)?", tag) for tag in tags)
    _is_written(folder / "out", splits, left)
    if isinstance(result, tuple):
        clinical_notes.say(result[1])
    return splits, left


def _is_written(output, splits, left):
    """All rows are written, one a line, and so is all that was left out, with a reason."""
    corpus_splits.write(output, splits, False, left)
    corpus_splits.say_counts(splits)
    for split, rows in splits.items():
        lines = (output / f"{split}.tsv").read_bytes().decode().split("\n")
        assert len(lines) == len(rows) + 1
        assert all(line.count("\t") == len(row) - 1 for line, row in zip(lines, rows, strict=False))
    lines = (output / left_out.FILE).read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(left)
    assert all(json.loads(line).keys() == {"id", "file", "reason"} for line in lines)
    with pytest.raises(released_files.CorpusError):  # what is there is not written over
        corpus_splits.write(output, splits, False, left)
    corpus_splits.write(output, splits, True, left)


def runs(folder):
    """The command writes its files for the flags given, or they or the release are refused."""
    given = json.loads((folder / "flags.json").read_text())
    (inner,) = (path for path in folder.iterdir() if path.is_dir())
    module = importlib.import_module(f"data_prep.corpora.{given['module']}")
    before = set(FLAGS)
    try:
        module.define_flags()
        where = [f"--input={inner}", f"--output={folder / 'out'}"]
        if "index" in FLAGS and (inner / "index").is_dir():
            where.append(f"--index={inner / 'index'}")
        module.main(FLAGS(["command", *where, *given["flags"], *given.get("arguments", ())]))
    finally:
        for name in set(FLAGS) - before:
            delattr(FLAGS, name)
        FLAGS.unparse_flags()
    assert all((folder / "out" / f"{split}.tsv").is_file() for split in corpus_splits.SPLITS)


def counts_all(folder):
    """Each document is in the split that lists it, and one that no list has is left out."""
    (inner,) = folder.iterdir()
    pattern, _ = LISTED[inner.name]
    _, left = reads(folder)
    wanted = set(_names(inner))
    for split in corpus_splits.SPLITS:
        wanted -= set(corpus_splits.read_index(inner / "index", pattern.format(split)))
    assert {id_.removesuffix(".txt") for id_, _, reason in left if reason == "not_listed"} == {
        name.removesuffix(".txt") for name in wanted
    }


def _names(inner):
    """What the lists can name of a release."""
    if inner.name == "bioasq":
        for path in inner.glob("*.json"):
            questions = json.loads(path.read_text())["questions"]
            yield from (x["id"] for x in questions if x["type"] == "yesno")
    elif inner.name == "ddi":
        folders = {"Train": "train", "test_dataset": "test"}
        for path in inner.rglob("*.xml"):
            yield f"{folders[path.parts[-3]]}_dataset/DrugBank/{path.name}"
    else:
        kind = {"hoc": "text", "ebm_pico": "documents"}[inner.name]
        for path in inner.glob(f"{kind}/*"):
            yield path.name if inner.name == "hoc" else path.stem


def masks_what_is_said(folder):
    """Each pair of drugs stands in its sentence, which is otherwise as it was."""
    (path,) = folder.iterdir()
    file = released_files.File(path.name, path.read_bytes())
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


# What a release would have to say for what few mutations happen to say.
EDITS = {
    "bioasq": [('"a0"', '"a1"'), ('"a2"', '"a1"'), ('"questions"', '"x"'), ('"Is it?"', "1")],
    "bc2gm": [
        ("14 33", "14 900"),
        ("|p53", "|p54"),
        ("P2 The p53 (TP53) gene.", "P2"),
        ("P1|", "P9|"),
    ],
    "bc5cdr": [("\tAtaxia", "\tAtax"), ('length="6"', 'length="-6"'), ("<id>9</id>", "<id>1</id>")],
    "bigbio_kb": [("[[10, 25]]", "[[10, 26]]"), ("[27, 41]", "[20, 34]"), ('"Disease"', '"a\\tb"')],
    "bigbio_qa": [('["yes"]', "[]"), ('["yes"]', '["yes", "no"]'), ('"Is it?"', "null")],
    "bigbio_text": [('["a", "b"]', '["a|b"]'), ('["a", "b"]', "null"), ("acts", "\\ud800")],
    "biobert_folds": [("sentence\tlabel", "label\tsentence"), ("\t1\n", "\t2\n")],
    "chemprot": [("T3\tCHEMICAL", "T3\tPROTEIN"), ("Arg1:T3", "T3"), ("\tp53", "\tp54")],
    "clinical_sts": [("\t3", "\t5.1"), ("Patient 3.", " "), ("\t3", "\tnan")],
    "hoc": [("NULL", "Dying"), ("< NULL <", "<"), ("Three .", "Three .\nFour .")],
    "i2b2_2010": [('t="problem"', 't="protein"'), ('"TrAP"', '"TrAX"'), ("2:6 2:6", "2:4 2:6")],
    "i2b2_2012": [('"PROBLEM"', '"PAIN"'), ('"15"', '"-1"'), ("</TEXT>", ""), ("& chills", "&x;")],
    "jnlpba": [("B-DNA", "B DNA"), ("###MEDLINE:1", "###MEDLINE:x"), ("IL-2\t", "IL-2\t\t")],
    "mednli": [('"neutral"', '"maybe"'), ('"No."', "1")],
    "pubmedqa": [('"yes"', '"perhaps"'), ('"CONTEXTS": [', '"CONTEXTS": [1,'), ('{"0"', '[{"0"')],
    "ncbi_disease": [("0\t6", "0\t7"), ("|a|", "|b|"), ("\t19\t44\t", "\t44\t19\t")],
    "share_clefe": [("||28||32", "||28"), ('"28"', '"900"'), ("||28", "||60")],
}


@st.composite
def releases(draw, name):
    """A release of which one file has mutations of its grammar, or damage."""
    files = {path: text.encode() for path, text in RELEASES[name][0].items()}
    edits = EDITS.get(name, [])
    if edits and draw(st.integers(0, 3)) == 0:
        old, new = draw(st.sampled_from(edits))
        result = [path for path in sorted(files) if old.encode() in files[path]]
        path = draw(st.sampled_from(result))
        files[path] = files[path].replace(old.encode(), new.encode(), 1)
        return {f"{name}/{path}": data for path, data in files.items()}
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
    ways += [grammars.words_changed(text, WORDS)] * 2
    kind = draw(st.integers(0, 11))
    if kind == 0 and len(files) > 1:
        del files[path]
    elif kind == 1:  # the file once more, as it is or not
        folder, name_of = os.path.split(path)
        copy = draw(st.sampled_from([f"copy/{path}", os.path.join(folder, f"2{name_of}")]))
        files[copy] = draw(st.one_of(st.just(files[path]), *ways))
    else:
        files[path] = draw(st.one_of(ways))
    return {f"{name}/{path}": data for path, data in files.items()}


@pytest.mark.parametrize("name", sorted(name for name in RELEASES if name not in LARGE + DOCUMENTS))
@given(st.data())
@harness.few
def test_mutated_releases(name, data):
    harness.judge(reads, data.draw(releases(name)))


@pytest.mark.parametrize("name", LARGE)
@given(st.data())
@harness.very_few
def test_mutated_large_releases(name, data):
    harness.judge(reads, data.draw(releases(name)))


def _docx(text):
    """A document of Word with this main file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("word/document.xml", text)
    return stream.getvalue()


@pytest.mark.parametrize("name", DOCUMENTS)
@given(st.data())
@harness.few
def test_mutated_documents_of_word(name, data):
    texts = RELEASES[name][0]
    files = {f"{name}/{path}": _docx(text) for path, text in texts.items()}
    path = data.draw(st.sampled_from(sorted(texts)))
    changed = st.one_of(
        grammars.xml_elements(etree.fromstring(texts[path])),
        grammars.words_changed(texts[path], WORDS),
        grammars.numbers_changed(texts[path]),
        st.just(texts[path].replace("<w:t>3</w:t>", "<w:t>7</w:t>", 1)),
    ).map(_docx)
    whole = damage.damaged(st.just(files[f"{name}/{path}"]))
    files[f"{name}/{path}"] = data.draw(st.one_of(changed, whole))
    if data.draw(st.integers(0, 9)) == 0:
        del files[f"{name}/{path}"]
    harness.judge(reads, files)


@pytest.mark.parametrize(
    ("task", "name"),
    [
        *((x, x) for x in ("hoc", "bioasq", "ebm_pico", "ddi", "biosses", "pubmedqa")),
        ("bc5cdr_disease", "bc5cdr"),
        ("gad", "biobert_folds"),
    ],
)
@pytest.mark.parametrize("flag", [[], ["--strict"]])
def test_tasks_of_blurb(task, name, flag):
    """Each release is read; few have as many rows as are published."""
    said = json.dumps({"module": "blurb", "flags": flag, "arguments": [task]}).encode()
    pack = _docx if name in DOCUMENTS else str.encode
    files = {f"{name}/{path}": pack(text) for path, text in RELEASES[name][0].items()}
    harness.judge(runs, files | {"flags.json": said})


@st.composite
def listed(draw, name):
    """A release whose lists share out its documents otherwise, leave some out or name others."""
    files = {path: text.encode() for path, text in RELEASES[name][0].items()}
    pattern, _ = LISTED[name]
    paths = [f"index/{pattern.format(split)}" for split in corpus_splits.SPLITS]
    known = [x.strip() for path in paths for x in files[path].decode().split(",")]
    lists = {path: [] for path in paths}
    for item in known:
        for path in draw(st.lists(st.sampled_from(paths), max_size=2)):
            lists[path].append(item)
    if draw(st.integers(0, 5)) == 0:
        lists[draw(st.sampled_from(paths))].append(draw(st.sampled_from(["0", "../x", "9.txt"])))
    ends = draw(st.sampled_from([",", "\n", "\r\n", ", "]))
    return {
        f"{name}/{path}": ends.join(lists[path]).encode() if path in lists else data
        for path, data in files.items()
    }


# Release -> module, if it is called otherwise, and flags.
FLAGS_OF = {
    "biobert_folds": ("", ["--fold=1", "--dev_size=3", "--dev_size=99"]),
    "chemprot": ("blurb", ["--entities=marker"]),
    "clinical_sts": ("", ["--dev_fraction=0.3", "--dev_fraction=0", "--dev_fraction=0.999"]),
    "ddi": ("blurb", ["--entities=marker"]),
    "hoc": ("blurb", ["--overwrite"]),
    "i2b2_2010": ("", ["--concepts", "--entities=marker", "--dev_fraction=2", "--dev_documents=x"]),
    "i2b2_2012": ("i2b2_notes", ["--year=2012", "--year=2014"]),
    "mednli": ("", ["--overwrite"]),
    "share_clefe": ("", ["--dev_documents=x", "--dev_fraction=0.5"]),
    "pubmedqa": ("", ["--fold=9"]),
    "bioasq": ("blurb", ["--overwrite"]),
    "ebm_pico": ("blurb", ["--overwrite"]),
    "bc2gm": ("blurb", ["--strict", "--overwrite"]),
    "jnlpba": ("blurb", ["--index=x"]),
    "ncbi_disease": ("blurb", ["--entities=marker"]),
    "bigbio_kb": ("bigbio_tasks", ["--schema=kb", "--schema=te", "--overwrite"]),
}


@pytest.mark.parametrize("name", sorted(FLAGS_OF))
@given(st.data())
@harness.very_few
def test_commands(name, data):
    module, choices = FLAGS_OF[name]
    given = data.draw(st.lists(st.sampled_from(choices), max_size=2, unique=True))
    if name == "i2b2_2012" and not given:
        given = choices[:1]
    tasks = st.sampled_from([[name], [name], [], ["x"], [name, "x"], ["ddi"]])
    arguments = data.draw(tasks) if module == "blurb" else []
    typed = {"module": module or name, "flags": given, "arguments": arguments}
    said = json.dumps(typed).encode()
    files = {f"{name}/{path}": text.encode() for path, text in RELEASES[name][0].items()}
    harness.judge(runs, files | {"flags.json": said})


@pytest.mark.parametrize("name", sorted(LISTED))
@given(st.data())
@harness.few
def test_lists(name, data):
    harness.judge(counts_all, data.draw(listed(name)))


def _archive(files, kind):
    stream = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(stream, "w") as archive:
            archive.mkdir("folder")
            for path, data in files.items():
                archive.writestr(path, data)
    else:
        with tarfile.open(fileobj=stream, mode="w:gz" if kind == "tgz" else "w") as archive:
            link = tarfile.TarInfo("mli_dev_v1.jsonl.link")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
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
def test_damaged_archives(result):
    kind, data = result
    harness.judge(reads, {f"mednli/mednli.{kind}": data})


@given(st.lists(st.sampled_from(["zip", "tar", "tgz"]), min_size=1, max_size=5))
@harness.very_few
def test_archives_of_archives(kinds):
    files = MEDNLI
    for kind in kinds:
        files = {f"inner.{kind}": _archive(files, kind)}
    harness.judge(reads, {f"mednli/{name}": data for name, data in files.items()})


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
