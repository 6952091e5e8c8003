"""spaCy's documents get the entities that `tfbio.load` finds, with the same offsets."""

import gc
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin

import tfbio
from tfbio.api.results import Entity
from tfbio.api.spacy_component import TfbioNer
from tfbio.base.errors import UserError
from tfbio.export import conversion

pytestmark = pytest.mark.filterwarnings("ignore:.*doc.ents has no place")
ROOT = Path(__file__).resolve().parents[3]
KNOWN = {"words": "punctuation", "entity_type": "y"}
LABELS = ["O", "B-x", "I-x", "B-y", "I-y"]
TEXTS = [
    "Imatinib inhibits BCR-ABL.",
    "",
    "IL-2-induced cells/mice(n=12) in 10mg/kg na\u00efve\u2013treated p53+/- rats",
    " \n\t ",
    "in \U0001d6fc-mice cafe\u0301 \u0130stanbul\u00a0rate \u212b \U0001f9ec\U0001f600of\u2028it",
    "  two  spaces, three   and\r\n\r\none\ttab ",
    "\u65e5\u672c\u8a9eand\ud55c\uae00 zero\u200bwidth \ufeff x\u0301\u0301 bell\x07",
    "the rates of the disease in mice and of the cells in patients were low " * 12,
    "can't (e.g., IL-2, gimme) https://example.org/a_b?c=d a.b@c.org :) 1,000%...",
]


@pytest.fixture
def trial(make_trial):
    """A model with random weights, which sees the long text in several windows."""
    return make_trial("tagging", LABELS, KNOWN)[0]


def pipeline(model, **config):
    nlp = spacy.blank("en")
    nlp.add_pipe("tfbio_ner", config={"model": str(model), **config})
    return nlp


def rows(entities):
    """Entities without the last digits of their scores, which depend on the batch."""
    return [(x.text, x.label, x.start, x.end, pytest.approx(x.score, abs=1e-4)) for x in entities]


def found_in(docs):
    return [
        [(x.text, x.label, x.start, x.end, x.score) for x in doc._.tfbio_entities()] for doc in docs
    ]


def test_entities_are_those_of_the_model(trial):
    expected = [rows(entities) for entities in tfbio.load(trial)(TEXTS)]
    assert sum(map(len, expected)) > 40
    assert expected[1] == expected[3] == [] and all(expected[number] for number in (0, 2, 4, 6, 7))
    nlp = pipeline(trial)
    docs = list(nlp.pipe(TEXTS, batch_size=4))
    assert [doc.text for doc in docs] == TEXTS
    assert found_in(docs) == expected
    assert found_in(map(nlp, TEXTS)) == expected
    inside = 0
    for doc, entities in zip(docs, expected, strict=True):
        spans = doc.spans["tfbio"]
        assert len(spans) == len(entities)
        for span, (text, label, start, end, _) in zip(spans, entities, strict=True):
            # The tokens that share a character with the entity, and no others.
            touched = [
                token.i for token in doc if token.idx < end and start < token.idx + len(token)
            ]
            assert [token.i for token in span] == touched and span.label_ == label
            assert text in span.text
            inside += text != span.text
        ends = {(start, end) for _, _, start, end, _ in entities}
        moved = [x for x in doc.ents if (x.start_char, x.end_char) not in ends]
        assert spans.attrs["moved"] == len(moved)
        assert spans.attrs["dropped"] == len(entities) - len(doc.ents)
    assert inside > 3  # some end within a token


