import itertools
import random

import numpy as np
import pytest

from data_prep.selection import articles, row_groups, versions

ROWS = itertools.count()


def row(key, version=1, edition=(21, 1), revised=20200101, reason="", **flags):
    reason, place = versions.VERDICTS.index(reason), next(ROWS)
    of_place = (place // 7, place, 0, 1)
    is_set = (flags.get(name, False) for name in ("body", "poor", "deleted"))
    pmcid = flags.get("pmcid", 0)
    return (key, version, *edition, revised, *of_place, pmcid, reason, *is_set)


def full_text(key, reason="", abstract_reason=""):
    """Returns the rows of a full text's abstract and body."""
    return (
        row(key, version=0, edition=(0, 0), reason=reason or abstract_reason),
        row(key, version=0, edition=(0, 0), reason=reason, body=True),
    )


def verdicts(*rows):
    """Returns the verdicts on rows, in their order (None: a deletion)."""
    decided = versions.newest(np.array(list(rows), versions.ROW))
    result = {int(r["row"]): versions.VERDICTS[r["reason"]] for r in decided}
    return [result.get(r[6]) for r in rows]


def test_the_file_with_the_higher_number_wins_and_the_year_before_it():
    assert verdicts(
        row(1, edition=(21, 9)), row(1, edition=(22, 1)), row(1, edition=(21, 1298))
    ) == ["superseded", "", "superseded"]


def test_a_later_place_and_a_later_revision_win():
    assert verdicts(row(1), row(1)) == ["superseded", ""]
    no_edition = {"edition": (0, 0)}
    assert verdicts(
        row(1, revised=20210101, **no_edition), row(1, revised=20200101, **no_edition)
    ) == ["", "superseded"]


def test_deletions_count_against_what_came_before_them():
    assert verdicts(row(1), row(1, edition=(21, 2), deleted=True)) == ["deleted", None]
    assert verdicts(row(1, edition=(21, 3)), row(1, edition=(21, 2), deleted=True)) == ["", None]
    # Of two versions, the deletion of one leaves the other.
    assert verdicts(
        row(1, version=1), row(1, version=2), row(1, version=2, edition=(21, 2), deleted=True)
    ) == ["", "superseded", None]


def test_the_highest_version_wins_whatever_its_file():
    assert verdicts(row(1, version=2), row(1, version=1, edition=(22, 1))) == ["", "superseded"]


def test_an_abstract_inside_of_a_full_text_stands_beside_other_abstracts_alone():
    assert verdicts(row(1, poor=True), *full_text(1)) == ["", "", ""]
    # Neither has a main abstract.
    inside = full_text(1, abstract_reason="without_text")
    assert verdicts(row(1, poor=True), *inside) == ["", "in_pubmed", ""]


def test_what_a_full_text_says_holds_for_pubmeds_other_abstracts():
    """PubMed has no main abstract, and PMC has it."""
    for reason in ("retracted", "excluded_by_id", "excluded_by_text"):
        assert verdicts(row(1, poor=True), *full_text(1, reason)) == [reason] * 3
    # PubMed says in which language an article is.
    in_german = full_text(1, "language")
    assert verdicts(row(1, poor=True), *in_german) == ["", "language", "language"]


def test_an_abstract_inside_of_a_full_text_gives_way_to_pubmed():
    assert verdicts(*full_text(1), row(1)) == ["in_pubmed", "", ""]
    assert verdicts(*full_text(2)) == ["", ""]
    # Of one full text that is there twice, the later.
    assert verdicts(*full_text(2), *full_text(2)) == ["superseded", "superseded", "", ""]


def test_it_stands_in_where_pubmed_has_the_title_only():
    assert verdicts(*full_text(1), row(1, reason="without_text")) == ["", "", "without_text"]
    assert verdicts(
        *full_text(1, abstract_reason="without_text"), row(1, reason="without_text")
    ) == ["in_pubmed", "", "without_text"]


def test_a_full_text_in_another_language_does_not_take_pubmeds_abstract():
    """PubMed says in which language an article is."""
    assert verdicts(*full_text(1, reason="language"), row(1)) == ["in_pubmed", "language", ""]
    # Where only the full text says it, it holds for both.
    of_both = full_text(2, reason="language", abstract_reason="language")
    assert verdicts(*of_both) == ["language", "language"]


def test_what_pubmed_says_of_an_article_holds_for_its_full_text():
    for reason in ("retracted", "language", "publication_type", "excluded_by_id"):
        assert verdicts(*full_text(1), row(1, reason=reason)) == ["in_pubmed", reason, reason]
    assert verdicts(*full_text(1), row(1, reason="too_short")) == ["in_pubmed", "", "too_short"]
    assert verdicts(*full_text(1), row(1, edition=(21, 2), deleted=True)) == [
        "deleted",
        "deleted",
        None,
    ]
    # And what a benchmark has of its body, for PubMed's abstract.
    assert verdicts(*full_text(1, "excluded_by_text"), row(1)) == [
        "in_pubmed",
        "excluded_by_text",
        "excluded_by_text",
    ]


def test_what_is_left_out_still_stands_for_its_article():
    assert verdicts(row(1), row(1, edition=(21, 2), reason="retracted")) == [
        "superseded",
        "retracted",
    ]


def linked(with_pmid, pmcids, partitions=1):
    """Returns {PMC number: key} of full texts without a PMID, by all steps of the pipeline."""

    def divided(step, rows):
        groups = row_groups.grouped(rows, rows[step["by"]] % partitions)
        for partition, block in groups:
            for to, given in step["of"]((partition, [block]), partitions):
                given = np.frombuffer(given, versions.ROW)
                assert set((given[step["to"]] % partitions).tolist()) == {to}
                yield given

    inside = {"version": 0, "edition": (0, 0)}
    without = [
        row(articles.NO_PMID | pmcid, pmcid=pmcid, body=body, **inside)
        for pmcid in pmcids
        for body in (True, False)
    ]
    by_article = {"of": versions.with_pmc_numbers, "by": "key", "to": "pmcid"}
    found = divided(by_article, np.array(with_pmid, versions.ROW))
    by_number = {"of": versions.with_pmids, "by": "pmcid", "to": "key"}
    rows = np.concatenate([np.array(without, versions.ROW), *found])
    given = np.concatenate(list(divided(by_number, rows)))
    # Nothing else comes out, and each once.
    assert sorted(given["row"].tolist()) == [x[6] for x in without]
    keys = {(int(x["pmcid"]), int(x["key"])) for x in given}
    assert len(keys) == len(pmcids)
    return dict(keys)


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_a_full_text_without_a_pmid_has_that_of_its_pmc_number(partitions):
    """It is the newest citation's, in whatever order the rows come."""
    citations = [
        row(6, edition=(21, 2), pmcid=77),
        row(5, edition=(21, 1), pmcid=77),
        row(9, version=0, edition=(0, 0), pmcid=79),
        row(8, edition=(21, 3)),
    ]
    alone = articles.NO_PMID | 78
    for order in (citations, citations[::-1]):
        assert linked(order, [77, 78, 79], partitions) == {77: 6, 78: alone, 79: 9}


@pytest.mark.parametrize("reason", ["retracted", "language", "excluded_by_id", "without_text"])
def test_a_citation_that_is_left_out_still_gives_its_pmid(reason):
    assert linked([row(5, pmcid=77, reason=reason)], [77]) == {77: 5}


def test_the_pmc_number_is_that_of_the_newest_version():
    """PubMed corrected PMID 5's number, which had been that of another article."""
    first, second = row(5, edition=(21, 1), pmcid=50), row(5, edition=(21, 2), pmcid=60)
    own = articles.NO_PMID | 50
    assert linked([first, second], [50, 60]) == {50: own, 60: 5}
    assert linked([second, first], [50, 60]) == {50: own, 60: 5}
    assert linked([first, row(5, edition=(21, 2))], [50]) == {50: own}
    # Version 2 was withdrawn, so version 1 counts.
    withdrawn = [row(5, 2, (21, 1), pmcid=60), row(5, 2, (21, 2), deleted=True)]
    assert linked([first, *withdrawn], [50]) == {50: 5}


def test_a_deleted_citation_gives_its_pmid_only_where_no_other_does():
    deleted = [row(6, edition=(21, 2), pmcid=50), row(6, edition=(21, 3), deleted=True)]
    assert linked(deleted, [50]) == {50: 6}
    assert linked([*deleted, row(5, edition=(21, 1), pmcid=50)], [50]) == {50: 5}
    # Its number had been corrected before.
    assert linked([row(6, edition=(21, 1), pmcid=40), *deleted], [40, 50]) == {
        40: articles.NO_PMID | 40,
        50: 6,
    }


def test_a_plain_reading_of_the_rule_agrees():
    """Each article replayed, file after file, as NLM tells users to do."""
    rng = random.Random(0)
    rows = [
        row(
            rng.randrange(60),
            rng.choice([1, 1, 1, 2, 3]),
            (rng.randrange(20, 23), rng.randrange(4)),
            deleted=rng.random() < 0.2,
        )
        for _ in range(1000)
    ]
    current: dict[int, dict[int, int]] = {}
    for key, version, _, _, _, _, place, *_, deleted in sorted(
        rows, key=lambda r: (r[2], r[3], r[6])
    ):
        current.setdefault(key, {}).pop(version, None)
        if not deleted:
            current[key][version] = place
    expected = {there[max(there)] for there in current.values() if there}

    shuffled = rows.copy()
    rng.shuffle(shuffled)
    decided = versions.newest(np.array(shuffled, versions.ROW))
    assert {int(r["row"]) for r in decided if r["reason"] == 0} == expected
    assert len(decided) == sum(not r[-1] for r in rows)
    assert decided.tobytes() == versions.newest(np.array(rows, versions.ROW)).tobytes()


def test_the_later_of_two_files_wins_whatever_its_row():
    rows = np.zeros(2, versions.ROW)
    rows["key"], rows["version"], rows["unit"], rows["row"] = 1, 1, [0, 1], [5, 2]
    decided = versions.newest(rows)
    assert [versions.VERDICTS[reason] for reason in decided["reason"]] == ["superseded", ""]
