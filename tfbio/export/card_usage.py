"""Writes the part of a model card on how to use the model with `transformers`.

`model_card` writes the rest.
"""

from __future__ import annotations

import os
from typing import Any

from tfbio.text import hugging_face_tokenizer, vocabularies

_FOLDER = '"folder/of/this/file"'
# BERT's tokenizer cuts text at punctuation, as these rules of `task_types.words` do.
_CUT_AT_PUNCTUATION = ("symbols", "punctuation")
_BY_PIPELINE = f"""\
from transformers import pipeline
tagger = pipeline(
    "token-classification", model={_FOLDER}, aggregation_strategy="first"
)
print(tagger("Imatinib inhibits BCR-ABL."))
"""
# After the lines that load the model.
_BY_WORD = """\
words = ["Imatinib", "inhibits", "BCR-ABL", "."]
encoded = tokenizer(words, is_split_into_words=True, truncation=True, return_tensors="pt")
tags = {}
for word, label in zip(encoded.word_ids(), model(**encoded).logits[0].argmax(-1).tolist()):
    if word is not None:
        tags.setdefault(word, model.config.id2label[label])
print([(words[word], tag) for word, tag in tags.items()])
"""


def lines(folder: str | os.PathLike, config: dict[str, Any]) -> list[str]:
    """Returns the lines of a model card on how to use the model.

    Those for a tagger read the tag of each word's first token, which alone was trained: by the
    pipeline of `transformers`, if it cuts text into the words of the data and knows the tags, and
    otherwise from words that the user gives.

    Args:
      folder: the folder of the converted model, with its vocabulary.
      config: its `config.json`.

    Raises:
      VocabularyError: the folder of a tagger has no vocabulary.
    """
    (architecture,) = config["architectures"]
    code = (
        f"from transformers import AutoTokenizer, {architecture}\n"
        f"tokenizer = AutoTokenizer.from_pretrained({_FOLDER})\n"
        f"model = {architecture}.from_pretrained({_FOLDER})\n"
    )
    note = []
    is_tagger = architecture.endswith(hugging_face_tokenizer.TAGGER)
    if is_tagger and "problem_type" not in config:  # one label for each word
        if _pipeline_reads(folder, config):
            code, cut = _BY_PIPELINE, ""
        else:
            code, cut = code + _BY_WORD, f", cut into words{_rule(config)}"
        note = ["", f"Give one sentence at a time{cut}, as in training."]
    return ["", "## Use", "", "```python", *code.splitlines(), "```", *note]


def _pipeline_reads(folder: str | os.PathLike, config: dict[str, Any]) -> bool:
    """Returns True if the pipeline of `transformers` finds the words, and knows all tags."""
    tags = [tag for tag in config["id2label"].values() if tag != "O"]
    is_wordpiece = vocabularies.find_vocabulary(folder).suffix == ".txt"
    has_its_words = is_wordpiece and config.get("words") in _CUT_AT_PUNCTUATION
    # It takes any other tag for the name of a type.
    return has_its_words and all(tag.startswith(("B-", "I-")) for tag in tags)


def _rule(config: dict[str, Any]) -> str:
    """Returns where the rule is by which text is cut into words, if the model knows one."""
    rule = config.get("words")
    return f' by the rule "{rule}" of tfbio/task_types/words.py' if rule else ""
