"""Defines the flags that say which texts become documents, and reads them as a `Selection`."""

from __future__ import annotations

from absl import flags

from data_prep.selection.articles import Selection
from tfbio.base import cli


def define() -> None:
    """Defines an absl flag of the documents command for each setting of `Selection`.

    Returns nothing.

    Raises:
      absl.flags.DuplicateFlagError: there is a flag of such a name.
    """
    default = Selection()
    flags.DEFINE_bool(
        "section_labels",
        default.section_labels,
        "Write the labels of structured abstracts, and the titles of full texts' sections, into "
        "the text.",
    )
    flags.DEFINE_enum(
        "other_abstracts",
        default.other_abstracts,
        ["none", "english", "all"],
        "Which of PubMed's other abstracts become documents: english has plain-language summaries.",
    )
    flags.DEFINE_bool(
        "keep_boilerplate",
        default.keep_boilerplate,
        "Keep publishers' copyright lines and the like.",
    )
    flags.DEFINE_bool("full_text", default.full_text, "Use the bodies of PMC articles.")
    flags.DEFINE_bool("captions", default.captions, "Use captions of figures and tables, too.")
    flags.DEFINE_bool("tables", default.tables, "Use the cells of tables, too.")
    cli.define_list(
        "languages",
        list(default.languages),
        "Keep only articles in these (eng,fre); empty: all.",
        may_be_empty=True,
    )
    cli.define_list(
        "exclude_publication_types",
        list(default.publication_types),
        "Leave out articles of these types, such as Letter,Comment; empty: none.",
        may_be_empty=True,
    )
    flags.DEFINE_bool("keep_retracted", default.keep_retracted, "Keep retracted articles.")
    flags.DEFINE_integer(
        "min_words",
        default.min_words,
        "Leave out abstracts, pages, notes and plain texts of fewer words; PubMedBERT used 128.",
        lower_bound=0,
    )
    cli.define_list(
        "note_categories",
        list(default.note_categories),
        "Keep only clinical notes of these CATEGORYs (Physician,Nursing); empty: all.",
        may_be_empty=True,
    )
    flags.DEFINE_enum(
        "note_marks",
        default.note_marks,
        ["keep", "type"],
        "Keep the marks of de-identification in clinical notes, [**Hospital1 18**], or write their "
        "type alone, Hospital.",
    )


def selection() -> Selection:
    """Returns the `Selection` that the flags of the documents command give.

    Raises:
      UsageError: a flag has a value that its setting cannot have.
    """
    flag = flags.FLAGS
    return Selection(
        section_labels=flag.section_labels,
        other_abstracts=flag.other_abstracts,
        keep_boilerplate=flag.keep_boilerplate,
        full_text=flag.full_text,
        captions=flag.captions,
        tables=flag.tables,
        languages=tuple(flag.languages),
        publication_types=tuple(flag.exclude_publication_types),
        keep_retracted=flag.keep_retracted,
        min_words=flag.min_words,
        note_categories=tuple(flag.note_categories),
        note_marks=flag.note_marks,
    )
