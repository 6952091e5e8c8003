"""Makes the facts of a model that annotates, for the tests of annotations."""

import dataclasses

import tfbio
from data_prep.sentences import splitters
from tfbio.runs.annotated_file import ModelFacts


def facts(**changes):
    """Returns the facts of a model that annotates here, but for some changes."""
    here = ModelFacts(
        weights_sha256="abc",
        precision="float32",
        sentence_splitter=" ".join(splitters.resolve("auto")),
        vocab_sha256="def",
        lower_case=True,
        labels="O, B",
        words="symbols",
        entity_type="Chemical",
        sequence_length=128,
        bfloat16_products="",
        tfbio=tfbio.__version__,
    )
    return dataclasses.replace(here, **changes)
