import pytest

from tests.data_prep.readers.pmc_files import read


def cite(*contents, kind="bibr"):
    return [f'<xref ref-type="{kind}">{content}</xref>' for content in contents]


ONE, TWO, FIVE = cite("1", "2", "5")
RAISED_ONE, RAISED_TWO = cite("<sup>1</sup>", "<sup>2</sup>")
(STAR,) = cite("*", kind="table-fn")


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        (f"shown<sup>{ONE}</sup> here", "shown here"),
        (f"shown<sup>{ONE},{TWO}–{FIVE}</sup>.", "shown."),
        (f"shown <sup>{ONE}</sup>.", "shown."),
        (f"shown<sup>[{ONE}, {TWO}]</sup> here", "shown here"),
        (f"shown{RAISED_ONE} here", "shown here"),
        (f"shown{RAISED_ONE}<sup>,</sup>{RAISED_TWO} here", "shown here"),
        (f"shown{RAISED_ONE}–{RAISED_TWO}, and", "shown, and"),
        (f"shown<sup>{ONE}</sup>,<sup>{TWO}</sup> here", "shown here"),
        (f"shown<sup>{ONE}</sup>.<sup>{TWO}</sup> Here", "shown. Here"),
        (f"shown<sup>{ONE}</sup> and<sup>{TWO}</sup> here", "shown and here"),
        (f"<italic>E. coli</italic>{ONE} grew", "E. coli grew"),
        (f"shown{ONE}{TWO} here", "shown here"),
        (f"as in [{ONE},{TWO}-{FIVE}].", "as in [1,2-5]."),
        (f"in ref. {ONE} too", "in ref. 1 too"),
        (f"({''.join(cite('Smith, 2001'))})", "(Smith, 2001)"),
        (f"by{''.join(cite('Smith'))}", "bySmith"),
        (f"P{STAR} and <sup>{STAR}</sup>", "P and"),
        (f"CM<sup> {STAR} </sup>from", "CM from"),
        (f"<bold>CM</bold>{RAISED_ONE}<italic>from</italic>", "CM from"),
        (f"(CM)<sup>{ONE},{TWO}</sup>from <sup>{ONE}</sup>here", "(CM) from here"),
        (f"shown.<sup>{ONE}</sup>Then (<sup>{TWO}</sup>here)", "shown. Then (here)"),
        (f"{cite('CM')[0]}from", "CMfrom"),
        (f"shown{cite('<sup>1</sup>' + ONE)[0]} here{RAISED_TWO}, and", "shown here, and"),
        (f"shown<sup>{cite(ONE)[0]}</sup> here{RAISED_TWO}, and", "shown here, and"),
        # Behind a sign.
        (f"brief.{TWO} The patient", "brief. The patient"),
        (f"care,{ONE} and", "care, and"),
        (f"shown.{ONE},{TWO} Then", "shown. Then"),
        (f"<italic>E. coli</italic>.{TWO} It", "E. coli. It"),
        (f"(CM){ONE} and “so.”{TWO} Then", "(CM) and “so.” Then"),
        (f"was 0.{FIVE} or 2010,{FIVE} there", "was 0.5 or 2010,5 there"),
        (f"in Ref.{TWO}, cf.{TWO}", "in Ref.2, cf.2"),
        (f"(Smith et al.,{TWO}) said", "(Smith et al.,2) said"),
        (f"Smith et al. ({TWO}) said", "Smith et al. (2) said"),
        (f"Smith,{cite('2004')[0]} too", "Smith,2004 too"),
        (f"(from:{ONE}, {TWO}) in pp.{ONE}", "(from:1, 2) in pp.1"),
        # In a list.
        (f"LDetect{ONE},{TWO}.", "LDetect."),
        (f"shown{ONE}–{FIVE}", "shown"),
        (f"shown{ONE}, {TWO} and", "shown and"),
        (f"shown{ONE}, and {TWO}", "shown, and 2"),
        (f"by {ONE}, {TWO} and", "by 1, 2 and"),
        # In brackets.
        (f"shown<sup>[</sup>{RAISED_ONE}<sup>]</sup>", "shown"),
        (f"shown<sup>[</sup>{RAISED_ONE}<sup>,</sup>{RAISED_TWO}<sup>]</sup>here", "shown here"),
        (f"shown (<sup>{TWO}</sup>) here (<sup>{TWO}</sup>).", "shown here."),
        (f"shown [<sup>{ONE}</sup>,<sup>{TWO}</sup>] here", "shown here"),
        (f"f() (see <sup>{ONE}</sup>) too", "f() (see) too"),
        ("O<sup>2-</sup>, x<sup>2</sup>, 5<sup>th</sup>", "O2-, x2, 5th"),
        ('Fig<xref ref-type="fig">1</xref><sup><xref ref-type="fig">2</xref></sup>', "Fig12"),
    ],
)
def test_marks_are_not_glued_to_words(tmp_path, xml, expected):
    (paragraph,) = read(tmp_path, f"<p>{xml}</p>").body
    assert paragraph.text == expected


@pytest.mark.timeout(120)  # seconds, or many minutes where work grows with the square
@pytest.mark.parametrize(
    ("before", "marks"),
    [
        ("", f"{ONE},"),
        ("", f"word.{ONE} "),
        ("", f"<sup>{ONE}</sup>{ONE}"),
        ("", f"(<sup>{ONE}</sup>)"),
        ("(" * 20_000, f"<sup>{ONE}</sup>)"),
    ],
)
def test_many_marks_take_no_ages(tmp_path, before, marks):
    (paragraph,) = read(tmp_path, f"<p>shown.{before}{marks * 20_000} Here</p>").body
    assert paragraph.text.startswith("shown.")
