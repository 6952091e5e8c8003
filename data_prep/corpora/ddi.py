"""Makes BLURB's files of DDI 2013: two drugs of a sentence, and their interaction.

Each `<pair>` of the XML is an example: the pair's id; the sentence, in which both drugs are
`@DRUG$` (one `@DRUG-DRUG$` where they overlap), or with `--entities=marker` stand between markers;
and `DDI-advise`, `-effect`, `-int`, `-mechanism` or `-false`. The splits are lists of files,
BLURB's `indexing/DDI/{train,dev,test}_files.tsv`.

`tfbio data ddi` reads with this module the release of the corpus's makers
(<https://github.com/isegura/DDICorpus>), or the older copy that BLURB fetches,
DDIextraction_2013.tar.gz. The makers' release corrects that copy, where in six abstracts the
mentions after the title stand one character too late, and two pairs have each other's label. So 66
examples for training and 21 for development are not BLURB's; all others, and all for testing, are.
A mention whose text stands neither at its place nor one character beside it is an error.
"""

from __future__ import annotations

import os
import re

from lxml import etree

from data_prep.corpora import corpus_splits, relation_entities, released_files
from data_prep.corpora.released_files import CorpusError, File

_LABELS = ("false", "advise", "effect", "int", "mechanism")

# Only of the files for relations: those for names of drugs hold the same texts without pairs.
_FOLDERS = {
    "Train": "train_dataset",
    "Test/Test for DDI Extraction task": "test_dataset",
    "train_dataset": "train_dataset",
    "test_dataset": "test_dataset",
}
_FILES = rf"({'|'.join(_FOLDERS)})/(DrugBank|MedLine)/[^/]+\.xml"


def read_examples(
    source: str | os.PathLike,
    index: str | os.PathLike,
    left: corpus_splits.LeftOut,
    entities: str = "dummy",
) -> dict[str, list[tuple[str, str, str]]]:
    """Reads the pairs of drugs of DDI 2013's release, as the rows of BLURB's splits.

    Args:
      source: the release: the path of a folder or an archive.
      index: the folder of BLURB's lists, `{train,dev,test}_files.tsv`.
      left: a list that gets `(name, path, "not_listed")`, all str, for each file that no list
        names.
      entities: "dummy" for `@DRUG$`, "marker" for markers about the two.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of rows `(id of the pair,
      sentence, label)`, all str, in the order of the split's list; the label is "DDI-advise",
      "DDI-effect", "DDI-int", "DDI-mechanism" or "DDI-false".

    Raises:
      CorpusError: the release or a list cannot be read, a list names a file that the release does
        not have, or `read_file` refuses one.
    """
    files = {_listed_name(key): file for key, file in released_files.find(source, _FILES).items()}
    splits = {}
    listed: set[str] = set()
    for split in corpus_splits.SPLITS:
        names = corpus_splits.read_index(index, f"{split}_files.tsv")
        listed.update(names)
        missing = [name for name in names if name not in files]
        if missing:
            raise CorpusError(
                f"{split}_files.tsv in {index} lists {missing[0]}, which {source} does not hold."
            )
        splits[split] = [row for name in names for row in read_file(files[name], entities)]
    left += [(name, files[name].path, "not_listed") for name in sorted(files.keys() - listed)]
    return splits


def _listed_name(key: str) -> str:
    """Returns a file's name in BLURB's lists, such as "test_dataset/DrugBank/Oxacillin.xml"."""
    folder, kind, name = key.rsplit("/", 2)
    return f"{_FOLDERS[folder]}/{kind}/{name}"


def read_file(file: File, entities: str = "dummy") -> list[tuple[str, str, str]]:
    """Reads the pairs of drugs of one document of DDI 2013's release.

    Args:
      file: the document, in XML.
      entities: "dummy" for `@DRUG$`, "marker" for markers about the two.

    Returns:
      A list of rows `(id of the pair, sentence that shows the two so, label)`, all str; the label
      is "DDI-advise", "DDI-effect", "DDI-int", "DDI-mechanism" or "DDI-false".

    Raises:
      CorpusError: it is no XML or uses an entity, a pair has no two drugs or no type of
        interaction, or a drug's text is not at its offsets.
    """
    document = file.xml()
    rows = []
    for sentence in document.iterfind("sentence"):
        text = sentence.get("text", "")
        drugs = {drug.get("id"): drug for drug in sentence.iterfind("entity")}
        for pair in sentence.iterfind("pair"):
            first, second = (
                None if drug is None else _span(drug, text, file.path)
                for drug in (drugs.get(pair.get("e1")), drugs.get(pair.get("e2")))
            )
            # One pair of the makers' release is "true" without a type; BLURB's copy has it false.
            label = pair.get("type", "false") if pair.get("ddi") == "true" else "false"
            if first is None or second is None or label not in _LABELS:
                raise CorpusError(
                    f"{file.path}, line {pair.sourceline}: the pair {pair.get('id')} names no two "
                    "drugs of its sentence, or no type of interaction."
                )
            if first[0] > second[0]:
                first, second = second, first
            pair_of_drugs = (*first, "@DRUG$"), (*second, "@DRUG$")
            masked = relation_entities.mask(text, *pair_of_drugs, "@DRUG-DRUG$", entities)
            rows.append((pair.get("id", ""), masked, f"DDI-{label}"))
    return rows


def _span(drug: etree._Element, text: str, path: str) -> tuple[int, int] | None:
    """Returns the character range of a mention in its sentence.

    The corpus gives the last character, not the one after it: "0-3", or "0-3;10-12" for a mention
    in parts, which BLURB takes for one from the first part to the last.

    Args:
      drug: the mention's element.
      text: the sentence.
      path: of the file, for errors.

    Returns:
      `(start, end)`, the end being that of the next character; None if the element gives no
      offsets.

    Raises:
      CorpusError: the mention's text is not there.
    """
    said = drug.get("charOffset", "")
    if not re.fullmatch("[0-9]{1,9}-[0-9]{1,9}(;[0-9]{1,9}-[0-9]{1,9})*", said):
        return None
    parts = [tuple(map(int, part.split("-"))) for part in said.split(";")]
    mention = "".join(drug.get("text", "").split())
    # BLURB's copy has some mentions one character too late, perhaps beyond the end.
    stands = [
        "".join("".join(text[max(0, a - early) : max(0, b + 1 - early)] for a, b in parts).split())
        for early in (0, 1, -1)
    ]
    ends = [end for part in parts for end in part]
    whole = ends == sorted(ends) and (mention in stands if mention else ends[-1] < len(text))
    if not whole:
        raise CorpusError(
            f"{path}, line {drug.sourceline}: the drug {drug.get('id')} has the charOffset "
            f"{said:.40}, but the sentence of {len(text)} characters has {stands[0]!r:.40} there, "
            f"not {mention!r:.40}."
        )
    return parts[0][0], parts[-1][1] + 1
