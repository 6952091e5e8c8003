"""Drops raised citation numbers and footnote marks from the text of PMC's articles.

Beside its word such a mark would be read as part of it ("shown1,2").
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container

from lxml import etree

_MARKS = ("bibr", "fn", "table-fn")
# The characters that may stand between two marks, and beside them in one superscript.
_BETWEEN = re.compile(r"[\s,;\u2010-\u2015\u2212-]*")
_BESIDES = re.compile(r"[\s,;:.()\[\]\u2010-\u2015\u2212-]*")
# The last character of a word or of the sign behind it.
_ENDS = re.compile(r"[\w.,;:?!%)\]]")
_NOTE_MARK = re.compile(r"\s*(?:[\d,\u2010-\u2015-]+|[a-z]{1,2}|[^\w\s]{1,3})\s*")
# A mark that is no year, and no letter.
_SHORT_MARK = re.compile(r"\s*(?:\d{1,3}(?:[,\u2010-\u2015-]\d{1,3})*|[^\w\s]{1,3})\s*")
# The signs behind a word, not behind a number: "0.5" is one.
_SIGNS = re.compile(r"[^\W\d_][.,;?!)\u201d\u2019\"]+\Z")
# Words whose sign does not end them: the number behind them is text.
_LEADS = re.compile(
    r"\b(?:refs?|references?|nos?|eqs?|figs?|pp?|vols?|e\.g|i\.e|cf|see|by|in)[.,]+\Z", re.I
)
# Enough characters for these, and enough elements to have them.
_LEFT = 16
# Brackets around more marks stay: the work would grow with the square of their number.
_MOST_IN_BRACKETS = 200
_BRACKETS = {"(": ")", "[": "]"}


def drop_marks(part: etree._Element) -> None:
    """Empties raised citation numbers and footnote marks, and what separates them, in PMC's XML.

    Puts a space where nothing but a mark parted two words. Returns nothing.

    Args:
      part: an element of a PMC article; it is changed in place.
    """
    dropped = _empty_marks(part)
    for mark in dropped:
        _close_gap(mark, dropped)
    for mark in dropped:
        _drop_brackets(mark)
    if dropped:
        _part_words(part, dropped)


def _empty_marks(part: etree._Element) -> dict[etree._Element, None]:
    """Empties the marks, and the superscripts that held only marks; returns the emptied elements.

    Returns:
      The elements as keys, in order: those in line first, then the superscripts.
    """
    dropped: dict[etree._Element, None] = {}
    raised: dict[etree._Element, None] = {}  # superscripts with marks, in order
    for xref in list(part.iter("xref")):
        if xref.get("ref-type") not in _MARKS or part not in xref.iterancestors():
            continue  # the latter: it was in a mark that is empty now
        sup = next(xref.iterancestors("sup", "p"), None)
        if sup is not None and sup.tag == "sup":
            xref.clear(keep_tail=True)
            raised[sup] = None
        elif _holds_only_sup(xref) or _is_glued(xref, dropped) or _follows_sign(xref):
            xref.clear(keep_tail=True)
            dropped[xref] = None
    for sup in raised:
        if _BESIDES.fullmatch("".join(sup.itertext())):
            sup.clear(keep_tail=True)
            dropped[sup] = None
    return dropped


def _close_gap(mark: etree._Element, dropped: Container[etree._Element]) -> None:
    """Removes the characters between an emptied mark and the mark or the text before it."""
    before, between = mark.getprevious(), None
    if before is not None and before.tag == "sup" and before not in dropped:
        before, between = before.getprevious(), before
    if before in dropped and _BETWEEN.fullmatch(_text_after(before, between)):
        before.tail = None
        if between is not None:
            between.clear()
    elif (mark.tail or "")[:1] in tuple(".,;:)"):  # "shown <sup>1</sup>."
        if before is None:
            parent = mark.getparent()
            parent.text = (parent.text or "").rstrip()
        elif between is None:
            before.tail = (before.tail or "").rstrip()


def _drop_brackets(mark: etree._Element) -> None:
    """Removes brackets around emptied marks, in the text or in superscripts beside them."""
    right, after = (mark, "tail"), mark.getnext()
    if not mark.tail and after is not None and after.tag == "sup":
        right = (after, "text")
    closing = (getattr(*right) or "").lstrip()
    if closing[:1] not in (")", "]"):
        return  # else the work would grow with the square of the number of marks
    first, before = mark, mark.getprevious()
    for _ in range(_MOST_IN_BRACKETS):
        if before is None or before.tail or _text_of(before):
            break
        first, before = before, before.getprevious()
    left = (first.getparent(), "text")
    if before is not None:
        left = (before, "tail" if before.tail or before.tag != "sup" else "text")
    opening = (getattr(*left) or "").rstrip()
    if _BRACKETS.get(opening[-1:]) == closing[0]:
        setattr(*left, opening[:-1].rstrip())
        setattr(*right, closing[1:])


def _text_of(element: etree._Element) -> str:
    return "".join(element.itertext())


def _text_after(element: etree._Element, sup: etree._Element | None) -> str:
    """Returns the text after an element, to the end of the text after a superscript, if any."""
    text = element.tail or ""
    if sup is not None:
        text += "".join(sup.itertext()) + (sup.tail or "")
    return text


def _part_words(part: etree._Element, dropped: Container[etree._Element]) -> None:
    """Puts a space where nothing but an emptied mark parted two words."""
    last, after_mark = "", False
    for event, element in etree.iterwalk(part, events=("start", "end")):
        if event == "end" and element is part:
            break  # its tail is not its text
        after_mark |= event == "start" and element in dropped
        attribute = "text" if event == "start" else "tail"
        if content := getattr(element, attribute):
            if after_mark and _ENDS.fullmatch(last) and content[0].isalnum():
                setattr(element, attribute, f" {content}")
            last, after_mark = content[-1], False


def _holds_only_sup(xref: etree._Element) -> bool:
    """Returns True if a reference holds superscripts, and no other text or markup."""
    return (
        len(xref) > 0
        and not (xref.text or "").strip()
        and all(child.tag == "sup" and not (child.tail or "").strip() for child in xref)
    )


def _is_glued(xref: etree._Element, dropped: Container[etree._Element]) -> bool:
    """Returns True for a number or sign that follows a word, or separators behind a mark."""
    before = xref.getprevious()
    if before is None:
        left = xref.getparent().text or ""
    else:
        left = before.tail or "".join(before.itertext())
    in_list = before in dropped and _BETWEEN.fullmatch(left) is not None
    glued = left[-1:].isalnum() or in_list
    return glued and _NOTE_MARK.fullmatch("".join(xref.itertext())) is not None


def _follows_sign(xref: etree._Element) -> bool:
    """Returns True for a number or sign that follows a word's full stop, comma or the like."""
    if not _SHORT_MARK.fullmatch(_text_of(xref)):
        return False
    if (xref.tail or "").lstrip()[:1] in tuple(")]"):  # "(Smith et al.,2)"
        return False
    siblings = list(itertools.islice(xref.itersiblings(preceding=True), _LEFT))
    left = "".join(_text_of(before) + (before.tail or "") for before in reversed(siblings))
    if len(siblings) < _LEFT:
        left = (xref.getparent().text or "") + left
    left = left[-_LEFT:]
    return _SIGNS.search(left) is not None and not _LEADS.search(left)
