"""The examples of docs/python.md run, one after another, beside the files that they name."""

import re
from pathlib import Path

import tfbio

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python.md"


def test_the_examples_of_the_manual_run(make_trial, shallow_encoder, tmp_path, monkeypatch, capsys):
    trial, _ = make_trial("tagging", ["O", "B-x", "I-x"], {"words": "punctuation"})
    folder = tmp_path / "examples"
    (folder / "out").mkdir(parents=True)
    (folder / "out" / "bc5cdr_chem").symlink_to(Path(trial).parent)
    (folder / "encoder").symlink_to(shallow_encoder)
    texts = ["Imatinib inhibits BCR-ABL.", "Aspirin was given."]
    (folder / "texts.txt").write_text("\n".join(texts))
    articles = [
        f"<PubmedArticle><MedlineCitation><PMID>{number}</PMID><Article><ArticleTitle>{text}"
        "</ArticleTitle></Article></MedlineCitation></PubmedArticle>"
        for number, text in enumerate(texts, start=1)
    ]
    (folder / "pubmed.xml").write_text(f"<PubmedArticleSet>{''.join(articles)}</PubmedArticleSet>")
    monkeypatch.chdir(folder)
    names = {}
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 5
    for example in examples:
        exec(example, names)
    out = capsys.readouterr().out.splitlines()
    found = [entity for entities in tfbio.load(trial)(texts) for entity in entities]
    assert found and out[0].split()[0] == found[0].text.split()[0]
    assert "(2, 32)" in out and f"1 {len(texts[0])} " in "\n".join(out)
    assert len((folder / "entities.jsonl").read_text().splitlines()) == 2
    assert list(names["rows"].columns) == ["text", "label", "start", "end", "score"]
    assert len(names["rows"]) == len(found)