@pytest.mark.parametrize("mode", ["expand", "contract", "strict"])
def test_entities_end_where_tokens_end(mode):
    words = ["IL-2-induced", "cells", "/mice", "(", "p53+/-", ")", "died", "."]
    spaces = [True, False, True, False, False, True, False, False]
    nlp = pipeline("unused", alignment_mode=mode)
    component = nlp.get_pipe("tfbio_ner")
    doc = Doc(nlp.vocab, words=words, spaces=spaces)
    assert doc.text == "IL-2-induced cells/mice (p53+/-) died."
    entities = [
        Entity(doc.text[start:end], label, start, end, 0.5)
        for start, end, label in [
            (0, 4, "Gene"),  # in a token
            (5, 18, "Change"),  # begins in the same one
            (13, 18, "Cell"),  # is exact
            (18, 23, "Mouse"),  # is exact
            (19, 23, "Mouse"),  # the same but for a stroke
            (25, 28, "Gene"),
        ]
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        moved, dropped = component._set_ents(doc, entities)
        component._set_ents(doc, [])
        assert component._set_ents(doc, entities) == (moved, dropped)
    # Worked out by hand.
    expected = {
        "expand": (
            [("IL-2-induced cells", "Change"), ("/mice", "Mouse"), ("p53+/-", "Gene")],
            (2, 3),
        ),
        "contract": ([("cells", "Change"), ("/mice", "Mouse")], (1, 4)),
        "strict": ([("cells", "Cell"), ("/mice", "Mouse")], (0, 4)),
    }
    assert [(x.text, x.label_) for x in doc.ents] == expected[mode][0]
    assert (moved, dropped) == expected[mode][1]
    (warning,) = caught  # once
    assert f"no place for {dropped} of the 6 entities" in str(warning.message)


def test_entities_of_other_components(trial):
    text = TEXTS[0]
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "DRUG", "pattern": "Imatinib"}])
    off = nlp.add_pipe("tfbio_ner", "off", config={"model": trial, "set_ents": False})
    nlp.add_pipe("tfbio_ner", "keep", config={"model": trial, "spans_key": "other"})
    (first, *rest) = nlp(text)._.tfbio_entities("other")
    # The model's first entity covers the ruler's.
    assert first.start == 0 and rest
    doc = nlp(text)
    assert doc.ents[0].text == "Imatinib" and doc.ents[0].label_ == "DRUG" and len(doc.ents) > 1
    assert doc.spans["other"].attrs["dropped"] == 1
    assert doc._.tfbio_entities() == doc._.tfbio_entities("other")
    assert "dropped" not in doc.spans["tfbio"].attrs
    nlp.get_pipe("keep").overwrite_ents = True
    doc = nlp(text)
    assert "DRUG" not in {x.label_ for x in doc.ents} and doc.ents[0].start == 0
    assert off.set_ents is False and not nlp.analyze_pipes()["problems"]["keep"]


def test_documents_are_saved_with_offsets_and_scores(trial):
    nlp = pipeline(trial)
    docs = list(nlp.pipe(TEXTS))
    expected = found_in(docs)
    other = spacy.blank("en")
    bins = [DocBin(docs=docs, store_user_data=x).to_bytes() for x in (True, False)]
    for again in (
        *(list(DocBin().from_bytes(x).get_docs(other.vocab)) for x in bins),
        [Doc(other.vocab).from_bytes(doc.to_bytes()) for doc in docs],
        [doc.copy() for doc in docs],
    ):
        assert found_in(again) == expected
        for doc, copy in zip(docs, again, strict=True):
            assert doc.spans["tfbio"].attrs == copy.spans["tfbio"].attrs
            assert [str(x) for x in doc.ents] == [str(x) for x in copy.ents]
    # Their attrs know nothing of the change.
    docs[0].spans["tfbio"] = list(docs[0].spans["tfbio"])[:1]
    with pytest.raises(UserError, match='doc.spans."tfbio". is no longer as tfbio_ner has set it'):
        docs[0]._.tfbio_entities()
    read = Doc(other.vocab).from_json(docs[2].to_json())
    for lost in (Doc.from_docs([docs[2], docs[4]]), read):
        with pytest.raises(UserError, match=r"Doc\.from_json lose the offsets: call the component"):
            lost._.tfbio_entities()
    with pytest.raises(KeyError, match="tfbio"):
        nlp.make_doc("mice")._.tfbio_entities()


# Loads a pipeline, and annotates the second argument's texts in two processes.
PROGRAM = """
import json, multiprocessing, sys
import spacy

multiprocessing.set_start_method("spawn")
nlp = spacy.load(sys.argv[1])
# One batch, so one of the two loads the model.
docs = list(nlp.pipe(json.load(open(sys.argv[2])), n_process=2))
found = [
    [(x.text, x.label, x.start, x.end, x.score) for x in doc._.tfbio_entities()] for doc in docs
]
json.dump(found, open(sys.argv[3], "w"))
sys.exit("tensorflow" in sys.modules or "tfbio.api.loading" in sys.modules)
"""


def test_a_pipeline_is_saved_with_its_model(trial, tmp_path):
    run = Path(trial).parent
    expected = [rows(entities) for entities in tfbio.load(trial)(TEXTS)]
    pipeline(run, alignment_mode="strict", set_ents=False).to_disk(tmp_path / "pipeline")
    shutil.rmtree(run)
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    arguments = [str(tmp_path / name) for name in ("pipeline", "texts.json", "found.json")]
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    found = json.loads((tmp_path / "found.json").read_text())
    assert [[tuple(x) for x in entities] for entities in found] == expected
    # Saved over the folder that it comes from, and again.
    nlp = spacy.load(tmp_path / "pipeline")
    component = nlp.get_pipe("tfbio_ner")
    assert (component.alignment_mode, component.set_ents) == ("strict", False)
    for _ in range(2):
        nlp.to_disk(tmp_path / "pipeline")
    names = ["config.json", "trial_0", "vocab.txt"]
    assert sorted(x.name for x in (tmp_path / "pipeline" / "tfbio_ner").iterdir()) == names


