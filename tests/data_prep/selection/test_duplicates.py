"""Near-duplicates against exact Jaccard similarities of sets, on real abstracts."""

import itertools

import numpy as np
import pytest
import scipy.stats

from data_prep.readers import input_files, pubmed
from data_prep.selection import articles, duplicates, fingerprints
from tests import shipped_citations


def ranked_rows(words, order, unit, row):
    made = duplicates.rows(words, unit, row)
    made["order"] = order
    return made


def rows_of(texts):
    """Makes the rows of PubMed abstracts, each known by (0, its PMID)."""
    return np.concatenate(
        [ranked_rows(fingerprints.words(text), pmid, 0, pmid) for pmid, text in texts.items()]
    )


@pytest.fixture(scope="module")
def citations():
    """The first 1,500 abstracts of each shipped file, newest versions only: {pmid: text}."""
    texts = {}
    for path in input_files.shipped_files(".xml.gz"):
        result = (citation for citation in pubmed.read_citations(path) if citation.sections)
        for citation in itertools.islice(result, 1500):
            texts[int(citation.pmid)] = " ".join(text for *_, text in citation.sections)
    return texts


@pytest.fixture(scope="module")
def words(citations):
    return {pmid: fingerprints.words(text) for pmid, text in citations.items()}


@pytest.fixture(scope="module")
def rows(citations):
    """Rows with copies among them, so that there is something to find."""
    texts = dict(citations)
    for pmid in list(citations)[::10]:
        texts[pmid + 10**8] = citations[pmid]
        texts[pmid + 2 * 10**8] = citations[pmid].replace(" and ", " & ")
    return rows_of(texts)


def jaccard(one, other):
    """Computes the reference with Python sets of tuples."""
    one, other = ({tuple(w[i : i + 5]) for i in range(len(w) - 4)} for w in map(list, (one, other)))
    return len(one & other) / len(one | other) if one | other else 0.0


def found_in(texts):
    """Returns {index: (index of the better one, exact)} of some texts, the first the best."""
    rows = [ranked_rows(fingerprints.words(t), i, 0, i) for i, t in enumerate(texts)]
    result = duplicates.find(np.concatenate(rows))
    return {int(f["row"]): (int(f["better_row"]), bool(f["exact"])) for f in result}


def edited(words, target, rng):
    """Replaces, removes or inserts words while the text stays similar enough."""
    now = list(words)
    while True:
        place, kind = rng.integers(len(now)), rng.integers(3)
        new = [int(rng.integers(2**63))] if kind != 1 else []
        changed = [*now[:place], *new, *now[place + (kind != 0) :]]
        if jaccard(words, changed) < target:
            return np.array(now, np.uint64)
        now = changed


def probability(similarity):
    """Computes the odds of a band in common and a sketch that agrees in enough of 128 slots."""
    band = 1 - (1 - similarity**3) ** 6
    least = np.ceil(128 * (0.25 + 0.75 * duplicates.THRESHOLD))
    return band * scipy.stats.binom.sf(least - 1, 128, similarity + (1 - similarity) / 4)


def test_detection_by_similarity(words):
    """How many edited copies of real abstracts are found, by their exact similarity."""
    rng = np.random.default_rng(1)
    long = [w for w in itertools.islice(words.values(), 0, None, 6) if w.size >= 100][:250]
    for target in (0.95, 0.9, 0.8, 0.75, 0.7, 0.6, 0.5):
        rows, exact = [], []
        for unit, original in enumerate(long):
            copy = edited(original, target, rng)
            exact.append(jaccard(original, copy))
            rows.append(ranked_rows(original, 0, unit, 0))
            rows.append(ranked_rows(copy, 1, unit, 1))
        result = len(duplicates.find(np.concatenate(rows))) / len(long)
        chances = probability(np.array(exact))
        print(
            f"similarity {np.mean(exact):.3f}: found {result:.3f}, by theory {chances.mean():.3f}"
        )
        # 4 standard errors, and one copy for the slots' not being quite independent.
        margin = 4 * np.sqrt(np.sum(chances * (1 - chances))) / len(long) + 1 / len(long)
        assert abs(result - chances.mean()) <= margin
    # What the choice of bands and slots promises.
    assert np.all(probability(np.array([0.95, 0.9, 0.8])) >= (0.999, 0.999, 0.95))
    assert probability(np.array(0.5)) < 1e-4


