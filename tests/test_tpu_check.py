"""Steps compiled by the TPU's own compiler, as `scripts/tpu_check.py` does."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import tpu_check
from tfbio.base import config
from tfbio.base.device_flags import MeshShape
from tfbio.base.errors import UserError
from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.planning import mesh_weights
from tfbio.planning import pretraining_cost_on_tpu as tpu_cost

ROOT = Path(__file__).resolve().parents[1]
PYTHON = Path(os.environ.get("TFBIO_TPU_PYTHON", ROOT / ".venv-tpu" / "bin" / "python"))
TINY = {
    "encoder": {
        "vocab_size": 512,
        "embedding_size": 128,
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 256,
    },
    "untied_generator": False,
    "sequence_length": 128,
    "train_batch_size": 64,
}
STUDENT = {
    **TINY,
    "objective": "mlm",
    "distillation": {"kl_weight": 2.0, "teacher_num_hidden_layers": 3},
}


def run(*flags, timeout=600):
    return subprocess.run(
        [sys.executable, "scripts/tpu_check.py", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.skipif(not PYTHON.exists(), reason=f"no compiler at {PYTHON}: make tpu-check")
def test_a_step_compiles_for_a_tpu(tmp_path):
    """For a v5e; the steps of a student and on a mesh are compiled for a v3."""
    tpu = "v5e-8"
    flags = [f"--hparams={json.dumps(TINY)}", f"--tpu={tpu}", f"--results={tmp_path}"]
    done = run(*flags)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    # The settings are kept whole.
    assert result["settings"]["run"] == {"precision": "bfloat16", "optimize_for": "tpu"}
    kept, given = (
        config.load(PretrainingConfig, json.dumps(each))
        for each in (result["settings"], {**TINY, "run": result["settings"]["run"]})
    )
    assert kept == given
    # All eight cores, and the products that were planned.
    assert result["devices"] == 8
    assert result["flops"] == pytest.approx(8 * tpu_cost.example_flops(kept, 128), rel=0.01)
    # The gradient of every variable is summed over the cores: 4 bytes of each parameter, and more
    # only for what is watched.
    variables = result["argument_bytes"] / (3 * 4)
    assert result["all_reduced_bytes"] == pytest.approx(4 * variables, rel=0.02)
    # What is updated is updated in place.
    assert result["alias_bytes"] > 0.99 * result["output_bytes"]
    assert result["products_seconds"] < result["roofline_seconds"] < 0.1
    assert f"| inline, 128 | {tpu} | 8 | 1 |" in done.stdout
    # The second time nothing is compiled.
    before = path.stat().st_mtime_ns
    again = run(*flags, "--compiler=/bin/false")
    assert again.stdout == done.stdout and path.stat().st_mtime_ns == before


@pytest.mark.skipif(not PYTHON.exists(), reason=f"no compiler at {PYTHON}: make tpu-check")
def test_the_step_of_a_student_compiles_with_its_teacher(tmp_path):
    done = run(f"--hparams={json.dumps(STUDENT)}", "--tpu=v3-8", f"--results={tmp_path}")
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    kept = config.load(PretrainingConfig, json.dumps(result["settings"]))
    # The products of both, to the 3 % of test_pretraining_cost_on_tpu.py: a teacher has more.
    planned = tpu_cost.example_flops(kept, 128)
    assert result["flops"] == pytest.approx(8 * planned, rel=0.03)
    assert objective_cost.teacher_flops(kept, 128) > 0.2 * planned
    # Its weights are arguments, and have neither Adam's averages nor gradients.
    learnt = objective_cost.parameters(kept).all
    others = result["argument_bytes"] - 3 * 4 * learnt
    assert others == pytest.approx(4 * objective_cost.teacher_parameters(kept), rel=0.05)
    assert result["all_reduced_bytes"] == pytest.approx(4 * learnt, rel=0.02)


@pytest.mark.skipif(not PYTHON.exists(), reason=f"no compiler at {PYTHON}: make tpu-check")
def test_a_step_compiles_for_a_mesh(tmp_path):
    """Four cores share a model. The words are more than the tokens, so that arrays can be told."""
    encoder = {**TINY["encoder"], "vocab_size": 4094, "num_attention_heads": 4}
    settings = {**TINY, "objective": "mlm", "encoder": encoder, "train_batch_size": 16}
    flags = [f"--hparams={json.dumps(settings)}", "--tpu=v3-8", f"--results={tmp_path}"]
    done = run(*flags, "--mesh=2x4")
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    kept = config.load(PretrainingConfig, json.dumps(result["settings"]))
    # A core has its part of the weights and averages, with the padding of small arrays.
    numbers = mesh_weights.numbers(kept, MeshShape(2, 4))
    assert result["argument_bytes"] == pytest.approx(3 * 4 * numbers.parameters, rel=0.03)
    whole = mesh_weights.numbers(kept, MeshShape(2, 1)).parameters
    assert numbers.parameters < 0.4 * whole
    # It makes its quarter of the products of a row's eight examples.
    planned = 8 * tpu_cost.example_flops(kept, 128) / 4
    assert result["flops"] == pytest.approx(planned, rel=0.02)
    assert "| inline, 128 | v3-8, 2x4 | 8 | 1 |" in done.stdout
    # No weight that is divided is put together: words, query, attention's output, feed-forward.
    sizes = [re.findall(r"\d+", each.split("[")[1]) for each in result["gathered"]]
    for matrix in (["4096", "128"], ["128", "3", "128"], ["128", "256"], ["256", "128"]):
        assert matrix not in sizes and ["2", *matrix] not in sizes
    # Gradients are summed over the rows, and more is exchanged in each layer.
    assert result["exchanged_bytes"] > 4 * numbers.parameters


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--tpu=v3-8"], ["--hparams is missing"]),
        (
            ["--hparams={}", "--mesh=2x2", "--compiler=/bin/true"],
            ["--mesh=2x2 has 4 devices, and --tpu=v3-8 has 8"],
        ),
        (
            ["--hparams=hparams/pubmedbert.json", "--mesh=1x8", "--compiler=/bin/true"],
            ["encoder.num_attention_heads 12 does not divide by the 8 devices"],
        ),
        (["--hparams=no.json"], ["no.json", "no such file"]),
        (
            ["--hparams=hparams/base.json", "--compiler=/no/python"],
            ["/no/python is missing", "make tpu-check"],
        ),
        (
            ["--hparams={}", "--set=train_batch_size=12", "--compiler=/bin/true"],
            ["train_batch_size 12 does not divide by 8 devices"],
        ),
        (
            ["--hparams=hparams/quickstart.json", "--phase=2", "--compiler=/bin/true"],
            ["--phase=2: --hparams=hparams/quickstart.json has one phase"],
        ),
    ],
)
def test_mistakes_are_named(flags, said, fails_in_one_sentence):
    line = fails_in_one_sentence(run(*flags))
    for each in said:
        assert each in line


@pytest.mark.parametrize("version, said", [("0.0.60", "0.0.60"), ("", "missing")])
def test_another_compiler_is_refused(version, said, tmp_path, monkeypatch):
    """Its results would have the name of the expected one."""
    if version:
        folder = tmp_path / f"libtpu-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: libtpu\nVersion: {version}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    flags = SimpleNamespace(compiler=sys.executable)
    monkeypatch.setattr(tpu_check, "FLAGS", flags)
    with pytest.raises(UserError, match=f"libtpu is {said}, expected 0.0.52, .* `make tpu-check`"):
        tpu_check._compile("", PretrainingConfig(), "v3-8", None)


def test_an_unknown_tpu_is_named():
    done = run("--hparams=hparams/base.json", "--tpu=v9-8")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "v3-8" in done.stderr and "v9-8" in done.stderr
