"""Trains a spaCy model that finds entities, of the architecture of scispaCy's en_ner_bc5cdr_md.

scispaCy's models are not on PyPI. This is the `ner` of its `configs/ner_bc5cdr.cfg`: hashed
embeddings of a word's norm, prefix, suffix and shape, 8 convolutions of width 256, and a parser
that takes transitions; with its tokenizer, optimizer, batches, dropout and epochs. Its vectors of
words are not on PyPI either, so the model has none.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.prediction_data import text_of
from tfbio.formats import tagged_words
from tfbio.formats.task_examples import TaggedSentence

# configs/ner_bc5cdr.cfg of github.com/allenai/scispacy, with the present versions of the layers.
_WIDTH = 256
_DROPOUT = 0.2
EPOCHS = 7
NER: dict[str, Any] = {
    "moves": None,
    "update_with_oracle_cut_size": 100,
    "model": {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "ner",
        "extra_state_tokens": False,
        "hidden_width": 64,
        "maxout_pieces": 2,
        "use_upper": True,
        "nO": None,
        "tok2vec": {
            "@architectures": "spacy.Tok2Vec.v2",
            "embed": {
                "@architectures": "spacy.MultiHashEmbed.v2",
                "width": _WIDTH,
                "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
                "rows": [5000, 2500, 2500, 2500],
                "include_static_vectors": False,
            },
            "encode": {
                "@architectures": "spacy.MaxoutWindowEncoder.v2",
                "width": _WIDTH,
                "depth": 8,
                "window_size": 1,
                "maxout_pieces": 3,
            },
        },
    },
}
_OPTIMIZER = {
    "@optimizers": "Adam.v1",
    "beta1": 0.9,
    "beta2": 0.999,
    "L2_is_weight_decay": True,
    "L2": 0.01,
    "grad_clip": 1.0,
    "use_averages": False,
    "eps": 1e-8,
    "learn_rate": 0.001,
}


def train(tagged: Path, output: Path, epochs: int = EPOCHS) -> None:
    """Trains on `train.tsv`, and writes the model that is best on `dev.tsv`.

    Args:
      tagged: a folder with both files, of BLURB's form.
      output: the folder that is written.
      epochs: how often every sentence is seen.
    """
    import spacy
    import thinc.api
    from scispacy.custom_tokenizer import combined_rule_tokenizer

    # Only a model that has seen all epochs has its name.
    unfinished = output.with_name(f"{output.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.tokenizer = combined_rule_tokenizer(nlp)
    nlp.add_pipe("ner", config=NER)
    splits = [
        _examples(nlp, tagged_words.read_bio(str(tagged / f"{split}.tsv"), None))
        for split in ("train", "dev")
    ]
    optimizer = thinc.api.registry.resolve({"optimizer": _OPTIMIZER})["optimizer"]
    nlp.initialize(lambda: splits[0])
    sizes = thinc.api.compounding(1, 32, 1.001)
    best = -1.0
    for epoch in range(epochs):
        random.shuffle(splits[0])
        for batch in spacy.util.minibatch(splits[0], sizes):
            nlp.update(batch, drop=_DROPOUT, sgd=optimizer)
        score = nlp.evaluate(splits[1], batch_size=256)["ents_f"] or 0.0
        print(
            f"spaCy: epoch {epoch + 1} of {epochs}, F1 on dev.tsv {100 * score:.2f}",
            file=sys.stderr,
            flush=True,
        )
        if score > best:
            best = score
            nlp.to_disk(unfinished)
    unfinished.rename(output)


def _examples(nlp: Any, sentences: Sequence[TaggedSentence]) -> list[Any]:
    """Makes spaCy's examples: the text of a sentence with the spans of its entities."""
    from spacy.training import Example, offsets_to_biluo_tags

    examples = []
    for sentence in sentences:
        text, spans = text_of(sentence)
        doc = nlp.make_doc(text)
        # "-" for a word of spaCy's that an entity has only a part of: it teaches nothing.
        tags = offsets_to_biluo_tags(doc, [(*span, "ENTITY") for span in spans])
        examples.append(Example.from_dict(doc, {"entities": tags}))
    return examples
