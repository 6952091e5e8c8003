"""How long a run takes and what memory it needs, before it is begun."""
