"""The hub reads the card of a converted model, and it says what the run's files say."""

import dataclasses
import json
from pathlib import Path

import pytest
import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData

import tfbio
from tests.run_files import write_pretraining_settings
from tfbio.base import config, json_files
from tfbio.base.manifests import read_manifest
from tfbio.export import conversion, model_card
from tfbio.export.model_card import Publication
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.task_types import finetuning_config
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.finetuning_files import RunScores, TrialScores

# As they come, and not as a decimal number has them.
TEST = {"f1": 0.1 + 0.2, "precision": 2 / 3, "recall": 0.875}
DEV = {"f1": 0.5, "precision": 0.5, "recall": 0.25}


def read_back(path):
    """Returns a card as the hub's library reads it, which would write it as it is."""
    card = ModelCard.load(path)
    assert str(card) == path.read_text(encoding="utf-8")
    again = ModelCardData(**yaml.safe_load(card.data.to_yaml()))
    assert again.to_dict() == card.data.to_dict()
    assert again.eval_results == card.data.eval_results
    return card


def test_of_a_pretraining_run(pretrained, examples_folder, tmp_path):
    folder = tmp_path / "converted"
    conversion.to_hugging_face(pretrained, str(folder))
    card = read_back(folder / "README.md")
    assert card.data.to_dict() == {
        "library_name": "transformers",
        "pipeline_tag": "feature-extraction",
        "tags": ["tfbio", "biomedical", "electra"],
    }
    counts = read_manifest(examples_folder, "examples").counts
    settings = json.loads(Path(pretrained, "config.json").read_text())
    assert settings["data"]["64"].items() >= counts.items()
    text = card.text
    assert f"Made by tfbio {tfbio.__version__}." in text
    assert "2 of 2 steps of 8 examples." in text
    seen = 2 * 8 * 64 * (1 - counts["padding_share"])
    assert f"So it saw {seen:,.3g} tokens, padding not counted." in text
    assert "| `encoder.hidden_size` | 48 | 256 |" in text
    assert "`encoder.type_vocab_size`" not in text and "`seed`" not in text
    assert f"| documents | {counts['documents']:,} |" in text
    assert f"| tokens without special ones and padding | {counts['tokens']:,} |" in text
    assert settings["vocab_sha256"] in text
    assert "AutoTokenizer, ElectraForPreTraining" in text
    assert str(tmp_path) not in text and pretrained not in text
    again = config.load(PretrainingConfig, str(folder / "hparams.json"))
    names = [field.name for field in dataclasses.fields(PretrainingConfig)]
    found = json.loads(json.dumps(dataclasses.asdict(again)))
    assert found == {name: settings[name] for name in names}

    # A checkpoint that was converted from elsewhere does not know what it read.
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    for path in Path(pretrained).iterdir():
        if path.is_file():
            (earlier / path.name).write_bytes(path.read_bytes())
    settings["data"] = {}
    (earlier / "config.json").write_text(json.dumps(settings))
    conversion.to_hugging_face(str(earlier), str(tmp_path / "without"))
    text = ModelCard.load(tmp_path / "without" / "README.md").text
    assert "2 of 2 steps" in text and "it saw" not in text and "documents" not in text


def test_the_tokens_of_both_phases_count(tmp_path):
    """A step of 8 examples of 64 tokens, and one of 32: 8 * (64 * 0.5 + 32 * 0.75)."""
    phases = PretrainingConfig(
        sequence_length=64,
        final_sequence_length=32,
        final_phase_fraction=0.5,
        train_batch_size=8,
        num_train_steps=2,
    )
    data = {"64": {"padding_share": 0.5}, "32": {"padding_share": 0.25}}
    write_pretraining_settings(tmp_path, phases, data=data)
    (tmp_path / "ckpt-2.index").touch()
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "ckpt-2"\n')
    converted = tmp_path / "converted"
    converted.mkdir()
    (converted / "config.json").write_text('{"architectures": ["ElectraForPreTraining"]}')
    model_card.write(converted, str(tmp_path))
    text = (converted / "README.md").read_text()
    assert "2 of 2 steps of 8 examples.\nSo it saw 448 tokens, padding not counted." in text


@pytest.mark.parametrize(
    ("task_type", "labels", "changes", "said"),
    [
        ("tagging", ["O", "B-X", "I-X"], {"scheme": "BIOUL"}, "read U as B, and L as I."),
        ("tagging", ["O", "B-X", "I-X"], {}, "Only the first token of a word has learnt its tag"),
        ("tagging", ["O", "B-X", "I-X"], {"label_all_tokens": True}, ""),
        ("token_multilabel", ["x", "y"], {}, "each label whose sigmoid is above 0.5"),
        ("classification", ["x", "y"], {}, ""),
    ],
)
def test_what_the_pipeline_of_transformers_misreads(
    task_type, labels, changes, said, make_trial, tmp_path
):
    trial, settings = make_trial(task_type, labels, {}, **changes)
    scores = TrialScores(seed=7, step=1234, dev=DEV, test=TEST)
    json_files.write(Path(trial, "scores.json"), scores)
    named = dataclasses.replace(settings, task="own")
    finetuning_config.write(Path(trial).with_name("config.json"), named)
    conversion.to_hugging_face(trial, str(tmp_path / "converted"))
    card = read_back(tmp_path / "converted" / "README.md").text
    assert ("he pipeline of `transformers`" in card) == bool(said)
    assert said in card


