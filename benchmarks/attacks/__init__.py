"""Attacks on the library: each is a generator of failures, one None for everything that went right."""
