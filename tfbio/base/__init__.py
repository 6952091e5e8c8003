"""The base of all other rooms: command lines, files, shards, and the loader of settings."""
