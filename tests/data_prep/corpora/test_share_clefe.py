"""ShARe/CLEFE on invented notes in the layout of the release, which credentialed users get."""

import zipfile

import pytest

from data_prep.corpora import clinical_notes, released_files, share_clefe
from tfbio.task_types import task_table

TEXT = (
    "Name: [**Known lastname 1**]  Unit No: ____\n\n"
    "Seen on [**2020-1-1**]. The left and right\natrium is wide.\n\n"
    "No fever.||||\n"
)


def at(*texts):
    """Returns START||END of each text in the note."""
    result = []
    for text in texts:
        start = TEXT.index(text)
        result += [start, start + len(text)]
    return result


MENTIONS = [at("left", "atrium"), at("fever"), at("right\natrium")]


def lines(name, mentions):
    return "".join(
        f"{name}.txt||Disease_Disorder||C0000000||{'||'.join(map(str, numbers))}\n"
        for numbers in mentions
    )


def knowtator(name, mentions):
    parts = []
    for number, numbers in enumerate(mentions):
        spans = "".join(
            f'<span start="{a}" end="{b}" />'
            for a, b in zip(numbers[::2], numbers[1::2], strict=True)
        )
        parts.append(
            f'<annotation><mention id="m{number}" />{spans}<spannedText>x</spannedText>'
            f'</annotation>\n<classMention id="m{number}"><hasSlotMention id="s{number}" />'
            '<mentionClass id="Disease_Disorder">Disease_Disorder</mentionClass></classMention>\n'
        )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<annotations textSource="{name}.txt">\n'
        f"{''.join(parts)}</annotations>\n"
    )


def release(folder, train=("00001-A", "00002-B"), gold=None, test_gold=None):
    """Writes the four archives; gold: the annotation of the training notes."""
    archives = {
        "Task1TrainSetCorpus199.zip": {
            f"Task1TrainSetCorpus199/ALLREPORTS/{name}.txt": TEXT for name in train
        },
        "Task1TrainSetGOLD199knowtatorehost.zip": {
            f"Task1TrainSetGOLD199knowtatorehost/Task1Gold/{name}.txt.knowtator.xml": (
                knowtator(name, MENTIONS) if gold is None else gold
            )
            for name in train
        },
        # Without a folder of the archive's name.
        "Task1TestSetCorpus100.zip": {"ALLREPORTS/00009-Z.txt": TEXT},
        "Task1Gold_SN2012.zip": {
            "Gold_SN2012/00009-Z.txt": lines("00009-Z", MENTIONS)
            if test_gold is None
            else test_gold
        },
    }
    for name, members in archives.items():
        with zipfile.ZipFile(folder / name, "w") as archive:
            for path, content in members.items():
                archive.writestr(path, content)


EXPECTED = [
    "Name/O :/O PATTERN/O Unit/O No/O :/O _/O",
    "Seen/O on/O PATTERN/O ./O The/O left/B and/O right/B atrium/I is/O wide/O ./O",
    "No/O fever/B ./O",
]


def test_both_forms_of_annotation(command, tmp_path):
    release(tmp_path)
    done = command("corpora.share_clefe", f"--input={tmp_path}", f"--output={tmp_path}/out")
    assert done.returncode == 0, done.stderr
    # Three entities of each note: a part, and two mentions of which one has the other's word.
    assert done.stdout.splitlines() == [
        "train: 3 mentions",
        "dev: 3 mentions",
        "test: 3 mentions",
        f"3 of 9 mentions {clinical_notes.IN_PARTS}.",
        f"3 of 9 mentions {clinical_notes.OVERLAPPED}.",
    ]
    examples = task_table.TASKS["share_clefe"].examples(str(tmp_path / "out"))
    for sentences in examples.values():
        tagged = [" ".join(map("/".join, zip(x.words, x.tags, strict=True))) for x in sentences]
        assert tagged == EXPECTED


