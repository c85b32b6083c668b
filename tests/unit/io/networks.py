"""Small networks, random ones, and the published ones that come with pgmpy, if it is installed."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from dissonance.arc import Arc
from dissonance.cpds import Factor
from dissonance.focus import Attention, Focus
from dissonance.pdg import PDG
from dissonance.variables import Variable

BIF = """// a patient
network "a clinic" { property version 1; property "author somebody"; }
variable Asia { type discrete [ 2 ] { yes, no }; property "x = 12"; }
variable Tub { /* the illness */ type discrete[2] { yes no }; }
variable "X ray" { type discrete [ 3 ] { <5, 5-12, "12 or more" }; }
probability ( Asia ) { table 0.01, 0.99; }
probability ( Tub | Asia ) {
  (no) 0.01, 0.99;
  (yes) 0.05, 0.95;
}
probability ( "X ray" | Tub, Asia ) {
  default 0.2, 0.3, 0.5;
  (yes, no) 0.9 /* often */ 0.1, 0;
}
"""
XMLBIF = """<?xml version="1.0" encoding="US-ASCII"?>
<!DOCTYPE BIF [ <!ELEMENT BIF ( NETWORK )*> ]>
<BIF VERSION="0.3"><NETWORK><NAME>clinic</NAME>
<VARIABLE TYPE="nature"><NAME>Asia</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>Tub</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME>
  <PROPERTY>position = (1, 2)</PROPERTY></VARIABLE>
<VARIABLE TYPE="nature"><NAME>X &lt; ray</NAME><OUTCOME>a</OUTCOME><OUTCOME>b</OUTCOME><OUTCOME>c</OUTCOME></VARIABLE>
<DEFINITION><FOR>Asia</FOR><TABLE>0.01 0.99</TABLE></DEFINITION>
<DEFINITION><FOR>Tub</FOR><GIVEN>Asia</GIVEN><TABLE>0.05 0.95 <!-- abroad --> 0.01 0.99</TABLE></DEFINITION>
<DEFINITION><FOR>X &lt; ray</FOR><GIVEN>Tub</GIVEN><GIVEN>Asia</GIVEN>
  <TABLE>.2 .3 .5  .9 .1 0  .2 .3 .5  .2 .3 .5</TABLE></DEFINITION>
</NETWORK></BIF>
"""
UAI = """BAYES
3
2 2 3
3
1 0  # x0
2 0 1
3 1 0 2
2 0.01 0.99
4 0.05 0.95 0.01 0.99
12
 .2 .3 .5
 .9 .1 0
 .2 .3 .5
 2e-1 3e-1 5e-1
"""
MARKOV = "MARKOV\n3\n2 2 3\n2\n2 0 1\n2 1 2\n\n4\n 1 7 3 0\n6\n 1 2 3 0.5 0.25 4\n"
TEXTS = {"bif": BIF, "xmlbif": XMLBIF, "uai": UAI, "markov.uai": MARKOV}

TUB = [[0.05, 0.95], [0.01, 0.99]]
XRAY = [[[0.2, 0.3, 0.5], [0.9, 0.1, 0.0]], [[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]]]


def published() -> dict[str, Path]:
    """The BIF files of the pgmpy wheel by name; none if it is not installed. pgmpy itself is not imported."""
    try:
        files = metadata.files("pgmpy") or []
    except metadata.PackageNotFoundError:
        return {}
    found = {f.name.removesuffix(".bif.gz"): Path(str(f.locate())) for f in files if f.name.endswith(".bif.gz")}
    return {name: path for name, path in sorted(found.items()) if path.is_file()}


NETWORKS = published()
needs_networks = pytest.mark.skipif(not NETWORKS, reason="the networks of pgmpy: pip install --no-deps pgmpy")


def tables(pdg: PDG) -> dict[str, np.ndarray]:
    """The table of every arc by name."""
    return {a.name: a.cpd.table().detach().numpy() for a in pdg}


def assert_same(one: PDG, other: PDG) -> None:
    """The same variables, labels, arcs, scopes and numbers, bit for bit and in the same order."""
    assert one.variables == other.variables
    assert [str(a) for a in one] == [str(a) for a in other]
    assert [a.scope for a in one] == [a.scope for a in other]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.cpd.table().detach().numpy(), b.cpd.table().detach().numpy())


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters='"'))
names = words.map(str.strip).filter(bool) | st.sampled_from(["table", "default", "yes", "1", "a/b", "//", "/*", "0.5"])


@st.composite
def domains(draw: st.DrawFn) -> int | list[str]:
    """A size, or labels; some look like numbers."""
    size = draw(st.integers(1, 4))
    if draw(st.booleans()):
        return size
    counted = [str(i) for i in range(size)]
    return draw(st.just(counted) | st.lists(names, min_size=size, max_size=size, unique=True))


def _rows(rng: np.random.Generator, shape: list[int]) -> np.ndarray:
    table = rng.gamma(0.3, size=shape) * (rng.random(shape) < 0.8)
    table[..., 0] += table.sum(-1) == 0
    return table / table.sum(-1, keepdims=True)


@st.composite
def bayesian_networks(draw: st.DrawFn) -> PDG:
    """A random Bayesian network: any names, any labels, zeros and tiny numbers in its tables, arcs in any order."""
    called = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    variables = [Variable(n, draw(domains())) for n in called]
    order = draw(st.permutations(variables))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spare = draw(st.lists(names, min_size=len(order), max_size=len(order), unique=True))
    own_names = draw(st.booleans())
    arcs: list[Arc] = []
    for i, v in enumerate(order):
        parents = draw(st.lists(st.sampled_from(order[:i]), max_size=3, unique=True)) if i else []
        table = _rows(rng, [u.size for u in (*parents, v)])
        arcs.append(Arc(v.name if own_names else spare[i], parents, v, table))
    return PDG(*draw(st.permutations(arcs)), variables=variables)


@st.composite
def factor_graphs(draw: st.DrawFn) -> tuple[PDG, Focus]:
    """A random factor graph, named as UAI names one."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    variables = [Variable(f"x{i}", k) for i, k in enumerate(sizes)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    arcs: list[Arc] = []
    for i in range(draw(st.integers(1, 5))):
        scope = draw(st.lists(st.sampled_from(variables), min_size=1, max_size=3, unique=True))
        phi = rng.gamma(0.3, size=[v.size for v in scope]) * 10.0 ** rng.integers(-5, 6)
        phi.flat[0] += 1e-3
        arcs.append(Arc(f"phi{i + 1}", (), scope, Factor(phi)))
    pdg = PDG(*arcs, variables=variables)
    return pdg, Focus(Attention.uniform(pdg, gamma=1.0))
