"""Corpora in the layout of their releases, a note or two of each, as files in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from data_prep.corpora import (
    bioasq,
    biobert_folds,
    chemprot,
    clinical_sts,
    ddi,
    ebm_pico,
    hoc,
    i2b2_2010,
    i2b2_notes,
    mednli,
    pubmedqa,
    share_clefe,
)
from tests.fuzz import blurb_releases

DDI = """<?xml version="1.0" encoding="UTF-8"?>
<document id="D.d1"><sentence id="D.d1.s0" text="Aspirin and ibuprofen interact.">
<entity id="D.d1.s0.e0" charOffset="0-6" type="drug" text="Aspirin"/>
<entity id="D.d1.s0.e1" charOffset="12-20" type="drug" text="ibuprofen"/>
<entity id="D.d1.s0.e2" charOffset="8-20" type="drug" text="and ibuprofen"/>
<pair id="D.d1.s0.p0" e1="D.d1.s0.e0" e2="D.d1.s0.e1" ddi="true" type="effect"/>
<pair id="D.d1.s0.p1" e1="D.d1.s0.e1" e2="D.d1.s0.e2" ddi="false"/>
</sentence><sentence id="D.d1.s1" text="Nothing."></sentence></document>
"""
ABSTRACT = "7\tAspirin acts.\tIt inhibits p53 in mice. Aspirin binds p53.\n"
MENTIONS = (
    "7\tT1\tCHEMICAL\t0\t7\tAspirin\n7\tT2\tGENE-Y\t26\t29\tp53\n"
    "7\tT3\tCHEMICAL\t39\t46\tAspirin\n7\tT4\tGENE-N\t53\t56\tp53\n"
    "7\tT5\tGENE-N\t45\t46\tn\n7\tT6\tGENE-N\t33\t46\tmice. Aspirin\n"
)
PAIRS = (
    "7\tCPR:4\tY\tINHIBITOR\tArg1:T1\tArg2:T2\n7\tCPR:4\tY\tINHIBITOR\tArg1:T3\tArg2:T4\n"
    "7\tCPR:3\tY\tACTIVATOR\tArg1:T3\tArg2:T4\n"
)
NOTE = "Made up :\nInventol for made up  fever and ache .\n A scan showed ache .\n"
CONCEPTS = (
    'c="inventol" 2:0 2:0||t="treatment"\nc="made up fever" 2:2 2:4||t="problem"\n'
    'c="ache" 2:6 2:6||t="problem"\nc="a scan" 3:1 3:2||t="test"\n'
)
RELATIONS = 'c="inventol" 2:0 2:0||r="TrAP"||c="made up fever" 2:2 2:4\n'
I2B2 = "concept_assertion_relation_training_data/beth"
EVENTS = (
    '<?xml version="1.0" encoding="UTF-8" ?>\n<ROOT>\n'
    "<TEXT><![CDATA[\nAdmitted with fevers & chills .\nGiven Inventol .\n]]></TEXT>\n<TAGS>\n"
    '<EVENT id="E0" start="1" end="9" text="Admitted" type="OCCURRENCE" />\n'
    '<EVENT id="E1" start="15" end="30" text="fevers & chills" type="PROBLEM" />\n'
    '<EVENT id="E2" start="15" end="22" text="Inventol" type="PROBLEM" />\n'
    '<EVENT id="E3" start="9" end="10" text="" type="PROBLEM" />\n'
    '<EVENT id="E4" start="1" end="9" text="Admitted" type="" />\n'
    '<EVENT id="E5" start="900" end="909" text="" type="PROBLEM" />\n'
    "</TAGS>\n</ROOT>\n"
)
PHI = EVENTS.replace("EVENT", "NAME").replace("type=", "TYPE=").replace("OCCURRENCE", "DOCTOR")
PHI = PHI.replace("PROBLEM", "DATE")
CLEFE = "Seen on [**2020-1-1**]. The left and right\natrium is wide.\n\nNo fever.||||\n"
KNOWTATOR = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<annotations textSource="x.txt"><annotation>'
    '<mention id="m0" /><span start="28" end="32" /><span start="43" end="49" />'
    "<spannedText>x</spannedText></annotation></annotations>\n"
)
PAIR = {"pairID": "a", "gold_label": "neutral", "sentence1": "Pt has\tfever.", "sentence2": "No."}
YES_NO = [
    {
        "id": f"a{n}",
        "type": "yesno",
        "body": "Is it?",
        "exact_answer": "yes" if n % 2 else "no",
        "snippets": [{"text": "It is."}, {"text": "More."}],
    }
    for n in range(4)
]
HOC_LABELS = "< < NULL < Resisting cell death--Apoptosis AND Inducing angiogenesis < NULL "


def _questions() -> str:
    labels = ["yes"] * 552 + ["no"] * 338 + ["maybe"] * 110
    return json.dumps(
        {
            str(n): {"QUESTION": "Is it?", "CONTEXTS": ["A.", "B."], "final_decision": label}
            for n, label in enumerate(labels)
        }
    )


# Name -> files, and the function of their folder and of the list of what is left out.
RELEASES: dict[str, tuple[dict[str, str], Callable[[Path, list], object]]] = {
    "ddi": (
        {
            f"{part}/DrugBank/{name}.xml": DDI.replace("d1", name)
            for part, name in (("Train", "a"), ("Train", "b"), ("test_dataset", "c"))
        }
        | {
            f"index/{split}_files.tsv": f"{part}_dataset/DrugBank/{name}.xml\n"
            for split, part, name in (
                ("train", "train", "a"),
                ("dev", "train", "b"),
                ("test", "test", "c"),
            )
        },
        lambda folder, left: ddi.read_examples(folder, folder / "index", left),
    ),
    "chemprot": (
        {
            pattern.format(table): text
            for pattern in chemprot.PARTS.values()
            for table, text in (
                ("abstracts", ABSTRACT),
                ("entities", MENTIONS),
                ("relations", PAIRS),
            )
        },
        lambda folder, left: chemprot.read_examples(folder, left),
    ),
    "hoc": (
        {
            f"{kind}/{n}.txt": text
            for n in "123"
            for kind, text in (("labels", HOC_LABELS), ("text", "One .\nTwo .\nThree .\n"))
        }
        | {
            f"index/{split}_pmid.tsv": f"{n}.txt"
            for split, n in zip(("train", "dev", "test"), "123", strict=True)
        },
        lambda folder, left: hoc.read_examples(folder, folder / "index", left),
    ),
    "i2b2_2010": (
        {
            f"{I2B2}/{inner}/{n}.{kind}": text
            for n in "ab"
            for inner, kind, text in (
                ("txt", "txt", NOTE),
                ("concept", "con", CONCEPTS),
                ("rel", "rel", RELATIONS),
            )
        }
        | {
            "test_data/1.txt": NOTE,
            "reference_standard_for_test_data/concepts/1.con": CONCEPTS,
            "reference_standard_for_test_data/rel/1.rel": RELATIONS,
        },
        lambda folder, left: i2b2_2010.read_examples(folder, left),
    ),
    "i2b2_2010_concepts": (
        {
            f"{I2B2}/{inner}/{n}.{kind}": text
            for n in "ab"
            for inner, kind, text in (("txt", "txt", NOTE), ("concept", "con", CONCEPTS))
        }
        | {"test_data/1.txt": NOTE, "reference_standard_for_test_data/concepts/1.con": CONCEPTS},
        lambda folder, left: i2b2_2010.read_examples(folder, left, concepts=True),
    ),
    "i2b2_2012": (
        {f"2012-07-15.original-annotation.release/{n}.xml": EVENTS for n in "12"}
        | {"2012-08-08.test-data.event-timex-groundtruth/xml/3.xml": EVENTS},
        lambda folder, left: i2b2_notes.read_examples(folder, "2012", left),
    ),
    "i2b2_2014": (
        {f"training-PHI-Gold-Set1/{n}-01.xml": PHI for n in "12"}
        | {"testing-PHI-Gold-fixed/3-01.xml": PHI},
        lambda folder, left: i2b2_notes.read_examples(folder, "2014", left),
    ),
    "share_clefe": (
        {
            "Task1TrainSetCorpus199/a.txt": CLEFE,
            "Task1TrainSetCorpus199/b.txt": CLEFE,
            "Task1TestSetCorpus100/c.txt": CLEFE,
        }
        | {f"Task1TrainSetGOLD199knowtatorehost/{n}.txt.knowtator.xml": KNOWTATOR for n in "ab"}
        | {"Task1Gold_SN2012/c.txt": "c.txt||Disease_Disorder||C0||28||32||43||49\n"},
        lambda folder, left: share_clefe.read_examples(folder, left),
    ),
    "mednli": (
        {
            f"mli_{split}_v1.jsonl": f"{json.dumps(PAIR)}\n{json.dumps(PAIR)}\n"
            for split in ("train", "dev", "test")
        },
        lambda folder, _: mednli.read_examples(folder),
    ),
    "bioasq": (
        {
            "a.json": json.dumps({"questions": [*YES_NO[:2], {"id": "b0", "type": "factoid"}]}),
            "b.json": json.dumps({"questions": YES_NO[2:]}),
        }
        | {
            f"index/{split}_id.tsv": ids
            for split, ids in (("train", "a0,a1"), ("dev", "a2"), ("test", "a3"))
        },
        lambda folder, left: bioasq.read_examples(folder, folder / "index", left),
    ),
    "biobert_folds": (
        {
            "1/train.tsv": "".join(f"@GENE$ {n} @DISEASE$\t{n % 2}\n" for n in range(9)),
            "1/test.tsv": "index\tsentence\tlabel\n0\t@GENE$ @DISEASE$\t1\n",
        },
        lambda folder, _: biobert_folds.read_examples(folder, 1),
    ),
    "clinical_sts": (
        {
            "sts.train.txt": "".join(f"The pt {n}.\tPatient {n}.\t{n % 6}\n" for n in range(9)),
            "sts.test.txt": "One.\tTwo.\t2\n",
        },
        lambda folder, _: clinical_sts.read_examples(folder),
    ),
    "ebm_pico": (
        {f"documents/{n}.tokens": "A\ntrial\n.\n" for n in "123"}
        | {
            f"aggregated/starting_spans/{element}/{part}/{n}.AGGREGATED.ann": "0\n1\n0\n"
            for element in ebm_pico.TAGS
            for part, n in (("train", "1"), ("train", "2"), ("test/gold", "3"))
        }
        | {
            f"index/{split}_pmid.tsv": n
            for split, n in zip(("train", "dev", "test"), "123", strict=True)
        },
        lambda folder, left: ebm_pico.read_examples(folder, folder / "index", left),
    ),
    "pubmedqa": (
        {"ori_pqal.json": _questions()},
        lambda folder, _: pubmedqa.read_examples(folder),
    ),
}
RELEASES |= blurb_releases.RELEASES
# The same with other flags, and with a list of the notes for development.
RELEASES |= {
    "ddi_marker": (
        RELEASES["ddi"][0],
        lambda folder, left: ddi.read_examples(folder, folder / "index", left, "marker"),
    ),
    "chemprot_marker": (
        RELEASES["chemprot"][0],
        lambda folder, left: chemprot.read_examples(folder, left, "marker"),
    ),
    "i2b2_2010_listed": (
        RELEASES["i2b2_2010"][0] | {"dev.txt": "a\n"},
        lambda folder, left: i2b2_2010.read_examples(
            folder, left, str(folder / "dev.txt"), entities="marker"
        ),
    ),
    "share_clefe_listed": (
        RELEASES["share_clefe"][0] | {"dev.txt": "b\n"},
        lambda folder, left: share_clefe.read_examples(folder, left, str(folder / "dev.txt")),
    ),
    "biobert_folds_sized": (
        RELEASES["biobert_folds"][0],
        lambda folder, _: biobert_folds.read_examples(folder, 1, dev_size=9),
    ),
    "pubmedqa_fold": (
        RELEASES["pubmedqa"][0],
        lambda folder, _: pubmedqa.read_examples(folder, 3),
    ),
}
# Corpora of which BLURB's lists say what is in which split: what a list names, and the names.
LISTED = {
    "ddi": ("{}_files.tsv", "{}_dataset/DrugBank/{}.xml"),
    "hoc": ("{}_pmid.tsv", "{}.txt"),
    "ebm_pico": ("{}_pmid.tsv", "{}"),
    "bioasq": ("{}_id.tsv", "{}"),
}