def test_a_larger_part_for_development(command, tmp_path):
    release(tmp_path, ("a", "b", "c", "d"))
    flags = (f"--input={tmp_path}", f"--output={tmp_path}/out", "--dev_fraction=0.5")
    said = command("corpora.share_clefe", *flags).stdout.splitlines()
    assert said[:2] == ["train: 6 mentions", "dev: 6 mentions"]


def test_a_list_of_notes_for_development(tmp_path):
    release(tmp_path, ("a", "b", "c"))
    (tmp_path / "devel.txt").write_text("a\nc\n")
    splits, _ = share_clefe.read_examples(tmp_path, [], str(tmp_path / "devel.txt"))
    names = [row[0] for row in splits["dev"] if row[0].startswith("-DOC")]
    assert names == ["-DOCSTART- (a)", "-DOCSTART- (c)"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("On [**2020-1-1**] x", "On        PATTERN x"),
        ("a [**1**] b", "a PATTERN b"),
        ("a [****] b", "a ATTERN b"),  # nothing moves
        ("[**a**]b[**cdefgh**]", "PATTERNb     PATTERN"),
        ("a |||| ___ ~~ ||| b", "a " + " " * 12 + "||| b"),
    ],
)
def test_marks_are_blanked_and_nothing_moves(text, expected):
    assert share_clefe.blanked(text) == expected and len(expected) == len(text)


@pytest.mark.parametrize(
    ("gold", "test_gold", "message"),
    [
        (None, "x.txt||D||C||5\n", r"00009-Z\.txt, line 1: expected one START and END .* '5'"),
        (None, lines("x", MENTIONS) + "x.txt||D||C\n", r"Z\.txt, line 4: .* found ''"),
        (None, "x.txt||D||C||5||five\n", r"Z\.txt, line 1: .* found '5, five'"),
        (None, "x.txt||D||C||9||5\n", r"line 1: expected"),
        (None, "x.txt||D||C||5||999\n", r"line 1: expected .* within the note's \d+ characters"),
        ("<annotations>", None, r"knowtator\.xml: it is not well-formed XML"),
        (
            "<a>\n<annotation><span start='1' /></annotation></a>",
            None,
            r"knowtator\.xml, line 2: expected one START and END",
        ),
    ],
)
def test_a_mention_that_does_not_fit_is_named(gold, test_gold, message, tmp_path):
    release(tmp_path, gold=gold, test_gold=test_gold)
    with pytest.raises(released_files.CorpusError, match=message):
        share_clefe.read_examples(tmp_path, [])


def test_a_missing_archive_is_named(tmp_path):
    release(tmp_path)
    (tmp_path / "Task1TestSetCorpus100.zip").unlink()
    with pytest.raises(released_files.CorpusError, match="holds no note of the test set"):
        share_clefe.read_examples(tmp_path, [])
    release(tmp_path)
    (tmp_path / "Task1Gold_SN2012.zip").unlink()
    with pytest.raises(
        released_files.CorpusError, match=r"does not hold the mentions of .*00009-Z\.txt"
    ):
        share_clefe.read_examples(tmp_path, [])


def test_a_bracket_before_the_mark_ends_a_sentence_too():
    parts = share_clefe._SENTENCE_END.split("Wide (left). The end (5). Then")
    assert parts == ["Wide (left).", "The end (5).", "Then"]


def test_mentions_without_a_tag_are_told(tmp_path):
    """A mention of blanks alone, and one whose words a later one has."""
    blank = [TEXT.index(" on "), TEXT.index(" on ") + 1]
    release(tmp_path, test_gold=lines("x", [blank, at("fever"), at("No fever")]))
    left = []
    share_clefe.read_examples(tmp_path, left)
    start = TEXT.index("fever")
    assert left == [
        (f"00009-Z.{blank[0]}-{blank[1]}", "00009-Z", "no_word"),
        (f"00009-Z.{start}-{start + 5}", "00009-Z", "overwritten"),
    ]
