"""The encoder against Hugging Face's, Model Garden's and Keras's own numbers."""

import contextlib
import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests.hugging_face import hugging_face_state
from tfbio.models import attention, layers, target, tpu_layers
from tfbio.models import encoder as encoders
from tfbio.models.encoder_config import EncoderConfig

CONFIG = EncoderConfig(
    vocab_size=500,
    embedding_size=64,
    hidden_size=64,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=40,
    initializer_range=0.1,
)


@pytest.fixture(scope="module")
def batch():
    """Token ids, mask (rows of 40, 27 and 9 tokens) and segments, int32 [3, 40]."""
    random = np.random.default_rng(0)
    mask = (np.arange(40) < np.array([[40], [27], [9]])).astype(np.int32)
    ids = random.integers(5, CONFIG.vocab_size, mask.shape).astype(np.int32) * mask
    segments = ((np.arange(40) > 4) * mask).astype(np.int32)
    return ids, mask, segments


def build(config=CONFIG):
    keras.utils.set_random_seed(1)
    encoder = encoders.Encoder(config)
    # Biases and LayerNorms start at 0 and 1, where mistakes would not show.
    for variable in encoder.trainable_variables:
        variable.assign_add(tf.random.normal(variable.shape, stddev=0.05, dtype=variable.dtype))
    return encoder


def assert_drawn(values, uniform, deviation=0.02):
    """Asserts that weights are drawn from Glorot's uniform, or from BERT's truncated normal."""
    size = np.abs(values)
    if uniform:
        # All within the bound, and as many in its upper half as in its lower; a truncated normal
        # would have a fifteenth there.
        bound = np.sqrt(6 / sum(values.shape))
        assert 0.99 * bound < size.max() <= bound
        assert 0.45 < np.mean(size > bound / 2) < 0.55
    else:
        # At most two deviations: Keras counts the deviation before it cuts.
        assert 1.975 < size.max() / deviation <= 2 and 0.8 < values.std() / deviation < 0.95


@pytest.mark.parametrize("share_layers", [False, True])
def test_the_embedding_projection_starts_as_in_its_original_code(share_layers):
    """ELECTRA's leaves TensorFlow's default, Glorot's uniform; ALBERT's gives it BERT's."""
    config = EncoderConfig(vocab_size=500, num_hidden_layers=1, share_layers=share_layers)
    keras.utils.set_random_seed(1)
    encoder = encoders.Encoder(config)
    assert_drawn(encoder.projection.kernel.numpy(), uniform=not share_layers)
    (layer,) = encoder.transformer_layers
    for variable in (encoder.embeddings.word, layer.query_key_value.kernel):
        assert_drawn(variable.numpy(), uniform=False)
    assert not encoder.projection.bias.numpy().any()


def test_biom_albert_starts_with_half_the_deviation():
    """Alrowili and Vijay-Shanker (2021), section 3.1: 0.01 for 0.02."""
    config = EncoderConfig(
        vocab_size=500, num_hidden_layers=1, share_layers=True, initializer_range=0.01
    )
    keras.utils.set_random_seed(1)
    encoder = encoders.Encoder(config)
    drawn = [x for x in encoder.trainable_variables if x.numpy().ndim > 1 and "bias" not in x.name]
    assert len(drawn) == 8
    for variable in drawn:
        if variable.shape[0] > 2:  # there are too few numbers for two segments
            assert_drawn(variable.numpy(), uniform=False, deviation=0.01)


@pytest.mark.parametrize("layers", [1, 8])
def test_megatrons_weights_before_a_residual_start_smaller(layers):
    """Shoeybi et al. (2020), section 4.2: by 1 / sqrt(2 N), where N layers have 2 N residuals."""
    config = EncoderConfig(vocab_size=500, num_hidden_layers=layers)
    made = []
    for scaled in (False, True):
        keras.utils.set_random_seed(1)
        made.append(encoders.Encoder(dataclasses.replace(config, scaled_initializer=scaled)))
    smaller = []
    for plain, scaled in zip(*(x.trainable_variables for x in made), strict=True):
        if not np.array_equal(plain, scaled):
            smaller.append(plain.name)
            np.testing.assert_allclose(scaled, plain / np.sqrt(2 * layers), rtol=1e-6)
    assert smaller == layers * ["attention/output/kernel:0", "output/kernel:0"]


def tokens_only(values, mask):
    return np.asarray(values)[mask.astype(bool)]


