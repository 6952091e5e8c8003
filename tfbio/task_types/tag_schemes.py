"""Turns tags of words into entities, and into other schemes: BIO, IO and BIOUL."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfbio.base.config import ConfigError
from tfbio.base.errors import UserError
from tfbio.task_types.metrics import ScoreError


def entities(tags: Sequence[str], strict: bool = False) -> set[tuple[str, int, int]]:
    """Returns the entities that the tags of a sentence make, in BIO.

    An I that continues no entity of its type starts one, which is the rule of `conlleval` (the
    script of CoNLL-2000 and 2003) and seqeval's default. The corpora have no such I; models predict
    it. ELECTRA's scorer does the same for a single type; with several it does not part an I-y from
    the B-x before it.

    Args:
      tags: O, B, I, B-TYPE or I-TYPE for each word.
      strict: leave out what does not start with B, which is seqeval's strict mode with IOB2.

    Returns:
      (type, first word, last word) of each, with words counted from 0; the type of a bare tag is
      "_", as in seqeval.

    Raises:
      ScoreError: a tag is not of the BIO scheme.
    """
    for tag in dict.fromkeys(tags):
        if not re.fullmatch(r"O|[BI](-.+)?", tag):
            raise ScoreError(f"{tag!r} is no BIO tag: expected O, B, I, B-TYPE or I-TYPE.")
    spans, start = set(), 0
    # By hand: seqeval's two modes are two implementations, each several times slower.
    for word, (before, tag) in enumerate(zip(("O", *tags), (*tags, "O"), strict=True)):
        if tag[0] == "I" and before != "O" and before[1:] == tag[1:]:
            continue
        if before != "O" and (tags[start][0] == "B" or not strict):
            spans.add((before[2:] or "_", start, word - 1))
        start = word
    return spans


def in_scheme(tags: Sequence[str], scheme: str) -> list[str]:
    """Turns the BIO tags of a sentence into another scheme, IO or BIOUL, one tag for each word.

    Args:
      tags: in BIO, such as "B-Chemical".
      scheme: "IO", "BIOUL" or, for no change, "BIO".

    Raises:
      KeyError: the scheme is "BIOUL", and a tag begins with another letter than B, I or O.
    """
    if scheme == "IO":
        return [tag if tag == "O" else f"I{tag[1:]}" for tag in tags]
    if scheme == "BIOUL":
        # What ends here: a B is U then, an I is L.
        return [
            tag if tag == "O" or after == f"I{tag[1:]}" else {"B": "U", "I": "L"}[tag[0]] + tag[1:]
            for tag, after in zip(tags, (*tags[1:], "O"), strict=True)
        ]
    return list(tags)


def in_bio(tags: Sequence[str], scheme: str) -> list[str]:
    """Turns the tags of a sentence in another scheme, IO or BIOUL, into BIO, one for each word.

    BIOUL is turned tag by tag, U into B and L into I, and the score's rule for an I that continues
    nothing holds for those also. In IO an entity begins where its type does.

    Args:
      tags: in the scheme, whether they are a valid sequence or not.
      scheme: "IO", "BIOUL" or, for no change, "BIO".
    """
    if scheme == "IO":
        pairs = zip(tags, ("O", *tags), strict=False)
        return [tag if tag in ("O", before) else f"B{tag[1:]}" for tag, before in pairs]
    if scheme == "BIOUL":
        return [{"U": "B", "L": "I"}.get(tag[0], tag[0]) + tag[1:] for tag in tags]
    return list(tags)


def labels_in_scheme(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Returns all tags of a task in one of the tag schemes, in the order of the model's outputs.

    Args:
      tags: all tags of the task, in BIO.
      scheme: "BIO", "IO" or "BIOUL".

    Raises:
      ConfigError: the tags are not O, and B and I of each type, and another scheme is wanted.
      KeyError: there is no such scheme.
    """
    if scheme == "BIO":
        return tuple(tags)
    entity_types = [tag[1:] for tag in tags if tag[0] == "B"]
    if len(tags) != 1 + 2 * len(entity_types):
        raise ConfigError(
            f"tagging.scheme {scheme} needs a task with a B and an I of each type, this one has "
            f"{', '.join(tags)}: leave it at BIO, which takes tags as they are."
        )
    letters = {"IO": "I", "BIOUL": "BIUL"}[scheme]
    return ("O", *(letter + entity_type for entity_type in entity_types for letter in letters))


def tags_and_scheme(labels: Sequence[str], folder: str) -> tuple[list[str], str]:
    """Tells the tag scheme of a `transformers` model by its labels, and returns its tags in BIO.

    Args:
      labels: its labels, in the order of its outputs.
      folder: the path of the model, for messages.

    Returns:
      All tags in BIO, in the order of the outputs; and the scheme, "BIO" or "BIOUL".

    Raises:
      UserError: the labels are no tags of BIO or BIOUL.
    """
    if "O" in labels and all(re.fullmatch(r"O|[BI](-.+)?", label) for label in labels):
        return list(labels), "BIO"
    entity_types = dict.fromkeys(label[1:] for label in labels if label != "O")
    tags = ["O", *(letter + name for name in entity_types for letter in "BI")]
    if list(labels_in_scheme(tags, "BIOUL")) == list(labels):
        return tags, "BIOUL"
    raise UserError(
        f"{folder}/config.json has the labels {', '.join(labels)}: tagging takes O with tags such "
        "as B-Chemical and I-Chemical; if these are such tags, name them so in id2label."
    )


def bio_tags(types: Sequence[str]) -> tuple[str, ...]:
    """Returns all tags of the BIO scheme for types of entities: ("O", "B-TYPE", "I-TYPE", ...).

    The type "" has the tags "B" and "I".
    """
    return ("O", *(f"{letter}-{name}".rstrip("-") for name in types for letter in "BI"))
