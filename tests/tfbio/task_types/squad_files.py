"""Writes files in SQuAD's form."""

import json


def squad(path, contexts, name="q"):
    """A SQuAD file with two questions on each context, of which the second has no answer."""
    paragraphs = [
        {
            "context": f"Context {number} of {name}.",
            "qas": [
                {
                    "id": f"{name}{number}",
                    "question": "Which?",
                    "answers": [{"text": f"{number}", "answer_start": 8}],
                },
                {"id": f"{name}{number}-none", "question": "Why?", "answers": []},
            ],
        }
        for number in range(contexts)
    ]
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
