"""Golden numbers: what the library answered, path by path, before the redesign of its inside."""
