"""The flags that select articles give the settings of the same names."""

import dataclasses

from absl import flags

from data_prep.selection import selection_flags
from data_prep.selection.articles import Selection


def parsed(*given):
    """Returns the selection of a command line, and removes its flags again."""
    before = set(flags.FLAGS)
    selection_flags.define()
    try:
        flags.FLAGS(["documents", *given])
        return selection_flags.selection()
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)


def test_every_setting_has_its_flag():
    expected = Selection(
        section_labels=True,
        other_abstracts="english",
        keep_boilerplate=True,
        captions=True,
        tables=True,
        languages=("eng", "fre"),
        publication_types=("Letter", "Comment"),
        keep_retracted=True,
        min_words=128,
        note_categories=("Physician", "Nursing"),
        note_marks="type",
    )
    selection = parsed(
        "--section_labels",
        "--other_abstracts=english",
        "--keep_boilerplate",
        "--captions",
        "--tables",
        "--languages=eng,fre",
        "--exclude_publication_types=Letter,Comment",
        "--keep_retracted",
        "--min_words=128",
        "--note_categories=Physician,Nursing",
        "--note_marks=type",
    )
    assert selection == expected
    # Captions and tables do not go with --nofull_text.
    assert parsed("--nofull_text") == Selection(full_text=False)
    default = dataclasses.asdict(Selection())
    same = [name for name, value in dataclasses.asdict(expected).items() if value == default[name]]
    assert same == ["full_text"]


def test_the_flags_have_the_defaults_of_the_settings():
    assert parsed() == Selection()