def test_edits_that_publishers_make(citations):
    """Copies of real abstracts with labels put in, spelling changed, and the end cut off."""
    texts = [t for t in citations.values() if len(t.split()) > 150][:200]
    labels = ("BACKGROUND: ", "METHODS: ", "RESULTS: ", "CONCLUSIONS: ")

    def labelled(text):
        sentences = text.split(". ")
        places = [0, len(sentences) // 4, len(sentences) // 2, len(sentences) - 1]
        for place, label in zip(places, labels, strict=True):
            sentences[place] = label + sentences[place]
        return ". ".join(sentences)

    def cut(text):
        return " ".join(text.split()[: int(len(text.split()) * 0.9)])

    def retokenised(text):
        return text.replace("-", " - ").replace("(", " ( ").replace(",", " ,").upper()

    share = {
        edit.__name__: sum(1 in found_in([t, edit(t)]) for t in texts) / len(texts)
        for edit in (labelled, cut, retokenised)
    }
    print(share)
    assert share["retokenised"] == 1
    assert share["cut"] >= 0.98
    assert share["labelled"] >= 0.98


def test_order_and_partition_do_not_matter(rows):
    whole = duplicates.find(rows)
    assert len(whole) > 400
    shuffled = rows[np.random.default_rng(2).permutation(len(rows))]
    assert duplicates.find(shuffled).tobytes() == whole.tobytes()
    for partitions in (2, 7):
        parts = [
            duplicates.find(shuffled[shuffled["key"] % np.uint64(partitions) == i])
            for i in range(partitions)
        ]
        assert duplicates.merge(parts[::-1]).tobytes() == whole.tobytes()


def test_rows_that_come_twice_change_nothing(rows):
    some = rows[:30_000]
    assert (
        duplicates.find(np.concatenate([some, some])).tobytes() == duplicates.find(some).tobytes()
    )


def test_the_better_one_stays():
    text = "Protein kinase inhibitors in the treatment of chronic lymphocytic leukaemia: a review."
    words = fingerprints.words(text)
    keys = np.array([5, 300, articles.NO_PMID | 4, 20], np.uint64)
    orders = duplicates.order(np.array([False, True, False, True]), keys)
    # PubMed's before PMC's, and of each the smaller PMID; one without a PMID is the last.
    assert np.argsort(orders).tolist() == [3, 1, 0, 2]
    rows = [ranked_rows(words, order, 0, row) for row, order in enumerate(orders)]
    result = duplicates.find(np.concatenate(rows))
    assert [(f["row"], f["better_row"], f["exact"]) for f in result] == [
        (row, 3, 1) for row in range(3)
    ]


def test_a_text_that_only_a_dropped_one_resembles_stays():
    """In a bucket b goes for a's sake; c is like b, but not like a."""
    a, b, c = rows = np.zeros(3, duplicates.ROW)
    rows["row"] = rows["text"] = range(3)
    b["sketch"][0] = c["sketch"][0] = 0x5555555555  # 20 slots of 128
    c["sketch"][1] = 0x5555555555
    assert duplicates.similarity(b["sketch"][None], c["sketch"][None]) > duplicates.THRESHOLD
    assert duplicates.similarity(a["sketch"][None], c["sketch"][None]) < duplicates.THRESHOLD
    for order in itertools.permutations(range(3)):
        result = duplicates.find(rows[list(order)])
        assert [(f["row"], f["better_row"]) for f in result] == [(1, 0)]


def test_short_and_empty_texts_are_only_ever_the_same():
    texts = ["Not available.", "not available", "Not available here.", "", " . ", "available not"]
    assert found_in(texts) == {1: (0, True), 4: (3, True)}


def test_huge_buckets(words):
    """200,000 times one sentence, and 20,000 texts of one key that are all unlike."""
    sentence = fingerprints.words("An abstract is not available for this article.")
    one = duplicates.rows(sentence, 0, 0)
    rows = np.tile(one, 200_000)
    rows["row"] = np.repeat(np.arange(200_000), one.size)
    result = duplicates.find(rows)
    assert result["exact"].all() and result["row"].tolist() == list(range(1, 200_000))
    assert not result["better_row"].any()

    unlike = np.zeros(20_000, duplicates.ROW)
    unlike["row"] = unlike["text"] = np.arange(20_000)
    unlike["sketch"] = np.random.default_rng(3).integers(0, 2**63, (20_000, 4))
    assert len(duplicates.find(unlike)) == 0


def test_nothing_in_nothing_out():
    assert duplicates.find(np.zeros(0, duplicates.ROW)).dtype == duplicates.DUPLICATE
    assert len(duplicates.merge([])) == 0


def test_merge_prefers_exact():
    result = np.array(
        [(0, 1, 0, 9, False), (0, 1, 0, 8, False), (0, 1, 5, 5, True)], duplicates.DUPLICATE
    )
    for order in itertools.permutations(range(3)):
        merged = duplicates.merge([result[[i]] for i in order])
        assert merged.tolist() == [(0, 1, 5, 5, True)]


def test_rows_are_the_same_in_another_process(said_in_new_processes):
    program = (
        "from data_prep.selection import duplicates as d\n"
        "from data_prep.selection import fingerprints as f\n"
        "w = f.words('Effects of TNF-α and IL-2 on naïve T cells, in vitro: a study.')\n"
        "print(d.rows(w, 2, 3).tobytes().hex())\n"
    )
    assert len(said_in_new_processes(program)) == 1


@pytest.mark.slow
def test_what_real_abstracts_yield(tmp_path_factory):
    words = {}
    for citation in shipped_citations.read(tmp_path_factory):
        if citation.sections:
            text = " ".join(text for *_, text in citation.sections)
            words[int(citation.pmid)] = fingerprints.words(text)
    rows = [ranked_rows(of_text, pmid, 0, pmid) for pmid, of_text in words.items()]
    result = duplicates.find(np.concatenate(rows))
    pairs = {(int(f["better_row"]), int(f["row"])): bool(f["exact"]) for f in result}
    # Read: a journal's two languages, the same words printed twice.
    assert pairs[(33383019, 34088475)] and pairs[(402568, 402569)]
    # The same article, edited a little: "8.-" beside "8", corrected spelling.
    assert not pairs[(33272845, 34090636)] and not pairs[(403592, 403593)]
    # Different articles, much alike: two components, two tissues, parts I and II.
    dropped = {row for _, row in pairs}
    assert dropped.isdisjoint({406329, 407036, 410232, 411329, 402901, 402902, 34088007, 34088008})
    for (better, row), exact in pairs.items():
        assert better < row
        if exact:
            assert words[better].tolist() == words[row].tolist()
        else:
            assert jaccard(words[better], words[row]) > 0.55
    # Every pair of the same words is found: by a dictionary.
    same = {}
    for pmid in sorted(words):
        same.setdefault(words[pmid].tobytes(), []).append(pmid)
    expected = {(group[0], later) for group in same.values() for later in group[1:]}
    assert expected == {pair for pair, exact in pairs.items() if exact}
    assert len(expected) >= 20