def test_settings_go_to_the_model_and_are_saved(trial, tmp_path):
    settings = {"run.eval_batch_size": 3, "run.precision": "float32"}
    nlp = spacy.blank("en")
    nlp.add_pipe("tfbio_ner", config={"model": {"path": trial, "settings": settings}})
    nlp.to_disk(tmp_path / "pipeline")
    for each in (nlp, spacy.load(tmp_path / "pipeline")):
        model = each.get_pipe("tfbio_ner").load()
        run = model.predictor.config.run
        assert (run.eval_batch_size, run.precision) == (3, "float32")
    assert model.path != trial
    with pytest.raises(UserError, match="has 'batch_size', and takes path and settings alone"):
        nlp.add_pipe("tfbio_ner", name="x", config={"model": {"path": trial, "batch_size": 3}})


def test_a_tagger_of_hugging_face_is_saved(trial, tmp_path):
    conversion.to_hugging_face(trial, str(tmp_path / "theirs"))
    expected = [rows(entities) for entities in tfbio.load(tmp_path / "theirs")(TEXTS)]
    in_bytes = pipeline(tmp_path / "theirs").to_bytes()
    shutil.rmtree(tmp_path / "theirs")
    nlp = pipeline("not here").from_bytes(in_bytes)
    assert found_in(nlp.pipe(TEXTS)) == expected
    folder = nlp.get_pipe("tfbio_ner")._path
    assert os.path.isdir(folder)
    pickled = pickle.dumps(nlp.get_pipe("tfbio_ner"))
    del nlp
    gc.collect()
    assert not os.path.exists(folder)
    again = pickle.loads(pickle.dumps(pickle.loads(pickled)))
    assert found_in(again.pipe(map(spacy.blank("en"), TEXTS))) == expected
    # What is in a folder of the user's is pickled by its path.
    assert len(pickle.dumps(again.from_disk(folder))) < 1000 < len(pickled)


def test_a_forked_process_leaves_the_unpacked_model_to_its_parent():
    """As of a server that forks workers, which end before it."""
    component = TfbioNer(None, "tfbio_ner", "unused", "tfbio", True, False, "expand")
    held = [component.from_bytes(srsly.msgpack_dumps({"config.json": b"{}"}))]
    folder = component._path
    del component
    child = multiprocessing.get_context("fork").Process(target=held.clear)
    child.start()
    child.join()
    assert child.exitcode == 0 and os.listdir(folder) == ["config.json"]
    held.clear()
    assert not os.path.exists(folder)


@pytest.mark.parametrize("name", ["../out", "trial_0/../../out", "{}/out"])
def test_bytes_are_written_to_their_folder_alone(name, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    files = {"config.json": b"{}", name.format(tmp_path): b"x"}
    component = pipeline("unused").get_pipe("tfbio_ner")
    with pytest.raises(UserError, match="tfbio_ner: .* a file whose name leads out of its folder"):
        component.from_bytes(srsly.msgpack_dumps(files))
    assert not list(tmp_path.rglob("out"))


def test_processes_that_tensorflow_does_not_survive_are_refused(trial):
    nlp = pipeline(trial)
    nlp("the mice")
    assert multiprocessing.get_start_method() == "fork"
    with pytest.raises(ValueError, match="this process was forked .*: call .*start_method..spawn"):
        list(nlp.pipe(TEXTS, n_process=2, batch_size=2))


def test_what_cannot_be_used_is_refused(make_trial, shallow_encoder, tmp_path):
    with pytest.raises(UserError, match='write nlp.add_pipe."tfbio_ner", config={"model": "out/'):
        spacy.blank("en").add_pipe("tfbio_ner")
    trial, _ = make_trial("classification", ["no", "yes"], {"pairs": False})
    for model, words in {
        trial: "trial_0 holds no model that finds entities in documents: give one that was",
        shallow_encoder: "encoder holds no model that finds entities in documents",
        tmp_path / "nowhere": "nowhere is not here, and nothing is downloaded by a name",
    }.items():
        nlp = pipeline(model)
        with pytest.raises(UserError, match=words):
            nlp.get_pipe("tfbio_ner").load()
        with pytest.raises(UserError, match=words):
            nlp("the mice")
        with pytest.raises(UserError, match=words):
            list(nlp.pipe(["the mice"]))
        failed = []
        nlp.set_error_handler(lambda name, _, docs, error, own=failed: own.append((name, *docs)))
        assert list(nlp.pipe(["the mice", "the cells"])) == []
        assert [(name, *map(str, docs)) for name, *docs in failed] == [
            ("tfbio_ner", "the mice", "the cells")
        ]
