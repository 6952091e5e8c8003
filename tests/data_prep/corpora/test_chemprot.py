"""ChemProt: BLURB's files, byte for byte, and abstracts made up to be awkward."""

import gzip
import json
import re
import subprocess
import sys
import zipfile
from collections import Counter

import pytest

from data_prep.corpora import chemprot, corpus_splits, released_files
from tests import reference


def test_the_published_files_byte_for_byte(command, tmp_path):
    data = reference.corpus("chemprot")
    done = command("corpora.blurb", "chemprot", f"--input={data}/original", f"--output={tmp_path}")
    assert done.returncode == 0, done.stderr
    for split in corpus_splits.SPLITS:
        published = gzip.decompress((data / f"blurb/{split}.tsv.gz").read_bytes())
        assert (tmp_path / f"{split}.tsv").read_bytes() == published
    # Table 1 of the BioELECTRA paper: 18,035, 11,268 and 15,745 examples.
    left, *counts = done.stdout.splitlines()[:4]
    assert left == "left out, see left_out.jsonl: repeated 171, not in one sentence 88"
    # What is in the release is an example's label, or a line.
    lines = [json.loads(x) for x in (tmp_path / "left_out.jsonl").read_text().splitlines()]
    for split, relations in {"training": 6437, "development": 3558, "test": 5744}.items():
        own = [x for x in lines if x["file"].startswith(f"chemprot_{split}_relations")]
        reasons = Counter(x["reason"] for x in own)
        assert reasons["not_in_one_sentence"] == BETWEEN_SENTENCES[split]
        labelled = relations - reasons["repeated"]
        assert labelled == LABELLED[split]
    assert counts == [
        "train: 756 CPR:3, 2,227 CPR:4, 173 CPR:5, 229 CPR:6, 727 CPR:9, 13,923 false",
        "dev: 546 CPR:3, 1,091 CPR:4, 115 CPR:5, 199 CPR:6, 457 CPR:9, 8,860 false",
        "test: 663 CPR:3, 1,655 CPR:4, 178 CPR:5, 292 CPR:6, 642 CPR:9, 12,315 false",
    ]


# Counted from the release without the package: pairs with a relation, and those between sentences.
LABELLED = {"training": 6388, "development": 3515, "test": 5665}
BETWEEN_SENTENCES = {"training": 44, "development": 8, "test": 34}


def at_periods(text):
    """Splits after each period, so that anyone can follow it."""
    return [result.span() for result in re.finditer(r"\S[^.]*\.?", text)]


def made(text, mentions, relations=()):
    """Instances of the abstract 7; mentions are (id, kind, text, n): where it stands the nth time.

    Relations are (label, id, id).
    """
    entities = []
    for id_, kind, content, nth in mentions:
        start = [result.start() for result in re.finditer(re.escape(content), text)][nth]
        entities.append(f"7\t{id_}\t{kind}\t{start}\t{start + len(content)}\t{content}\n")
    lines = [f"7\t{label}\tY \tNAME\tArg1:{a}\tArg2:{b}\n" for label, a, b in relations]
    texts = {"7": text}
    return list(
        chemprot.examples(
            texts,
            chemprot.read_mentions(released_files.File("e", "".join(entities).encode()), texts),
            chemprot.read_relations(released_files.File("r", "".join(lines).encode()), [])
            if lines
            else {},
            at_periods,
        )
    )


def test_every_chemical_meets_every_gene_of_its_sentence():
    text = "A binds B\tC and D meet E. F rests. G meets H."
    mentions = [
        ("T9", "CHEMICAL", "A", 0),
        ("T2", "GENE-Y", "B", 0),
        ("T3", "CHEMICAL", "C", 0),
        ("T4", "GENE-N", "D", 0),
        ("T5", "GENE", "E", 0),
        ("T6", "CHEMICAL", "F", 0),  # alone in its sentence
        ("T7", "CHEMICAL", "G", 0),  # together, but of one kind
        ("T8", "CHEMICAL", "H", 0),
    ]
    assert made(text, mentions) == [
        ("7.T9.T2", "@CHEMICAL$ binds @GENE$", "false"),  # the tab ends the title's sentence
        ("7.T3.T4", "@CHEMICAL$ and @GENE$ meet E.", "false"),
        ("7.T3.T5", "@CHEMICAL$ and D meet @GENE$.", "false"),
    ]


@pytest.mark.parametrize(
    ("text", "chemical", "gene", "expected"),
    [
        ("Rat AB.", "A", "B", ("7.C.G", "Rat @CHEMICAL$@GENE$.")),  # next to each other
        ("Rat BA.", "A", "B", ("7.G.C", "Rat @GENE$@CHEMICAL$.")),
        ("Rat ABC.", "AB", "BC", ("7.C.G", "Rat @CHEM-GENE$.")),
        ("Rat ABC.", "BC", "AB", ("7.G.C", "Rat @CHEM-GENE$.")),
        ("Rat ABC.", "B", "ABC", ("7.G.C", "Rat @CHEM-GENE$.")),  # one within the other
        ("Rat ABC.", "ABC", "B", ("7.C.G", "Rat @CHEM-GENE$.")),
        ("Rat ABC.", "ABC", "A", ("7.G.C", "Rat @CHEM-GENE$.")),  # both begin here: gene first
        ("Rat ABC.", "A", "ABC", ("7.G.C", "Rat @CHEM-GENE$.")),
    ],
)
def test_what_stands_where(text, chemical, gene, expected):
    mentions = [("C", "CHEMICAL", chemical, 0), ("G", "GENE-Y", gene, 0)]
    assert made(text, mentions) == [(*expected, "false")]


