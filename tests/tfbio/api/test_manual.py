"""The examples of two pages run, one after another, beside the files that they name."""

import re
from pathlib import Path

import pytest

import tfbio

DOCS = Path(__file__).resolve().parents[3] / "docs"


def run_examples(page, count):
    """Runs the examples of a page, of which there are `count`, and returns their variables."""
    names = {}
    text = (DOCS / page).read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) == count
    for example in examples:
        exec(example, names)
    return names


def test_the_examples_for_python_run(make_trial, tmp_path, monkeypatch, capsys):
    trial, _ = make_trial("tagging", ["O", "B-x", "I-x"], {"words": "punctuation"})
    folder = tmp_path / "examples"
    (folder / "quickstart").mkdir(parents=True)
    (folder / "quickstart" / "diseases").symlink_to(Path(trial).parent)
    texts = ["Imatinib inhibits BCR-ABL.", "Aspirin was given."]
    (folder / "texts.txt").write_text("\n".join(texts))
    articles = [
        f"<PubmedArticle><MedlineCitation><PMID>{number}</PMID><Article><ArticleTitle>{text}"
        "</ArticleTitle></Article></MedlineCitation></PubmedArticle>"
        for number, text in enumerate(texts, start=1)
    ]
    page = f"<PubmedArticleSet>{''.join(articles)}</PubmedArticleSet>"
    (folder / "quickstart" / "articles.xml").write_text(page)
    monkeypatch.chdir(folder)
    names = run_examples("python.md", 5)
    out = capsys.readouterr().out.splitlines()
    model = tfbio.load(trial)
    found = [entity for entities in model(texts) for entity in entities]
    first = model("Myasthenia gravis in a man with a chordoma.")
    assert first and out[0].split()[0] == first[0].text.split()[0]
    assert "(2, 32)" in out and f"1 {len(texts[0])} " in "\n".join(out)
    assert len((folder / "entities.jsonl").read_text().splitlines()) == 2
    assert list(names["rows"].columns) == ["text", "label", "start", "end", "score"]
    assert len(names["rows"]) == len(found)


@pytest.mark.filterwarnings("ignore:tfbio_ner. doc.ents has no place")
def test_the_examples_for_spacy_run(make_trial, tmp_path, monkeypatch, capsys):
    trial, _ = make_trial("tagging", ["O", "B-Chemical", "I-Chemical"], {"words": "punctuation"})
    (tmp_path / "examples").mkdir()
    monkeypatch.chdir(tmp_path / "examples")
    Path("out").mkdir()
    for name in ("bc5cdr_chem", "drugs"):
        Path("out", name).symlink_to(Path(trial).parent)
    names = run_examples("spacy.md", 11)
    out = capsys.readouterr().out.splitlines()
    texts = names["texts"]
    expected = [[(x.text, x.start, x.end) for x in own] for own in tfbio.load(trial)(texts)]
    # They end where spaCy's tokens end.
    assert out[0] == str([(text, "Chemical") for text, _, _ in expected[0]])
    assert names["marks"] == [
        {"start": a, "end": b, "label": "Chemical"} for _, a, b in expected[0]
    ]
    assert names["page"].count("<mark") == len(expected[0])
    # The last example prints what the file holds.
    for line, own in zip(out[-2:], expected, strict=True):
        assert all(f"text={text!r}" in line and f"start={a}, end={b}" in line for text, a, b in own)
    page = Path("entities.html").read_text(encoding="utf-8")
    assert "background: #9bd3f5" in page and not re.search(r"(src|href)=|url\(|@import", page)
    assert names["spans"].count("<span") > 3
