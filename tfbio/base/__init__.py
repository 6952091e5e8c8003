"""Command lines, files, shards, and the loader of settings: what everything else stands on."""
