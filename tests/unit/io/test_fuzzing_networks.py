"""Damaged files of every text format: each is a valid model or is refused in one line, and neither takes long."""

from __future__ import annotations

import io
import re
import time

import numpy as np
import pytest
import torch
from networks import TEXTS
from test_fuzzing import TEXT as JSON

from dissonance.errors import FormatError
from dissonance.io import load, load_evidence
from dissonance.pdg import PDG

SOURCES = {name: text.encode() for name, text in TEXTS.items()} | {"json": JSON, "evid": b"2 0 1 2 2\n"}
TOKEN = re.compile(rb"\w+(?:\.\w+)?|\s+|[^\w\s]")
WORDS = [*rb'nan inf -1 1e999 999999999 } { ( ; " /* // < &x;'.split(), b"", b"\0", b"\xff"]
SECONDS = 2.0
"""The limit for one case; a file of this size takes milliseconds."""


def damaged(rng: np.random.Generator, source: bytes) -> bytes:
    """The source cut short, with bytes changed, or with tokens swapped, dropped, doubled or replaced."""
    how = int(rng.integers(4))
    if how == 0:
        return source[: int(rng.integers(len(source)))]
    if how == 1:
        content = bytearray(source)
        for where in rng.integers(len(source), size=int(rng.integers(1, 6))):
            content[where] = (
                int(rng.integers(256)) if rng.random() < 0.5 else content[where] ^ (1 << int(rng.integers(8)))
            )
        return bytes(content)
    tokens = TOKEN.findall(source)
    for _ in range(int(rng.integers(1, 4))):
        i, j = (int(k) for k in rng.integers(len(tokens), size=2))
        if how == 2:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        else:
            tokens[i] = [b"", tokens[i] * 2, tokens[j], WORDS[int(rng.integers(len(WORDS)))]][int(rng.integers(4))]
    return b"".join(tokens)


def check_model(pdg: PDG) -> None:
    """Every table has the shape of its scope, and rows that are distributions."""
    for a in pdg:
        p = a.cpd.table()
        assert tuple(p.shape) == tuple(v.size for v in a.scope)
        assert torch.isfinite(p).all() and (p >= 0).all()
        sums = p.reshape(*[v.size for v in a.sources], -1).sum(-1)
        assert float((sums - 1).abs().max()) < 1e-9


def fuzz(cases: int, seed: int) -> dict[str, int]:
    """How many of the cases were read and how many refused; fails if anything else happens."""
    rng = np.random.default_rng(seed)
    model, _ = load(io.BytesIO(SOURCES["uai"]))
    counts = {"read": 0, "refused": 0}
    for i in range(cases):
        name = list(SOURCES)[i % len(SOURCES)]
        content = damaged(rng, SOURCES[name])
        began = time.process_time()
        try:
            if name == "evid":
                seen = load_evidence(io.BytesIO(content), model)
                assert all(x in model.variable(v).finite.labels for v, x in seen.items())
            else:
                known = rng.random() < 0.5  # by name, or by what the damaged file looks like
                pdg, focus = load(io.BytesIO(content), format=name.split(".")[-1] if known else None)
                check_model(pdg)
                focus.check(pdg)
            counts["read"] += 1
        except FormatError as error:
            assert len(str(error).splitlines()) == 1 and str(error).startswith("the input:"), content
            assert len(str(error)) > len("the input: ") + 5
            counts["refused"] += 1
        except Exception as error:
            pytest.fail(f"{type(error).__name__}: {error} for {name}: {content!r}")
        assert time.process_time() - began < SECONDS, content
    return counts


def test_ten_thousand_damaged_files_are_read_or_refused():
    counts = fuzz(10_000, seed=2)
    assert counts["refused"] > counts["read"] > 0


@pytest.mark.parametrize("name", SOURCES)
def test_every_truncation_is_read_or_refused(name: str):
    """Cutting a file short leaves a model only if nothing but space or a closing bracket is gone."""
    source = SOURCES[name].rstrip()
    model, _ = load(io.BytesIO(SOURCES["uai"]))
    for length in range(len(source)):
        with pytest.raises(FormatError):
            if name == "evid":
                load_evidence(io.BytesIO(source[:length]), model)
            else:
                load(io.BytesIO(source[:length]), format=name.split(".")[-1])