@pytest.mark.parametrize("embedding_size", [64, 32])
def test_equals_hugging_face(batch, embedding_size):
    import torch
    import transformers

    config = dataclasses.replace(CONFIG, embedding_size=embedding_size)
    encoder = build(config)
    peer = transformers.ElectraModel(
        transformers.ElectraConfig(
            **{
                field.name: getattr(config, field.name)
                for field in dataclasses.fields(config)
                if field.name != "initializer_range"
            }
        )
    ).eval()
    state = hugging_face_state(encoder)
    missing, unexpected = peer.load_state_dict(state, strict=False)
    assert not unexpected and all("_ids" in name for name in missing)

    ids, mask, segments = (torch.tensor(values, dtype=torch.long) for values in batch)
    with torch.no_grad():
        expected = peer(ids, attention_mask=mask, token_type_ids=segments).last_hidden_state
    output = encoder(*map(tf.constant, batch))
    np.testing.assert_allclose(
        tokens_only(output, batch[1]), tokens_only(expected.numpy(), batch[1]), atol=1e-5
    )


def test_equals_model_garden(batch):
    from official.nlp.modeling import networks

    encoder = build()
    peer = networks.BertEncoderV2(
        vocab_size=CONFIG.vocab_size,
        hidden_size=CONFIG.hidden_size,
        num_layers=CONFIG.num_hidden_layers,
        num_attention_heads=CONFIG.num_attention_heads,
        inner_dim=CONFIG.intermediate_size,
        inner_activation=lambda x: keras.activations.gelu(x, approximate=False),
        max_sequence_length=CONFIG.max_position_embeddings,
        type_vocab_size=CONFIG.type_vocab_size,
    )
    ids, mask, segments = map(tf.constant, batch)
    inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": segments}
    peer(inputs)
    embeddings = encoder.embeddings
    values = [embeddings.word, embeddings.position, embeddings.segment]
    values += [embeddings.layer_norm.gamma, embeddings.layer_norm.beta]
    for layer in encoder.transformer_layers:
        values += [
            *interleave(layer.query_key_value),
            layer.attention_output.kernel,
            layer.attention_output.bias,
            layer.attention_norm.gamma,
            layer.attention_norm.beta,
            layer.intermediate.kernel,
            layer.intermediate.bias,
            layer.output_dense.kernel,
            layer.output_dense.bias,
            layer.output_norm.gamma,
            layer.output_norm.beta,
        ]
    theirs = [v for v in peer.trainable_variables if "pooler" not in v.name]
    assert len(theirs) == len(values)
    for variable, value in zip(theirs, values, strict=True):
        variable.assign(tf.reshape(value, variable.shape))
    expected = peer(inputs)["sequence_output"]
    output = encoder(ids, mask, segments)
    np.testing.assert_allclose(
        tokens_only(output, batch[1]), tokens_only(expected, batch[1]), atol=1e-5
    )


def interleave(query_key_value):
    """Query kernel, query bias, key kernel, ..., as Model Garden orders them."""
    kernels = tf.split(query_key_value.kernel, 3, axis=1)
    biases = tf.split(query_key_value.bias, 3)
    return [part for pair in zip(kernels, biases, strict=True) for part in pair]


def test_padding_changes_nothing(batch):
    encoder = build()
    ids, mask, segments = (values[2:3, :9] for values in batch)
    short = encoder(tf.constant(ids), tf.constant(mask), tf.constant(segments))
    padded = encoder(*(tf.constant(values) for values in batch))
    np.testing.assert_allclose(short[0], padded[2, :9], atol=1e-5)


def test_dropout_is_a_function_of_the_seed(batch):
    encoder, inputs = build(), [tf.constant(values) for values in batch]
    first = encoder(*inputs, seed=tf.constant([1, 2]))
    np.testing.assert_array_equal(first, encoder(*inputs, seed=tf.constant([1, 2])))
    assert np.abs(first - encoder(*inputs, seed=tf.constant([1, 3]))).max() > 0.1
    np.testing.assert_array_equal(encoder(*inputs), encoder(*inputs))


@pytest.mark.parametrize("form", ["cpu", "tpu", "mesh"])
def test_each_dropout_has_its_rate(batch, form, monkeypatch):
    """The embeddings have that of hidden states; in a layer it is attention's, and twice theirs.

    Each has a seed of its own, or all layers would drop the same.
    """
    rates, seeds = [], []

    def recorded(plain, place):
        def dropped(*arguments):
            rates.append(arguments[place])
            seed = arguments[place + 1]
            if seed is not None and tf.executing_eagerly():
                seeds.append(tuple(np.array(seed)))
            return plain(*arguments)

        return dropped

    for module in (encoders, layers, tpu_layers):
        monkeypatch.setattr(module, "dropout", recorded(module.dropout, 1))
    monkeypatch.setattr(layers, "add_with_dropout", recorded(layers.add_with_dropout, 3))
    monkeypatch.setattr(attention, "dropout_mask", recorded(attention.dropout_mask, 2))
    config = dataclasses.replace(CONFIG, hidden_dropout_prob=0.25, attention_probs_dropout_prob=0.5)
    encoder, inputs = build(config), [tf.constant(values) for values in batch]
    encoders.target.set_tpu(form == "tpu")
    try:
        with target.mesh() if form == "mesh" else contextlib.nullcontext():
            dropped = encoder(*inputs, seed=tf.constant([1, 2]))
    finally:
        encoders.target.set_tpu(False)
    times = len(rates) // 3
    assert rates == [0.25, *times * [0.5, 0.25, 0.25]]
    assert times == 3 or form == "tpu"  # which traces a layer, too
    assert len(seeds) == len(set(seeds)) and (len(seeds) == 10 or form == "tpu")
    assert np.abs(dropped - encoder(*inputs))[batch[1] == 1].max() > 0.1


