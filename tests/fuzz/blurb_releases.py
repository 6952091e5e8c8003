"""More releases, as in `releases`: those of BLURB's entities and pairs, and BigBio's schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from data_prep.corpora import abstract_mentions, bc2gm, bigbio_tasks, biosses, jnlpba

PUBTATOR = (
    "{0}|t|Ataxia in mice.\n{0}|a|No breast and ovarian cancer. Ataxia again.\n"
    "{0}\t0\t6\tAtaxia\tDisease\tD1\n{0}\t19\t44\tbreast and ovarian cancer\tDisease\tD2\n"
    "{0}\t30\t44\tovarian cancer\tDisease\tD2\n{0}\tCID\tD1\tD2\n\n"
)
BIOC = (
    "<collection><document><id>9</id>"
    "<passage><offset>0</offset><text>Ataxia in mice.</text>"
    '<annotation id="0"><infon key="type">Disease</infon>'
    '<location offset="0" length="6"/><text>Ataxia</text></annotation></passage>'
    "<passage><offset>16</offset><text>Breast and ovarian cancer.</text>"
    '<annotation id="1"><infon key="type">Disease</infon>'
    '<infon key="CompositeRole">IndividualMention</infon>'
    '<location offset="27" length="14"/><text>ovarian cancer</text></annotation></passage>'
    "</document></collection>"
)
GENES = (
    "P1 Comparison with alkaline phosphatases and 5-nucleotidase\nP2 The p53 (TP53) gene.\n",
    "P1|14 33|alkaline phosphatases\nP1|37 50|5-nucleotidase\nP2|3 5|p53\nP2|3 11|p53 (TP53)\n",
)
IOB = "###MEDLINE:{}\n\nIL-2\tB-DNA\ngene\tI-DNA\nexpression\tO\n\np53\tB-protein\nX\tI-protein\n"
KB = {
    "id": "1",
    "document_id": "7",
    "passages": [
        {"id": "P1", "type": "title", "text": ["Renal and hepatic failure."], "offsets": [[0, 26]]},
        {"id": "P2", "type": "abstract", "text": ["It was severe."], "offsets": [[27, 41]]},
    ],
    "entities": [
        {
            "id": f"T{number}",
            "type": "Disease",
            "text": texts,
            "offsets": offsets,
            "normalized": [{"db_name": "MESH", "db_id": "D1"}],
        }
        for number, (texts, offsets) in enumerate(
            [
                (["Renal", "failure"], [[0, 5], [18, 25]]),
                (["hepatic failure"], [[10, 25]]),
                (["hepatic"], [[10, 17]]),
                ([], []),
            ]
        )
    ],
    "events": [],
    "coreferences": [],
    "relations": [],
}
TEXT = {"id": "1", "document_id": "7", "text": "Aspirin\nacts.", "labels": ["a", "b"]}
QUESTION = {
    "id": "1",
    "question_id": "q",
    "document_id": "7",
    "question": "Is it?",
    "type": "yesno",
    "choices": ["yes", "no"],
    "context": "It is.",
    "answer": ["yes"],
}
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def _table(cells: Callable[[int], list[str]]) -> str:
    """Returns the main file of a document of Word, whose table has a row for each pair."""
    rows = "".join(
        f"<w:tr>{''.join(f'<w:tc><w:t>{x}</w:t></w:tc>' for x in [f'{n}.', *cells(n)])}</w:tr>"
        for n in range(1, 101)
    )
    return f'<w:document xmlns:w="{WORD}"><w:tbl>{rows}</w:tbl></w:document>'


def _bigbio(row: dict, schema: str) -> tuple[dict[str, str], Callable[[Path, list], object]]:
    """Returns the release of a data set in one of BigBio's schemas."""
    return (
        {
            "train.json": json.dumps([row, row]),
            "validation.jsonl": f"{json.dumps(row)}\n",
            "x-test-00000-of-00001.json": json.dumps([row]),
        },
        lambda folder, left: bigbio_tasks.read_examples(folder, schema, left),
    )


# Name -> files, and the function of their folder and of the list of what is left out.
RELEASES: dict[str, tuple[dict[str, str], Callable[[Path, list], object]]] = {
    "ncbi_disease": (
        {
            f"NCBI{split}set_corpus.txt": PUBTATOR.format(number)
            for number, split in enumerate(("train", "develop", "test"))
        },
        lambda folder, left: abstract_mentions.read_ncbi_disease(folder, left),
    ),
    "bc5cdr": (
        {
            "CDR_TrainingSet.PubTator.txt": PUBTATOR.format(1),
            "CDR_DevelopmentSet.PubTator.txt": PUBTATOR.format(2),
            "CDR_TestSet.BioC.xml": BIOC,
        },
        lambda folder, left: abstract_mentions.read_bc5cdr(folder, "Disease", left),
    ),
    "bc2gm": (
        {
            f"{part}/{name}": text
            for part in ("train", "test")
            for name, text in zip((f"{part}.in", "GENE.eval"), GENES, strict=True)
        },
        lambda folder, left: bc2gm.read_examples(folder, left),
    ),
    "jnlpba": (
        {
            "Genia4ERtask2.iob2": IOB.format(1) + IOB.format(2),
            "Genia4EReval2.iob2": IOB.format(3),
        },
        lambda folder, _: jnlpba.read_examples(folder),
    ),
    "bigbio_kb": _bigbio(KB, "kb"),
    "bigbio_qa": _bigbio(QUESTION, "qa"),
    "bigbio_text": _bigbio(TEXT, "text"),
    # Its files are archives that have these texts.
    "biosses": (
        {
            "Annotation-Pairs.docx": _table(lambda n: [f"One {n}", f"Two {n}"]),
            "Annotator-Scores.docx": _table(lambda n: [str((n + x) % 5) for x in range(5)]),
        },
        lambda folder, _: biosses.read_examples(folder),
    ),
}