def test_markers_instead_of_dummies():
    """Every row of the corpus: between the markers is what a dummy stands for."""
    source = reference.corpus("chemprot/original")
    both = [chemprot.read_examples(source, [], entities) for entities in ("dummy", "marker")]
    for split in corpus_splits.SPLITS:
        for (id_, masked, label), (own_id, marked, own_label) in zip(
            both[0][split], both[1][split], strict=True
        ):
            assert (own_id, own_label) == (id_, label), split
            dummies = iter(re.findall(r"@(?:CHEMICAL|GENE)\$", masked))
            if "@CHEM-GENE$" not in masked:
                pattern = r"\[S([12])\] .*? \[E\1\]"
                assert re.sub(pattern, lambda _, each=dummies: next(each), marked) == masked, split


def test_a_mention_over_the_end_of_a_sentence_is_in_none():
    mentions = [("C", "CHEMICAL", "A", 0), ("G", "GENE-Y", "B. C", 0)]
    assert made("A meets B. C rests.", mentions) == []


@pytest.mark.parametrize(
    ("relations", "label"),
    [
        ([], "false"),
        ([("CPR:4", "C", "G")], "CPR:4"),
        ([("CPR:9", "G", "C")], "CPR:9"),
        ([("CPR:2", "C", "G")], "false"),
        ([("CPR:10", "C", "G")], "false"),
        ([("CPR:4", "C", "X")], "false"),
        # Of several, the last counts, even if it is none of the five.
        ([("CPR:3", "C", "G"), ("CPR:4", "C", "G")], "CPR:4"),
        ([("CPR:3", "C", "G"), ("CPR:2", "C", "G")], "false"),
    ],
)
def test_labels(relations, label):
    mentions = [("C", "CHEMICAL", "A", 0), ("G", "GENE-N", "B", 0)]
    assert made("A B.", mentions, relations) == [("7.C.G", "@CHEMICAL$ @GENE$.", label)]


ABSTRACTS = "7\tA title of A.\tA meets B.\n"
ENTITIES = "7\tT1\tCHEMICAL\t14\t15\tA\n7\tT2\tGENE-Y\t22\t23\tB\n"
RELATIONS = "7\tCPR:4\tY \tINHIBITOR\tArg1:T1\tArg2:T2\n"


def release(folder, **tables):
    tables = {"abstracts": ABSTRACTS, "entities": ENTITIES, "relations": RELATIONS} | tables
    for pattern in chemprot.PARTS.values():
        with zipfile.ZipFile(folder / f"{pattern[:12]}.zip", "w") as archive:
            for table, content in tables.items():
                archive.writestr(f"x/{pattern.format(table)}", content)


def test_a_made_up_release(tmp_path):
    release(tmp_path)
    row = ("7.T1.T2", "@CHEMICAL$ meets @GENE$.", "CPR:4")
    assert chemprot.read_examples(tmp_path, []) == dict.fromkeys(corpus_splits.SPLITS, [row])


@pytest.mark.parametrize(
    ("table", "content", "message"),
    [
        ("abstracts", "7\n", r"abstracts\.tsv, line 1: expected 2 tab-separated columns, found 1"),
        ("entities", "7\tT1\tGENE\t1\t2\n", r"entities\.tsv, line 1: expected 6 .* found 5"),
        ("entities", "7\tT1\tDRUG\t14\t15\tA\n", r"entities\.tsv, line 1: expected a kind"),
        ("entities", "7\tT1\tGENE\t-1\t15\tA\n", r"entities\.tsv, line 1: expected a kind"),
        ("entities", ENTITIES + "7\tT3\tGENE\t0\t1\tZ\n", r"line 3: abstract 7 does not .* 'Z'"),
        ("entities", "8\tT1\tGENE\t0\t1\tA\n", "line 1: abstract 8 does not have 'A' there"),
        ("relations", "7\tCPR:4\tY \tX\tT1\tT2\n", r"relations\.tsv, line 1: expected Arg1:T1"),
    ],
)
def test_a_line_that_does_not_fit_is_named(table, content, message, tmp_path):
    release(tmp_path, **{table: content})
    with pytest.raises(released_files.CorpusError, match=message):
        chemprot.read_examples(tmp_path, [])


def test_a_missing_archive_is_named(command, fails_in_one_sentence, tmp_path):
    release(tmp_path)
    (tmp_path / "chemprot_dev.zip").unlink()
    flags = (f"--input={tmp_path}", f"--output={tmp_path}/out")
    said = fails_in_one_sentence(command("corpora.blurb", "chemprot", *flags))
    assert "does not hold chemprot_development_abstracts.tsv" in said
    assert not (tmp_path / "out").exists()


def test_without_punkt_the_remedy_is_named():
    program = (
        "import sys; sys.modules['punkt'] = None\n"
        "from data_prep.corpora import chemprot, released_files\n"
        "try: chemprot.load_punkt()\n"
        "except released_files.CorpusError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "`pip install 'tfbio[chemprot]'` installs it" in done.stdout, done.stderr