def test_a_perturbed_pass_drops_the_same_embeddings_and_others_in_the_layers(batch, monkeypatch):
    seeds = []

    def recorded(plain, place):
        def dropped(*arguments):
            seeds.append(tuple(np.array(arguments[place])))
            return plain(*arguments)

        return dropped

    for module in (encoders, layers):
        monkeypatch.setattr(module, "dropout", recorded(module.dropout, 2))
    monkeypatch.setattr(layers, "add_with_dropout", recorded(layers.add_with_dropout, 4))
    monkeypatch.setattr(attention, "dropout_mask", recorded(attention.dropout_mask, 3))
    encoder, inputs = build(), [tf.constant(values) for values in batch]
    encoder(*inputs, seed=tf.constant([1, 2]))
    clean = [seeds.pop(0) for _ in range(len(seeds))]
    change = encoders.Perturbation(tf.zeros([3, 40, 64]), tf.constant([3, 4]))
    encoder(*inputs, seed=tf.constant([1, 2]), perturbation=change)
    assert len(clean) == len(seeds) == 10
    assert seeds[0] == clean[0] and not set(seeds[1:]) & set(clean)


@pytest.fixture
def float64():
    keras.mixed_precision.set_global_policy("float64")
    yield
    keras.mixed_precision.set_global_policy("float32")


READ = tf.constant([0, 41, 7, 66, 41, 80])  # tokens of the three examples, one of them twice


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ["cpu", "mesh", "tpu"])
@pytest.mark.parametrize(
    "settings", [{}, {"layer_norm_first": True}, {"share_layers": True}], ids=str
)
def test_the_rows_that_are_read_and_their_gradients_are_those_of_all(
    batch, float64, form, settings, packed, monkeypatch
):
    """Compares them where all rows are computed, and where the last layer leaves others out."""
    monkeypatch.setattr(target, "_is_tpu", form == "tpu")
    monkeypatch.setattr(target, "_is_mesh", form == "mesh")
    ids, mask, segments = batch
    encoder = build(dataclasses.replace(CONFIG, **settings))
    documents = mask * (1 + (np.arange(40) > 11)) if packed else None
    variables = encoder.trainable_variables

    def encode(rows):
        with tf.GradientTape() as tape:
            hidden = encoder(ids, mask, segments, documents, rows=rows)
            if rows is None:
                hidden = tf.gather(tf.reshape(hidden, [120, -1]), READ)
            loss = tf.reduce_sum(tf.sin(hidden))
        gradients = tape.gradient(loss, variables)
        return hidden, [tf.convert_to_tensor(gradient) for gradient in gradients]

    encode = tf.function(encode) if form == "tpu" else encode
    hidden, gradients = encode(READ)
    expected, of_all = encode(None)
    np.testing.assert_allclose(hidden, expected, rtol=1e-10)
    for variable, gradient, other in zip(variables, gradients, of_all, strict=True):
        np.testing.assert_allclose(gradient, other, rtol=1e-8, atol=1e-12, err_msg=variable.name)
        assert np.abs(other).max() > 0, variable.name


@pytest.mark.parametrize("is_mesh", [False, True])
def test_the_last_layer_transforms_only_the_rows_that_are_read(batch, is_mesh, monkeypatch):
    monkeypatch.setattr(target, "_is_mesh", is_mesh)
    encoder = build()
    graph = tf.function(lambda rows: encoder(*batch, rows=rows)).get_concrete_function(READ).graph
    products = [each.outputs[0].shape for each in graph.get_operations() if each.type == "MatMul"]
    inner = [shape[0] for shape in products if shape[1] == CONFIG.intermediate_size]
    assert inner == [120, 120, 120 if is_mesh else 6]


