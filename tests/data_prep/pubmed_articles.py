"""Makes PubMed's citations as text."""


def article(pmid, title, abstract=None):
    abstract = f"It is so of {title}. It was shown." if abstract is None else abstract
    text = f"<Abstract><AbstractText>{abstract}</AbstractText></Abstract>" if abstract else ""
    return (
        f"<PubmedArticle><MedlineCitation><PMID>{pmid}</PMID><Article>"
        f"<ArticleTitle>{title}</ArticleTitle>{text}</Article></MedlineCitation></PubmedArticle>"
    )


def article_set(path, *parts):
    path.write_text(f"<PubmedArticleSet>{''.join(parts)}</PubmedArticleSet>", encoding="utf-8")
    return str(path)
