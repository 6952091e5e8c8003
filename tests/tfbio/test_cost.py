"""What a run costs, against the model that is built, PyTorch's count, and published runs."""

import dataclasses
import itertools
import json
from pathlib import Path

import pytest
import tensorflow as tf

from tfbio import config, cost, distribution, pretraining, records
from tfbio.cli import UserError
from tfbio.electra import Electra
from tfbio.masked_language_model import MaskedLanguageModel

ROOT = Path(__file__).parents[2]

SHAPE = config.EncoderConfig(
    vocab_size=300,
    embedding_size=32,
    hidden_size=64,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=112,
    max_position_embeddings=48,
)
WIDE = dataclasses.replace(SHAPE, embedding_size=64)


def settings(**options):
    options = {"encoder": SHAPE, "generator_hidden_fraction": 0.5} | options
    return config.PretrainingConfig(sequence_length=40, **options)


def recipe(name):
    return config.load(config.PretrainingConfig, str(ROOT / "hparams" / f"{name}.json"))


OPTIONS = {
    "small": {},
    "no projection": {"encoder": WIDE},
    "fewer layers": {"generator_layers_fraction": 0.34},
    "own embeddings": {"untied_generator_embeddings": True},
    "one encoder": {"untied_generator": False},
    "no generator": {"uniform_generator": True},
    "mlm": {"objective": "mlm"},
    "mlm, no projection": {"objective": "mlm", "encoder": WIDE, "uniform_generator": True},
    "growing rate": {"objective": "mlm", "final_mask_prob": 0.25},
    "one layer": {
        "objective": "mlm",
        "encoder": dataclasses.replace(SHAPE, share_layers=True),
        "sentence_pair_head": True,
    },
    "one layer, as large as the embeddings": {
        "objective": "mlm",
        "encoder": dataclasses.replace(WIDE, share_layers=True),
    },
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_parameters_are_those_of_the_model(options):
    made = settings(**options)
    found = cost.parameters(made)
    model = MaskedLanguageModel(made) if made.objective == "mlm" else Electra(made)
    assert found.encoder == pretraining.count_parameters(model.encoder)
    assert found.all == pretraining.count_parameters(model)
    own = set()
    if made.objective == "electra" and not made.uniform_generator:
        layers = (model.generator, model.generator_head)
        own = {v.ref() for layer in layers for v in layer.trainable_variables}
        own -= {v.ref() for v in model.encoder.trainable_variables}
    assert found.generator == sum(v.deref().shape.num_elements() for v in own)


def hugging_face_flops(shape, length, hidden_tokens, head):
    """What PyTorch counts in one example's forward and backward pass; words at some positions."""
    import torch
    import transformers
    from torch.utils.flop_counter import FlopCounterMode

    settings = dataclasses.asdict(shape)
    for name in ("initializer_range", "position_offset", "share_layers"):
        del settings[name]
    make = transformers.AlbertConfig if shape.share_layers else transformers.ElectraConfig
    peer = make(**settings, attn_implementation="eager")
    ids = torch.ones([1, length], dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        if shape.share_layers:
            model = transformers.AlbertForMaskedLM(peer)
            scores = model.predictions(model.albert(ids).last_hidden_state[:, :hidden_tokens])
        elif head == "words":
            model = transformers.ElectraForMaskedLM(peer)
            rows = model.electra(ids).last_hidden_state[:, :hidden_tokens]
            scores = model.generator_lm_head(model.generator_predictions(rows))
        else:
            scores = transformers.ElectraForPreTraining(peer)(ids).logits
        scores.sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_flops_are_what_pytorch_counts_in_hugging_face(options):
    made = settings(**options)
    hidden_tokens = made.max_predictions(40)
    shapes = [(made.encoder, "tokens")]
    if made.objective == "mlm":
        shapes = [(made.encoder, "words")]
    elif not made.uniform_generator:
        shapes.append((made.generator, "words"))
    expected = sum(
        hugging_face_flops(shape, 40, hidden_tokens, head=head) for shape, head in shapes
    )
    assert cost.example_flops(made, 40) == expected


def test_flops_of_the_published_sizes():
    """As counted before, with another program: 9.0, 45 and 78 GFLOP an example."""
    small, base = recipe("small"), recipe("base")
    assert cost.example_flops(small, 128) == pytest.approx(9.0e9, rel=0.01)
    assert cost.example_flops(small, 512) == pytest.approx(45e9, rel=0.01)
    assert cost.example_flops(base, 128) == pytest.approx(78e9, rel=0.01)


def test_parts_of_a_batch_take_the_memory_of_one():
    device, made = cost.DEVICES["t4"], settings(train_batch_size=64)
    run = dataclasses.replace(made.run, gradient_accumulation_steps=4)
    parted = dataclasses.replace(made, run=run)
    quarter = dataclasses.replace(made, train_batch_size=16)
    of_parts, of_quarter, of_all = (
        cost.memory(each, device, "float32") for each in (parted, quarter, made)
    )
    assert of_parts == of_quarter < of_all


def test_a_run_is_the_sum_of_its_steps():
    made = dataclasses.replace(settings(), final_sequence_length=48, num_train_steps=100)
    short, long = (128 * cost.example_flops(made, length) for length in (40, 48))
    assert cost.run_flops(made) == 90 * short + 10 * long
    assert cost.run_flops(made, 0, 7) == 7 * short
    assert cost.run_flops(made, 88, 93) == 2 * short + 3 * long
    assert cost.run_flops(made, 95) == 5 * long


def test_a_generator_that_learns_alone_takes_no_backward_pass_of_the_discriminator():
    made = settings(num_train_steps=100, generator_warmup_steps=30)
    step = 128 * cost.example_flops(made, 40)
    # All but the generator, forward and backward: the latter is two thirds.
    discriminator = 128 * cost.example_flops(settings(uniform_generator=True), 40)
    alone = step - discriminator * 2 // 3
    assert cost.run_flops(made) == 30 * alone + 70 * step
    assert cost.run_flops(made, 28, 33) == 2 * alone + 3 * step
    assert cost.run_flops(made, 50, 60) == 10 * step
    assert "in the first 30 the generator learns alone" in cost.report(made, "v100")
    assert "alone" not in cost.report(settings(uniform_generator=True), "v100")


V2, V3 = (2 * cost.DEVICES[f"tpu-{name}-8"].bfloat16 for name in ("v2", "v3"))  # of a chip
PHASES = {"sequence_length": 128, "final_sequence_length": 512}
ONLY_512 = {"sequence_length": 512}
BERT = {"objective": "mlm", "encoder": recipe("base").encoder}


@pytest.mark.parametrize(
    ("options", "days", "peak", "share"),
    [
        # You et al. (2020): as many examples as a million steps of 512.
        (
            {**BERT, **PHASES, "encoder": recipe("large").encoder},
            76 / 1440,
            1024 * V3,
            cost.SHARE_OF_PEAK,
        ),
        # Devlin et al. (2019), appendix A.2.
        ({**BERT, **PHASES, "train_batch_size": 256}, 4, 16 * V2, 0.096),
        # Clark et al. (2020), tables 1 and 6.
        ({**ONLY_512, "train_batch_size": 256, "num_train_steps": 766_000}, 4, 16 * V3, 0.099),
        # Gu et al. (2020), section 3.1; lengths are not said.
        (
            {**BERT, **ONLY_512, "train_batch_size": 8192, "num_train_steps": 62_500},
            5,
            16 * 125e12,
            0.18,
        ),
        # Kanakarajan et al. (2021), appendix A.
        (PHASES, 5, 4 * V3, 0.25),
    ],
    ids=["BERT-large, LAMB", "BERT-base", "ELECTRA-base", "PubMedBERT", "BioELECTRA"],
)
def test_shares_of_peak_of_published_runs(options, days, peak, share):
    """Those in docs/pretraining.md; the first is what `SHARE_OF_PEAK` stands for."""
    made = dataclasses.replace(recipe("base"), **{"final_sequence_length": 0, **options})
    assert cost.run_flops(made) / (days * 86400 * peak) == pytest.approx(share, rel=0.02)


def test_bioelectra_took_five_days():
    """Kanakarajan et al. (2021), appendix A: 1 M steps in 5 days on a TPU v3-8."""
    assert cost.days(recipe("base"), "tpu-v3-8") == pytest.approx(5, rel=0.11)


def test_days_follow_the_precision():
    base = recipe("base")
    half = dataclasses.replace(base, run=config.PretrainingRun(precision="bfloat16"))
    single = dataclasses.replace(base, run=config.PretrainingRun(precision="float32"))
    assert cost.days(single, "a100") == 2 * cost.days(half, "a100")
    for device in ("a100", "tpu-v4-8"):  # which have bfloat16
        assert cost.days(base, device) == cost.days(half, device)
    assert cost.days(base, "v100") == cost.days(single, "v100")


def test_memory_follows_the_batch_and_the_devices():
    made = settings(train_batch_size=64)
    one, two = (cost.Device(count, 1e12, 1e12, 1e9) for count in (1, 2))
    parameters = 16 * cost.parameters(made).all
    activations = cost.memory(made, one, "float32") - parameters
    assert cost.memory(made, two, "float32") - parameters == activations / 2
    assert cost.memory(made, one, "bfloat16") - parameters == activations / 2
    longer = dataclasses.replace(made, final_sequence_length=48)
    assert cost.memory(longer, one, "float32") - parameters > activations


@pytest.mark.parametrize(
    "path", sorted((ROOT / "benchmarks" / "tpu").glob("*.json")), ids=lambda path: path.stem
)
def test_memory_on_a_tpu_is_what_its_compiler_says(path):
    """Within 15 %, where the compiler had no need to save; and the same fits."""
    result = json.loads(path.read_text())
    layers, hidden = map(int, result["encoder"].split(" x "))
    (made,) = (
        each
        for each in map(recipe, ("small", "base", "large"))
        if (each.encoder.num_hidden_layers, each.encoder.hidden_size) == (layers, hidden)
    )
    device = cost.DEVICES[f"tpu-{result['tpu']}"]
    made = dataclasses.replace(
        made,
        sequence_length=result["length"],
        final_sequence_length=0,
        train_batch_size=result["batch_per_core"] * device.count,
        run=config.PretrainingRun(gradient_accumulation_steps=result["parts"]),
    )
    planned = cost.tpu_memory(made, device)
    assert (planned <= device.memory) == ("error" not in result)
    if "error" not in result and result["needed_bytes"] < 0.6 * device.memory:
        assert planned == pytest.approx(result["needed_bytes"] - result["code_bytes"], rel=0.15)


def test_what_is_too_much_is_said_with_its_remedy():
    made = dataclasses.replace(recipe("large"), train_batch_size=4096)
    (row,) = [line for line in cost.report(made, "tpu-v3-8").splitlines() if "too much" in line]
    parts = cost.parts_that_fit(made, "tpu-v3-8")
    assert parts > 1 and row.endswith(f"fits with run.gradient_accumulation_steps={parts}")

    def fits(parts):
        run = config.PretrainingRun(gradient_accumulation_steps=parts)
        needed = cost.needed_memory(dataclasses.replace(made, run=run), "tpu-v3-8")
        return needed <= cost.DEVICES["tpu-v3-8"].memory

    assert fits(parts) and not fits(parts // 2)
    assert cost.parts_that_fit(recipe("small"), "tpu-v3-8") == 1


def test_memory_of_the_generator_where_its_scores_are_many():
    """The larger of the two models counts; its scores are in float32 at any precision."""
    made = settings(train_batch_size=64, encoder=dataclasses.replace(SHAPE, vocab_size=30_000))
    one, parameters = cost.Device(1, 1e12, 1e12, 1e9), 16 * cost.parameters(made).all
    scores = 2 * 4 * 64 * made.max_predictions(40) * 30_000
    single, half = (cost.memory(made, one, x) - parameters for x in ("float32", "bfloat16"))
    assert scores < half
    assert single - scores == 2 * (half - scores)


def test_a_report_says_what_the_numbers_are(examples_folder):
    manifest = records.read_manifest(examples_folder, "examples")
    made = dataclasses.replace(
        settings(),
        sequence_length=64,
        encoder=dataclasses.replace(SHAPE, max_position_embeddings=64),
    )
    made = dataclasses.replace(made, num_train_steps=1000, train_batch_size=16)
    text = cost.report(made, "tpu-v3-8", {64: (str(examples_folder), manifest)})
    train = manifest.counts["train_examples"]
    everything = manifest.counts["tokens"] + manifest.counts["special_tokens"]
    tokens = 16_000 * everything / manifest.counts["examples"]
    for words in (
        f"{cost.parameters(made).all / 1e3:.1f} k trained",
        "1,000 steps of 16 examples",
        f"{train:,} training examples, {16_000 / train:,.3g} epochs, {tokens:,.3g} tokens",
    ):
        assert words in text
    (row,) = [line for line in text.splitlines() if line.startswith("tpu-v3-8")]
    assert "bfloat16" in row and "v100" not in text
    assert all(name in cost.report(made) for name in cost.DEVICES)
    with pytest.raises(UserError, match="--estimate_for=tpu: expected one of tpu-v2-8, tpu-v3-8"):
        cost.report(made, "tpu")


def test_the_measured_peak_is_that_of_all_devices_together(monkeypatch):
    """Each of the two devices does its product, and both together take what the clock says."""
    clock = itertools.count(0, 0.1)
    monkeypatch.setattr(distribution.time, "perf_counter", lambda: next(clock))
    matmul, used = tf.matmul, []

    def noted(*args):
        used.append(matmul(*args))
        return used[-1]

    monkeypatch.setattr(tf, "matmul", noted)
    assert distribution.measured_peak() == pytest.approx(2 * 2 * 1024**3 / 0.1)
    assert [product.device[-5:] for product in used] == ["CPU:0", "CPU:1"]


class Tpu(tf.distribute.TPUStrategy):
    def __init__(self):
        """Without a TPU."""


@pytest.mark.parametrize(
    ("variable", "expected"), [("v3-8", 492e12), ("v5litepod-8", 8 * 197e12), ("v9-8", None)]
)
def test_a_tpu_is_known_by_its_type(variable, expected, monkeypatch):
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", variable)
    assert distribution.peak(Tpu(), "bfloat16") == expected


@pytest.mark.parametrize(
    ("name", "precision", "expected"),
    [
        ("NVIDIA A100-SXM4-40GB", "bfloat16", 312e12),
        ("NVIDIA A100-SXM4-40GB", "float32", 156e12),
        ("Tesla V100-SXM2-16GB", "float32", 15.7e12),
        ("NVIDIA H100 80GB HBM3", "bfloat16", 989e12),
        ("NVIDIA GeForce RTX 4090", "float32", None),
    ],
)
def test_a_gpu_is_known_by_its_name(name, precision, expected, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"])
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda gpu: {"device_name": name}
    )
    assert distribution.peak(tf.distribute.get_strategy(), precision) == expected
