"""Says where the CPU time of a pretraining step or of prediction goes, by TensorFlow's profiler.

    python -m benchmarks.pretraining --shape=base_128 --folder=out/bench
    python -m benchmarks.step_profile --shape=base_128 --folder=out/bench --precision=bfloat16
    python -m benchmarks.prediction --folder=out/prediction
    python -m benchmarks.step_profile --shape=prediction --folder=out/prediction

The step, and --folder with its examples, are those of `benchmarks.pretraining`. With
--shape=prediction a step is 100 of the abstracts that `benchmarks.prediction` has in its folder,
and tfbio's model there annotates them. The profiler times each operation of some steps. The table
adds these times up by what the operations do, and has their shares. Below it is the rate of the
matrix products on one core, and how much faster a step would be if all else took no time. Of
prediction, in which the cores share an operation, it has the shares alone. The profiler itself
slows a step down a little.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import prediction_data, prediction_engines
from benchmarks.command import PRECISIONS, Parser, count, run
from benchmarks.pretraining import tfbio_engine
from benchmarks.pretraining_shapes import SHAPES
from tfbio.base.errors import UserError
from tfbio.base.manifests import read_manifest
from tfbio.objectives import objective_cost

WARM_UP = 3  # steps: the first ones trace the graph and touch the memory
PREDICTION, ABSTRACTS = "prediction", 100
PRODUCTS = "matrix products"
ELSE = "all else"
# What an operation does, by a pattern of its name in the graph and its type. The first one counts.
KINDS = {
    "Adam, weight decay and clipping": r"(^|/)(Adam|global_norm)/",
    # LayerNorm's gradient has means that are computed as a product.
    "sums and means": r":(Sum|Mean|AddN|L2Loss|Max|ArgMax|BiasAddGrad)$|/row_means(_\d+)?:\w+$",
    PRODUCTS: r":(_?(Fused|Mkl|MklFused|MklNative)*(Batch)?MatMul(V2|V3)?|Einsum)$",
    "casts": r":Cast$",
    "softmax": r":_?(Mkl)?Softmax$",
    "LayerNorm as one operation": r":_MklLayerNorm$",
    "erf, exp and tanh (GELU)": r":(Erf|Exp|Tanh)$",
    "random numbers": r":(Stateless)?Random\w*$",
    "transpositions and copies": r":(_?MklTranspose|Transpose|Concat\w*|Split\w*|Pad|Tile|Slice)$",
    "look-ups and scattering": r":(ResourceGather|Gather\w*|\w*Scatter\w*|UnsortedSegmentSum)$",
    "additions and multiplications": r":(Mul|Add|AddV2|Sub|Square|RealDiv|Rsqrt|Neg|Squared\w*)$",
}
COMPILED = "compiled loops (biases, GELU, dropout, residuals)"
# Their names are XLA's.
_LOOP = re.compile(r"\w*fusion(\.\w+)*")
# An operation: the name of its node, one colon, its type. Other events are of the executor.
_OPERATION = re.compile(r"[^:]+:[A-Z_]\w+")
# They wait for other operations, which have events of their own.
_CALLS = re.compile(r":(\w*PartitionedCall|(Stateless)?(While|If)|IteratorGetNext)$")


def kind_of(event: str) -> str | None:
    """Says what an event does: one of `KINDS`, `COMPILED` or `ELSE`; None if it is no operation.

    >>> kind_of("while/body//layer/MatMul:MatMul")
    'matrix products'
    """
    if _LOOP.fullmatch(event):
        return COMPILED
    if not _OPERATION.fullmatch(event) or _CALLS.search(event):
        return None
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, event)), ELSE)


def events(work: Callable[[], object]) -> Iterator[tuple[str, float]]:
    """Profiles what TensorFlow does on CPUs while `work` is called.

    Yields:
      The name of an event and its seconds, for each thread one after another.
    """
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2)
        with tf.profiler.experimental.Profile(folder, options):
            work()
        (path,) = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
    for plane in space.planes:
        for line in plane.lines if plane.name == "/host:CPU" else ():
            for event in line.events:
                yield plane.event_metadata[event.metadata_id].name, event.duration_ps / 1e12


def seconds_by_kind(work: Callable[[], object]) -> Counter[str]:
    """Profiles the operations that TensorFlow runs on CPUs while `work` is called.

    Returns:
      For each kind the seconds of its operations, added up over all threads.
    """
    seconds: Counter[str] = Counter()
    for name, spent in events(work):
        kind = kind_of(name)
        if kind:
            seconds[kind] += spent  # type: ignore[assignment]  # of a type that counts ints
    return seconds


def table(seconds: Counter[str], steps: int, flops: float) -> list[str]:
    """Makes the lines of the table.

    Args:
      seconds: those of all steps.
      steps: how many.
      flops: of the matrix products of a step.
    """
    whole = seconds.total()
    lines = ["| operations | CPU ms a step | share |", "|---|--:|--:|"]
    for kind, spent in seconds.most_common():
        lines.append(f"| {kind} | {1000 * spent / steps:,.1f} | {spent / whole:.1%} |")
    lines.append(f"| together | {1000 * whole / steps:,.1f} | |")
    products = seconds[PRODUCTS]
    rate, limit = flops * steps / products / 1e9, whole / products
    return [
        *lines,
        "",
        f"The products run at {rate:.0f} GFLOP/s on a core. If nothing else took time, a step "
        f"would be {limit:.2f} times as fast.",
    ]


def table_of_shares(seconds: Counter[str]) -> list[str]:
    """Makes the lines of a table without times, for operations that cores share."""
    whole = seconds.total()
    lines = [f"| {kind} | {spent / whole:.1%} |" for kind, spent in seconds.most_common()]
    return ["| operations | share |", "|---|--:|", *lines]


def pretraining(name: str, folder: Path, precision: str, steps: int) -> list[str]:
    """Profiles steps of pretraining; returns the lines of the table."""
    shape = SHAPES[name]
    if not (folder / shape.examples).is_dir():
        raise UserError(
            f"--folder={folder} has no {shape.examples}: give that of `python -m "
            f"benchmarks.pretraining --shape={name} --folder=...`."
        )
    train = tfbio_engine(shape, folder, precision)
    train(WARM_UP)
    seconds = seconds_by_kind(lambda: train(steps))
    vocab_size = read_manifest(str(folder / shape.examples), "examples").settings["vocab_size"]
    settings = shape.config(vocab_size)
    flops = shape.batch_size * objective_cost.example_flops(settings, shape.sequence_length)
    return table(seconds, steps, flops)


def prediction(folder: Path, precision: str, steps: int) -> list[str]:
    """Profiles the annotation of abstracts; returns the lines of the table."""
    if not (folder / "abstracts.json").is_file():
        raise UserError(
            f"--folder={folder} has no abstracts.json: give that of `python -m "
            "benchmarks.prediction --folder=...`."
        )
    texts = prediction_data.read(folder, "abstracts").spread(ABSTRACTS)
    own = prediction_engines.ENGINES["tfbio"]
    annotate = own.make(folder, precision, prediction_engines.Options())
    annotate(texts)

    def work() -> None:
        for _ in range(steps):
            annotate(texts)

    return table_of_shares(seconds_by_kind(work))


def main() -> None:
    """Runs the command; see above."""
    parser = Parser(__doc__)
    parser.add_argument(
        "--shape", choices=[*SHAPES, PREDICTION], required=True, help="the model and the batch"
    )
    parser.add_argument("--folder", required=True, help="that of the other benchmark")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--steps", type=count, default=5, help="how many are profiled (default: 5)")
    flags = parser.parse_args()
    own = (Path(flags.folder), flags.precision, flags.steps)
    lines = prediction(*own) if flags.shape == PREDICTION else pretraining(flags.shape, *own)
    print(f"\n## {flags.shape}, {flags.precision}\n")
    print("\n".join(lines))


if __name__ == "__main__":
    run(main)
