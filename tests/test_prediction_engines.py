"""The engines that find entities: the same weights give the same spans, and F1 is that by hand."""

import dataclasses
import random
import shutil

import pytest

from benchmarks import (
    best_options,
    engine_process,
    prediction,
    prediction_data,
    prediction_engines,
    spacy_ner,
    step_profile,
)
from benchmarks.prediction import Turn
from benchmarks.prediction_data import Texts
from benchmarks.prediction_engines import ENGINES, Options
from tests import fine_tuned
from tfbio.export import onnx_model
from tfbio.formats.task_examples import TaggedSentence


def sentence(words, tags):
    return TaggedSentence("1", tuple(words.split()), tuple(tags.split()))


def test_tagged_words_become_a_text_with_spans(tmp_path):
    tagged = [sentence("il - 2 binds a drug", "B I I O O B"), sentence("drug drug works", "B B O")]
    texts = prediction_data.of_tagged(tagged)
    assert texts.texts == ["il - 2 binds a drug", "drug drug works"]
    assert texts.entities == [[(0, 6), (15, 19)], [(0, 4), (5, 9)]]
    assert texts.sentences == [[(0, 19)], [(0, 15)]]
    prediction_data.write(tmp_path, "test", texts)
    assert prediction_data.read(tmp_path, "test") == texts
    assert texts.first(1) == Texts(*(each[:1] for each in texts))
    assert texts.spread(1) == texts.first(1) and texts.spread(5) == texts
    assert Texts([*"abcdefg"], [], []).spread(3).texts == [*"ace"]
    # 2 of 3 found are right, of 4.
    found = [[(0, 6), (15, 18)], [(5, 9)]]
    assert prediction_data.f1(found, texts.entities) == pytest.approx(100 * 2 * 2 / (3 + 4))
    assert prediction_data.f1([[], []], texts.entities) == 0


def test_an_inside_tag_without_a_beginning_begins_an_entity():
    words = [(0, 2), (3, 5), (6, 8), (9, 11)]
    for tags, spans in {
        "O B-a I-a O": [(3, 8)],
        "I-a I-a I-b B-b": [(0, 5), (6, 8), (9, 11)],
        "B-a O I-a I-a": [(0, 2), (6, 11)],
        "O I I O": [(3, 8)],
        "B O I B": [(0, 2), (6, 8), (9, 11)],
    }.items():
        assert prediction_engines.spans_of(tags.split(), words) == spans


@pytest.mark.parametrize("name", ENGINES)
def test_all_changes_are_of_options_that_the_engine_heeds(name):
    engine = ENGINES[name]
    for precision in ("float32", "bfloat16"):
        for change in engine.changes(precision):
            dataclasses.replace(engine.start, **change)
            # Where there are several processes, each has so many threads.
            of_processes = {"threads"} if "processes" in change else set()
            assert change.keys() <= {*engine.heeds} | of_processes, change


