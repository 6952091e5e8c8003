import gzip
import html
import re
from collections import Counter

import pytest

from data_prep.readers import input_files
from data_prep.selection import boilerplate
from tests import shipped_citations

SCIENCE = "It was shown that p < 0.05."


@pytest.mark.parametrize(
    "line",
    [
        "(ABSTRACT TRUNCATED AT 250 WORDS)",
        "(PsycInfo Database Record (c) 2021 APA, all rights reserved).",
        "PsycINFO Database Record (c) 2016 APA, all rights reserved.",
        "This article is protected by copyright. All rights reserved.",
        "Copyright © 2020 Elsevier B.V. All rights reserved.",
        "Copyright (c) 2020 John Wiley & Sons, Ltd.",
        "Copyright 2009 S. Karger AG, Basel.",
        "© 2021 The Authors. The Journal of Pathology published by John Wiley & Sons, Ltd. on"
        " behalf of The Pathological Society of Great Britain and Ireland.",
        "© The Author(s) 2020. Published by Oxford University Press. All rights reserved. For"
        " permissions, please e-mail: journals.permissions@oup.com.",
        "This journal is © The Royal Society of Chemistry.",
        "(c) 2007 Elsevier Inc. All rights reserved.",
        "Published by Elsevier Ltd.",
        "© 2021 SECOT. Publicado por Elsevier España, S.L.U.",
        "© Author(s) (or their employer(s)) 2021. Re-use permitted under CC BY-NC. No commercial"
        " re-use. See rights and permissions. Published by BMJ.",
        "This article is a U.S. Government work and is in the public domain in the USA.",
        "© RSNA, 2021 Supplemental material is available for this article. See also the editorial"
        " by Klibanov in this issue.",
        "The online version contains supplementary material available at 10.1007/s1-021-0-2.",
        "The online version of this article (doi:10.1186/s13073-017-0433-1) contains supplementary"
        " material, which is available to authorized users.",
        "Electronic supplementary material The online version of this chapter"
        " (doi: 10.1016/S0140-6736(05)66545-4) contains peer-reviewed but unedited supplementary"
        " material, which is available to authorised users.",
        "VIDEO ABSTRACT.",
    ],
)
def test_lines_of_publishers_are_removed(line):
    for text in (f"{SCIENCE} {line}", f"{SCIENCE}{line}", f"{SCIENCE} {line} {line}"):
        left, removed = boilerplate.without_boilerplate(text)
        assert left == SCIENCE, text
        assert removed, text
    assert boilerplate.without_boilerplate(line)[0] == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        SCIENCE,
        f"{SCIENCE} ClinicalTrials.gov Identifier: NCT01986010.",
        f"{SCIENCE} PROSPERO CRD42020151925.",
        f"{SCIENCE} © 2020 Elsevier Inc. All rights reserved. ClinicalTrials.gov: NCT01986010.",
        f"{SCIENCE} Level of Evidence: IV.",
        "Two series were published by Remillard, Ethier and Anderman.",
        "The series was compared. Those published by other investigators differ.",
        "Cells are protected by copyright.",
        "We found that (a) cells grew; (b) they died; (c) 2020 patients lived in 2010.",
        "The authors agree that the copyright of their article is transferred to the publishers.",
        "Laws were compared. Copyright law was changed in 2001 and 2010.",
        "A Scottish PROM© score of 9 and under could identify people. The implications are large.",
        "The software is SPSS © 2016 IBM was used.",
        "Source code is available under the MIT license from https://vibiba.com.",
        "The extension of rights was granted. All rights were reserved.",
    ],
)
def test_everything_else_stays(text):
    assert boilerplate.without_boilerplate(text) == (text, [])


# Each of these takes ages with a pattern whose work grows faster than the text.
@pytest.mark.parametrize("end", ["", "!"])
@pytest.mark.parametrize(
    "piece",
    [
        *("© 2021 ", "©", "A. ", "a.", " ", "(c) 2010 ", "All rights reserved. ", "Published by "),
        *("Copyright © 2020 A. B. C. ", "For permissions @", "Video abstract at ", "ABSTRACT "),
        *("© 2020 Elsevier. A published by ", "This article is categorized under: a>b "),
        *("This is an open access article CC BY 4.0 ", "Supplementary data are available at "),
    ],
)
def test_hostile_text_takes_no_ages(piece, end):
    text = piece * (60_000 // len(piece)) + "©"[: len(end)] + end
    left, _ = boilerplate.without_boilerplate(text)
    assert text.startswith(left)


@pytest.mark.slow
def test_what_the_shipped_files_have(tmp_path_factory):
    """The figures in the module's docstring, and no line in sight that was missed."""
    abstracts, ended, kinds, rest = 0, 0, Counter(), []
    for citation in shipped_citations.read(tmp_path_factory):
        if citation.sections:
            left, removed = boilerplate.without_boilerplate(citation.sections[-1].text)
            abstracts += 1
            ended += bool(removed)
            kinds.update(removed)
            if re.search(
                "©|copyright|rights reserved|psycinfo|abstract truncated", left[-400:], re.I
            ):
                rest.append(citation.pmid)
    assert (abstracts, ended) == (33_277, 259)
    assert kinds == {
        "supplement": 76,
        "psycinfo": 61,
        "rights": 54,
        "protected": 51,
        "copyright": 31,
        "video": 21,
        "published": 18,
        "theme issue": 11,
        "truncated": 6,
        "categories": 3,
    }
    # A correction about plagiarism, and a questionnaire called PROM©.
    assert rest == ["15320745", "34039228"]


@pytest.mark.slow
def test_most_copyright_lines_are_known():
    """Lines that stand where PubMed wants them, which are many, in place of those that do not."""
    with gzip.open(input_files.shipped_files(".xml.gz")[1], "rt", encoding="utf-8") as stream:
        result = re.findall("<CopyrightInformation>(.*?)</Copy", stream.read())
    lines = [" ".join(html.unescape(line).split()) for line in result]
    known = sum(boilerplate.without_boilerplate(f"{SCIENCE} {x}")[0] == SCIENCE for x in lines)
    assert len(lines) == 13_299
    assert known / len(lines) > 0.97
    print(f"{known} of {len(lines)}")
