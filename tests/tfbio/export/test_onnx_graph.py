"""A graph of TensorFlow as ONNX: its weights, and the names and order of its inputs and outputs."""

import numpy as np
import onnx
import onnxruntime
import tensorflow as tf

from tfbio.export import onnx_graph


def test_the_weights_are_those_of_the_variables():
    weights = np.random.default_rng(0).normal(size=[3, 2]).astype(np.float32)
    kernel, unused = tf.Variable(weights), tf.Variable([1.0])

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "rows")], autograph=False)
    def function(rows):
        unused.read_value()
        # Read twice, and sorted by TensorFlow.
        return {"b": tf.matmul(rows, kernel), "a": tf.reduce_sum(kernel) + rows}

    model = onnx_graph.convert(function, ["given"], ["b", "a"], 15)
    stored = [onnx.numpy_helper.to_array(x) for x in model.graph.initializer]
    large = [x for x in stored if x.shape == (3, 2)]
    assert large and all(np.array_equal(x, weights) for x in large)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    assert [x.name for x in session.get_inputs()] == ["given"]
    assert [x.name for x in session.get_outputs()] == ["b", "a"]
    rows = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 0.5]], np.float32)
    product, total = session.run(None, {"given": rows})
    np.testing.assert_allclose(product, rows @ weights, rtol=1e-6)
    np.testing.assert_allclose(total, rows + weights.sum(), rtol=1e-6)