@pytest.mark.parametrize("on_cpu", [True, False])
def test_layer_norm_equals_keras(on_cpu, monkeypatch):
    """Value and gradient in closed form against what TensorFlow derives."""
    monkeypatch.setattr(target, "is_cpu", lambda: on_cpu)
    inputs = tf.random.stateless_normal([50, 24], [0, 1]) * 3.0
    upstream = tf.random.stateless_normal([50, 24], [0, 2])
    # An epsilon that shows.
    ours, theirs = layers.LayerNorm(24, 0.1), keras.layers.LayerNormalization(epsilon=0.1)
    theirs.build(inputs.shape)
    for variable, own in ((theirs.gamma, ours.gamma), (theirs.beta, ours.beta)):
        own.assign_add(tf.random.stateless_normal([24], [0, 3]))
        variable.assign(own)
    results = []
    for layer in (ours, theirs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = layer(inputs)
        gradients = tape.gradient(output, [inputs, layer.gamma, layer.beta], upstream)
        results.append([output, *gradients])
    for mine, expected in zip(*results, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-5)


def test_layer_depth():
    encoder = build(dataclasses.replace(CONFIG, embedding_size=32))
    depths = [encoder.layer_depth(variable) for variable in encoder.trainable_variables]
    assert sorted(set(depths)) == [0, 1, 2, 3]
    assert depths.count(0) == 5 + 2  # token, position, segment, LayerNorm; projection
    assert encoder.layer_depth(encoder.projection.kernel) == 0
    assert encoder.layer_depth(encoder.transformer_layers[2].output_norm.gamma) == 3
    first = build(dataclasses.replace(CONFIG, layer_norm_first=True))
    assert [first.layer_depth(variable) for variable in first.final_norm.variables] == [3, 3]
    with pytest.raises(ValueError, match="not a variable of encoder"):
        encoder.layer_depth(tf.Variable(0.0))
    shared = build(dataclasses.replace(CONFIG, share_layers=True))
    assert len(shared.transformer_layers) == 1
    assert shared.layer_depth(shared.transformer_layers[0].output_norm.gamma) == 1
    assert shared.layer_depth(shared.projection.kernel) == 0


def test_bfloat16_keeps_float32_weights(batch):
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        encoder = build()
        output = encoder(*map(tf.constant, batch))
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert output.dtype == tf.bfloat16
    assert {variable.dtype for variable in encoder.variables} == {tf.float32}
    exact = build()(*map(tf.constant, batch))
    # bfloat16 has 8 bits of mantissa; outputs of a LayerNorm are of the order of 1.
    difference = tokens_only(tf.cast(output, tf.float32), batch[1]) - tokens_only(exact, batch[1])
    assert np.sqrt(np.mean(np.square(difference))) < 0.05


def test_rows_are_cast_as_the_whole_table_is(batch, monkeypatch):
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        embeddings = build().embeddings

        def embed():
            with tf.GradientTape() as tape:
                embedded = embeddings(*map(tf.constant, (batch[0], batch[2])))
                loss = tf.reduce_sum(tf.cast(embedded, tf.float32) ** 3)
            return embedded, tf.convert_to_tensor(tape.gradient(loss, embeddings.word))

        rows, of_rows = embed()
        monkeypatch.setattr(encoders.target, "is_mesh", lambda: True)  # which casts the whole table
        whole, of_whole = embed()
    finally:
        keras.mixed_precision.set_global_policy("float32")
    np.testing.assert_array_equal(tf.cast(rows, tf.float32), tf.cast(whole, tf.float32))
    # Several tokens of an id: the rows of a gradient are added up in float32 in both.
    np.testing.assert_array_equal(of_rows, of_whole)


@pytest.mark.parametrize("offset", [0, 2])
def test_a_packed_document_is_encoded_as_if_alone(offset):
    encoder = build(
        dataclasses.replace(CONFIG, max_position_embeddings=40 + offset, position_offset=offset)
    )
    random = np.random.default_rng(3)
    lengths = [[9, 17, 14], [30, 4, 0]]  # the second example has padding
    ids, mask, segments, documents, positions = np.zeros([5, 2, 40], np.int32)
    for row, row_lengths in enumerate(lengths):
        start = 0
        for number, length in enumerate(row_lengths, start=1):
            span = slice(start, start + length)
            ids[row, span] = random.integers(5, CONFIG.vocab_size, length)
            mask[row, span] = 1
            segments[row, span] = np.arange(length) > length // 2
            documents[row, span] = number
            positions[row, span] = np.arange(length)
            start += length
    packed = encoder(
        *map(tf.constant, (ids, mask, segments)),
        document_ids=tf.constant(documents),
        position_ids=tf.constant(positions),
    ).numpy()
    together = encoder(*map(tf.constant, (ids, mask, segments))).numpy()
    for row in range(2):
        for number in range(1, documents[row].max() + 1):
            own = documents[row] == number
            alone = encoder(
                *(tf.constant(values[row, own][None]) for values in (ids, mask, segments))
            )
            np.testing.assert_allclose(packed[row, own], alone[0], atol=1e-5)
            assert np.abs(together[row, own] - alone[0]).max() > 0.01, number
