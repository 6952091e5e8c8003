"""The benchmark that says where a step's time goes."""

from collections import Counter

import pytest
import tensorflow as tf

from benchmarks import step_profile


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("while/body//layer/MatMul:MatMul", "matrix products"),
        ("layer/attention/einsum/Einsum:Einsum", "matrix products"),
        ("layer/attention/MatMul:_MklBatchMatMulV2", "matrix products"),
        ("layer/dense/BiasAdd:_MklNativeFusedMatMul", "matrix products"),
        ("Adam/Adam/update/MatMul/Cast:Cast", "Adam, weight decay and clipping"),
        ("while/body//global_norm/L2Loss:L2Loss", "Adam, weight decay and clipping"),
        ("layer/Cast:Cast", "casts"),
        ("while/body//layer/BiasAddGrad:BiasAddGrad", "sums and means"),
        ("while/body//layer/row_means_3:_MklMatMul", "sums and means"),
        ("layer/Softmax:_MklSoftmax", "softmax"),
        ("layer/StatelessRandomUniformFullIntV2:StatelessRandomUniformFullIntV2", "random numbers"),
        ("layer/transpose:_MklTranspose", "transpositions and copies"),
        ("embeddings/TensorScatterAdd:TensorScatterAdd", "look-ups and scattering"),
        ("layer/mul:Mul", "additions and multiplications"),
        ("metrics/Cumsum:Cumsum", "all else"),
        # Not operations: of the executor, of Python, and calls, whose operations have events.
        ("ExecutorState::Process", None),
        ("EagerLocalExecute: __inference_loop", None),
        ("while:StatelessWhile", None),
        ("while/body/IteratorGetNext:IteratorGetNext", None),
        ("step:StatefulPartitionedCall", None),
    ],
)
def test_an_operation_is_of_the_kind_of_its_type(event, kind):
    assert step_profile.kind_of(event) == kind


def test_a_profile_has_the_time_of_each_operation():
    matrix = tf.random.stateless_normal([512, 512], [1, 2])

    @tf.function
    def step():
        return tf.reduce_sum(tf.math.erf(tf.matmul(matrix, matrix)))

    step()
    seconds = step_profile.seconds_by_kind(step)
    kinds = {"matrix products", "erf, exp and tanh (GELU)", "sums and means"}
    assert set(seconds) - {"all else"} == kinds
    assert all(spent > 0 for spent in seconds.values())


def test_the_table_has_shares_and_the_products_rate():
    seconds = Counter({"casts": 1.0, "matrix products": 3.0})
    lines = step_profile.table(seconds, steps=2, flops=6e9)
    assert lines[2:5] == [
        "| matrix products | 1,500.0 | 75.0% |",
        "| casts | 500.0 | 25.0% |",
        "| together | 2,000.0 | |",
    ]
    assert "at 4 GFLOP/s on a core" in lines[-1] and "1.33 times as fast" in lines[-1]
