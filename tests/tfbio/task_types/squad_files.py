"""Writes files in SQuAD's form."""

import json


def squad(path, contexts, name="q", answered=False):
    """A SQuAD file with two questions on each context, of which the second may have no answer."""
    paragraphs = [
        {
            "context": f"Context {number} of {name}.",
            "qas": [
                {"id": f"{name}{number}", "question": "Which?", "answers": [answer]},
                {
                    "id": f"{name}{number}-none",
                    "question": "Why?",
                    "answers": [answer] if answered else [],
                },
            ],
        }
        for number, answer in enumerate(
            {"text": f"{number}", "answer_start": 8} for number in range(contexts)
        )
    ]
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