def test_options_that_an_engine_ignores_are_not_said():
    changed = Options(3, 2, 4, True, "eager", True, True)
    said = {
        name: [
            prediction_engines.words(name, dataclasses.asdict(options))
            for options in (Options(threads=2), changed)
        ]
        for name in ENGINES
    }
    of_batches = ["batches of 8, threads=2", "batches of 3, threads=2, processes=4, by length"]
    assert said == {
        "tfbio": ["standard", "processes=4"],
        "Hugging Face": [of_batches[0], f"{of_batches[1]}, eager, autocast, torch.compile"],
        "ONNX Runtime": of_batches,
        "spaCy": ["batches of 8", "batches of 3, processes=4"],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models with the weights of one, and texts of one sentence and of two."""
    path = tmp_path_factory.mktemp("prediction")
    tagger = path / "transformers"
    fine_tuned.make(tagger, "BertForTokenClassification", fine_tuned.TAGS)
    onnx_model.write(str(tagger), str(path / "onnx"))
    (path / "model.path").write_text(str(tagger))
    rng = random.Random(1)
    words = [word for word in fine_tuned.WORDS.split() if word.isalpha()]

    def line():
        return " ".join(rng.choices(words, k=rng.randint(3, 12)))

    pairs = [(f"The {line()}.", f"It {line()}.") for _ in range(8)]
    texts = [f"{first} {second}" for first, second in pairs]
    spans = [[(0, len(a)), (len(a) + 1, len(a) + 1 + len(b))] for a, b in pairs]
    prediction_data.write(path, "abstracts", Texts(texts, spans, [[] for _ in texts]))
    return path


def test_engines_with_the_same_weights_find_the_same_spans(folder):
    texts = prediction_data.read(folder, "abstracts")
    found = {
        (name, options): ENGINES[name].make(folder, "float32", options)(texts)
        for name, options in [
            ("tfbio", Options()),
            ("Hugging Face", Options(threads=1)),
            ("Hugging Face", Options(3, threads=1, by_length=True, attention="eager")),
            ("ONNX Runtime", Options(1, threads=1)),
            ("ONNX Runtime", Options(3, threads=1, by_length=True)),
        ]
    }
    expected = found["Hugging Face", Options(threads=1)]
    assert sum(map(len, expected)) > 20
    for engine, spans in found.items():
        assert spans == expected, engine
    # Its two processes have the abstracts in turns.
    alone = best_options.peak_memory()
    for name in ("tfbio", "Hugging Face"):
        shared = prediction_engines.make(name, folder, "float32", Options(threads=1, processes=2))
        assert shared(texts) == shared(texts) == expected, name
        assert best_options.peak_memory() > alone + 200
        odd = texts.part(slice(3))
        assert shared(odd) == expected[:3]
    # The same, in formats whose roundings move few tags.
    for options in (Options(threads=1), Options(threads=1, autocast=True)):
        spans = ENGINES["Hugging Face"].make(folder, "bfloat16", options)(texts)
        assert 70 < prediction_data.f1(spans, expected) <= 100, options
    changes = ENGINES["Hugging Face"].changes
    assert {"autocast": True} in changes("bfloat16") and {"autocast": True} not in changes(
        "float32"
    )


def test_the_profile_of_prediction_has_the_products_of_the_model(folder):
    lines = step_profile.prediction(folder, "float32", steps=2)
    assert lines[0] == "| operations | share |"
    shares = [float(line.split("|")[2].strip(" %")) for line in lines[2:]]
    assert any(line.startswith("| matrix products |") for line in lines)
    assert sum(shares) == pytest.approx(100, abs=1)


def test_spacy_learns_its_sentences_and_answers_as_a_process(folder, tmp_path, monkeypatch):
    tagged = [
        ("The drug aspirin works .", "O O B O O"),
        ("Cells bind lithium carbonate .", "O O B I O"),
        ("No protein is given .", "O O O O O"),
        ("Here naloxone binds .", "O B O O"),
    ]
    lines = [
        "\n".join("\t".join(pair) for pair in zip(words.split(), tags.split(), strict=True))
        for words, tags in tagged
    ]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("\n\n".join(lines) + "\n")
    # A model that has not seen all epochs is not taken for one that has.
    shuffle, shuffles = random.shuffle, []

    def interrupted(items):
        shuffles.append(len(items))
        if len(shuffles) == 2:
            raise KeyboardInterrupt
        shuffle(items)

    monkeypatch.setattr(spacy_ner.random, "shuffle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        spacy_ner.train(tmp_path, tmp_path / "spacy", epochs=12)
    assert not (tmp_path / "spacy").exists()
    spacy_ner.train(tmp_path, tmp_path / "spacy", epochs=12)
    shutil.copyfile(folder / "abstracts.json", tmp_path / "abstracts.json")
    texts = prediction_data.of_tagged([sentence(*each) for each in tagged])
    prediction_data.write(tmp_path, "test", texts)
    found = ENGINES["spaCy"].make(tmp_path, "float32", Options())(texts)
    score = prediction_data.f1(found, texts.entities)
    assert score > 60
    engine = engine_process.Engine(
        "benchmarks.prediction", "--engine=spaCy", "--precision=float32", f"--folder={tmp_path}"
    )
    (turns,) = prediction.measure({"spaCy, float32": engine}, rounds=2).values()
    spans = engine.ask("spans")
    assert len(spans) == 8 and sum(map(len, spans)) == turns[-1].entities
    assert len(turns) == 2 and all(turn.seconds > 0 and turn.megabytes > 50 for turn in turns)
    assert engine.ask("test") == pytest.approx(score)
    engine.end()


def test_the_table_has_ratios_to_the_pipeline_in_the_same_format():
    seconds = {
        "tfbio, float32": (5.0, 10.0, 2.0),
        "tfbio, bfloat16": (2.0, 4.0, 8.0),
        "Hugging Face, float32": (10.0, 20.0, 5.0),
        "Hugging Face, bfloat16": (10.0, 5.0, 4.0),
        "spaCy, float32": (1.0, 1.0, 1.0),
    }
    measured = {name: [Turn(x, 100.5, 7) for x in turns] for name, turns in seconds.items()}
    scores = {name: 80 + number for number, name in enumerate(seconds)}
    lines = prediction.table(100, measured, scores)
    assert lines[2:7] == [
        "| tfbio, float32 | 20.00 | 2.00 | 80.00 | 7 | 100 |",
        "| tfbio, bfloat16 | 25.00 | 1.25 | 81.00 | 7 | 100 |",
        "| Hugging Face, float32 | 10.00 | 1.00 | 82.00 | 7 | 100 |",
        "| Hugging Face, bfloat16 | 20.00 | 1.00 | 83.00 | 7 | 100 |",
        "| spaCy, float32 | 100.00 | 10.00 | 84.00 | 7 | 100 |",
    ]
    assert "tfbio, bfloat16 to Hugging Face, bfloat16: 5.00, 1.25, 0.50" in lines[-1]


def test_the_entities_of_both_formats_are_compared_by_abstract_and_span():
    said = prediction.difference([[[0, 4], [6, 9]], [[0, 4]]], [[[0, 4]], [[0, 4], [5, 7], [8, 9]]])
    assert "2 are the same" in said and "1 are in float32 alone, 2 in bfloat16 alone" in said