def test_a_score_that_dev_has_not_is_left_open(make_trial, tmp_path):
    trial, settings = make_trial("question_answering", [], {})
    scores = TrialScores(dev={"f1": 0.5}, test={"f1": 0.25, "no_answer_f1": 0.75})
    json_files.write(Path(trial, "scores.json"), scores)
    named = dataclasses.replace(settings, task="own")
    finetuning_config.write(Path(trial).with_name("config.json"), named)
    conversion.to_hugging_face(trial, str(tmp_path / "converted"))
    card = (tmp_path / "converted" / "README.md").read_text()
    assert "| f1 | 0.5000 | 0.2500 |" in card and "| no_answer_f1 |  | 0.7500 |" in card


@pytest.mark.parametrize("seeds", [1, 3])
def test_of_a_trial(seeds, make_trial, tmp_path):
    known = {"entity_type": "Disease", "words": "punctuation"}
    trial, settings = make_trial(
        "tagging", ["O", "B", "I"], known, common={"learning_rate": 0.125}, early_cut=True
    )
    scores = TrialScores(seed=7, step=1234, dev=DEV, test=TEST)
    json_files.write(Path(trial, "scores.json"), scores)
    summary = RunScores(
        task="ncbi_disease",
        metric="f1",
        init="/home/me/out/model",
        examples={"dev": [9, 9], "test": [9, 9]},
        trials=[scores] * seeds,
        mean=0.5,
        std=0.125 if seeds > 1 else None,
        median=0.25,
    )
    json_files.write(Path(trial).with_name("scores.json"), summary)
    settings = dataclasses.replace(
        settings,
        task="ncbi_disease",
        init_checkpoint="/home/me/out/model",
        data_sha256={"train": "abc", "dev": "def", "test": "012"},
        vocab_sha256="345",
        comment="As in the paper.",
    )
    finetuning_config.write(Path(trial).with_name("config.json"), settings)
    conversion.to_hugging_face(trial, str(tmp_path / "converted"))
    card = read_back(tmp_path / "converted" / "README.md")
    assert card.data.to_dict() == {
        "library_name": "transformers",
        "pipeline_tag": "token-classification",
        "tags": ["tfbio", "biomedical", "ncbi_disease"],
        "metrics": ["f1", "precision", "recall"],
        "model-index": [
            {
                "name": "ncbi_disease, seed 7",
                "results": [
                    {
                        "task": {"type": "token-classification"},
                        "dataset": {
                            "name": "ncbi_disease",
                            "type": "ncbi_disease",
                            "split": "test",
                        },
                        "metrics": [
                            {"type": metric, "value": value, "name": metric}
                            for metric, value in TEST.items()
                        ],
                    }
                ],
            }
        ],
    }
    results = card.data.eval_results
    assert {result.metric_type: result.metric_value for result in results} == TEST
    assert "from the encoder of `model`." in card.text and "/home/me" not in card.text
    assert "after step 1,234, of seed 7" in card.text and "As in the paper." in card.text
    assert "| `learning_rate` | 0.125 | 0.0002 |" in card.text
    # Prediction does not cut, and the run did.
    assert "| `tagging.early_cut` | true | false |" in card.text
    assert "| f1 | 0.5000 | 0.3000 |" in card.text and "| train | `abc` |" in card.text
    mean = "Over 3 seeds, f1 on test is 0.5000 ± 0.1250 (mean, standard deviation), the median 0.2"
    assert (mean in card.text) == (seeds > 1) and ("Over" in card.text) == (seeds > 1)
    assert 'aggregation_strategy="first"' in card.text
    assert "names none: whoever publishes the model chooses it" in card.text
    assert (
        "does not name the data sets (`datasets`), the model that training started from "
        "(`base_model`), the hardware and the emissions of CO2: the run's files do not tell."
    ) in card.text


def test_of_a_publication(make_trial, tmp_path):
    trial, settings = make_trial("tagging", ["O", "B", "I"], {"words": "punctuation"})
    scores = TrialScores(seed=3, step=10, dev=DEV, test=TEST)
    json_files.write(Path(trial, "scores.json"), scores)
    settings = dataclasses.replace(settings, task="ncbi_disease")
    finetuning_config.write(Path(trial).with_name("config.json"), settings)
    facts = Publication("cc-by-4.0", "me/encoder", ("ncbi_disease",), "1 NVIDIA H100", 12.5)
    conversion.to_hugging_face(trial, str(tmp_path / "converted"), facts)
    card = read_back(tmp_path / "converted" / "README.md")
    said = card.data.to_dict()
    assert (
        said.items()
        >= {
            "license": "cc-by-4.0",
            "base_model": "me/encoder",
            "datasets": ["ncbi_disease"],
            "co2_eq_emissions": {
                "emissions": 12.5,
                "hardware_used": "1 NVIDIA H100",
                "training_type": "fine-tuning",
            },
        }.items()
    )
    assert card.data.eval_results == [
        EvalResult(
            task_type="token-classification",
            dataset_type="ncbi_disease",
            dataset_name="ncbi_disease",
            dataset_split="test",
            metric_type=name,
            metric_name=name,
            metric_value=value,
        )
        for name, value in TEST.items()
    ]
    assert "The licence is `cc-by-4.0`." in card.text and "Not stated" not in card.text
    # Whoever has the folder can do the run again.
    hparams = str(tmp_path / "converted" / "hparams.json")
    again = config.load(FinetuningConfig, hparams)
    assert again == dataclasses.replace(
        config.load(FinetuningConfig), sequence_length=48, seed=3, num_trials=1
    )
