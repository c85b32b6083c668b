"""A step on a large PDG looks at its focus only, and is resumed bit for bit from what was appended."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from dissonance import PDG, Arc, Attention, Control, Focus, SoftmaxTable, Table, Variable, lir, lirs
from dissonance.errors import FormatError
from dissonance.flows import Descent
from dissonance.lir import run as engine
from dissonance.refocus import Cycle, Hub
from dissonance.runs import Record

QUIET = Record(globally=False)


def chain(n: int = 60, seed: int = 0, tied: bool = False) -> PDG:
    """A chain with a belief about every variable and one from each to the next; `tied`: these share a table."""
    generator = torch.Generator().manual_seed(seed)

    def table(*shape: int) -> SoftmaxTable:
        return SoftmaxTable(logits=torch.randn(*shape, generator=generator, dtype=torch.float64))

    x = [Variable(f"X{i}", 2 + i % 2) for i in range(n)]
    unary = [Arc(f"u{i}", (), v, table(v.size)) for i, v in enumerate(x)]
    shared = table(2, 3)
    pairs = [
        Arc(f"e{i}", x[i], x[i + 1], shared if tied and i % 2 == 0 else table(x[i].size, x[i + 1].size))
        for i in range(n - 1)
    ]
    return PDG(*unary, *pairs)


def foci(gamma: float = 0.0, chi: float = 1.0, count: int = 5) -> Cycle:
    """Foci of four arcs that overlap, one of them fixed."""
    found: list[Focus] = []
    for i in range(10, 10 + count):
        names = [f"u{i}", f"e{i}", f"u{i + 1}", f"e{i + 1}"]
        found.append(
            Focus(
                Attention.only(dict.fromkeys(names, 1.0), dict.fromkeys(names, 0.5), gamma),
                Control(dict.fromkeys(names[:3], chi)),
            )
        )
    return Cycle(*found)


def on_the_whole(monkeypatch: pytest.MonkeyPatch, *args: Any, **options: Any) -> Any:
    with monkeypatch.context() as m:
        m.setattr(engine, "MANY", 10**9)
        return lir(*args, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"refocus": foci()},
        {"refocus": foci(gamma=0.3)},
        {"refocus": foci(chi=math.inf)},
        {"refocus": foci(), "flow": "adam"},
        {"refocus": foci(), "flow": "ode"},
        {"refocus": foci(), "solver": "newton"},
    ],
    ids=["natural", "gamma", "full control", "adam", "ode", "newton"],
)
@pytest.mark.filterwarnings("ignore:a controlled arc")
def test_a_local_step_is_the_step_on_the_whole(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    pdg = chain()
    local, whole = (
        lir(pdg, steps=6, trace=QUIET, **options),
        on_the_whole(monkeypatch, pdg, steps=6, trace=QUIET, **options),
    )
    for a, b in zip(local.trace.rows, whole.trace.rows, strict=True):
        assert a.beta == b.beta and a.chi == b.chi and a.gamma == b.gamma
        assert a.local_upper == pytest.approx(b.local_upper, abs=1e-5, nan_ok=True)
        assert a.tv_theta == pytest.approx(b.tv_theta, abs=1e-5)
    for key, x in whole.theta.items():
        assert torch.allclose(local.theta[key].softmax(-1), x.softmax(-1), atol=3e-4), key


def test_a_hub_is_the_same_variable_with_the_same_inconsistency(monkeypatch: pytest.MonkeyPatch):
    pdg = chain()  # only the first step: of several minimisers mu another may be found, and theta go elsewhere
    for seed in range(20):
        options: dict[str, Any] = {"seed": seed, "steps": 1, "trace": QUIET}
        a, b = lir(pdg, Hub(), **options).trace.rows[0], on_the_whole(monkeypatch, pdg, Hub(), **options).trace.rows[0]
        assert a.beta == b.beta and a.local_upper == pytest.approx(b.local_upper, abs=2e-7)


def test_what_is_out_of_focus_is_not_touched():
    pdg = chain()
    run = lir(pdg, foci(), steps=5, trace=QUIET)
    moved = {key for key, x in run.theta.items() if not torch.equal(x, pdg.theta[key])}
    assert moved == {f"{kind}{i}.logits" for kind, last in (("u", 16), ("e", 15)) for i in range(10, last)}
    assert all(row.blame == {} and math.isnan(row.global_upper) for row in run.trace.rows)


def test_a_table_that_arcs_share_moves_everywhere():
    pdg = chain(tied=True)
    run = lir(pdg, foci(), steps=3, trace=QUIET)
    own = run.pdg["e10"].cpd
    assert run.pdg["e0"].cpd is own and not torch.equal(own.table(), pdg["e0"].cpd.table())
    rows = sum(math.prod(v.size for v in a.sources) for a in pdg)
    far = sum(0.5 * (run.pdg[a.name].cpd.table() - a.cpd.table()).abs().sum().item() for a in pdg)
    assert run.trace.rows[-1].tv_theta == pytest.approx(far / rows, rel=1e-12)


def test_the_distance_from_the_start_is_that_of_all_tables():
    pdg = chain()
    run = lir(pdg, Hub(), steps=20, trace=QUIET)
    rows = sum(math.prod(v.size for v in a.sources) for a in pdg)
    far = sum(0.5 * (run.pdg[a.name].cpd.table() - a.cpd.table()).abs().sum().item() for a in pdg)
    assert run.trace.rows[-1].tv_theta == pytest.approx(far / rows, rel=1e-12)


def test_many_runs_have_the_foci_of_each():
    pdgs = [chain(seed=0), chain(seed=1)]
    together = lirs(pdgs, [Hub(), foci()], seeds=[3, 4], steps=4, trace=QUIET)
    for run, pdg, refocus, seed in zip(together, pdgs, [Hub(), foci()], [3, 4], strict=True):
        alone = lir(pdg, refocus, seed=seed, steps=4, trace=QUIET)
        for key, x in alone.theta.items():
            assert torch.equal(run.theta[key], x), key


def test_a_run_goes_on_from_what_was_appended_bit_for_bit(tmp_path: Path):
    path, pdg = tmp_path / "run", chain(300)
    straight = lir(pdg, Hub(), steps=12, trace=QUIET)
    sizes: list[int] = []

    def watch(done: int, _: object) -> bool:
        sizes.append(path.stat().st_size)
        return done == 7

    lir(pdg, Hub(), steps=12, trace=QUIET, checkpoint=path, callbacks=[watch])
    grown = [b - a for a, b in pairwise(sizes)]
    assert all(0 < g < sizes[0] / 5 for g in grown)  # a part of it, not all of it again
    whole = path.read_bytes()
    for cut in (0, 1, 700, grown[-1] - 1):  # killed while the last step was appended
        path.write_bytes(whole[: len(whole) - cut])
        resumed = lir(pdg, Hub(), steps=12, trace=QUIET, checkpoint=path)
        assert all(torch.equal(resumed.theta[key], x) for key, x in straight.theta.items())
        same = ("beta", "chi", "local_lower", "local_upper", "tv_theta", "newton_steps")
        for a, b in zip(resumed.trace.rows, straight.trace.rows, strict=True):
            assert all(str(getattr(a, name)) == str(getattr(b, name)) for name in same)
    damaged = bytearray(whole)
    damaged[sizes[0] + 400] ^= 1  # in the first that was appended
    path.write_bytes(damaged)
    with pytest.raises(FormatError, match="damaged"):
        lir(pdg, Hub(), steps=12, trace=QUIET, checkpoint=path)


def test_a_fixed_table_is_part_of_a_focus_and_stays():
    pdg = chain()
    fixed = pdg.replace(Arc("u10", (), pdg.variable("X10"), Table([0.9, 0.1])))
    run = lir(fixed, foci(count=1), steps=3, trace=QUIET, control=Control({"e10": 1.0}), flow=Descent(steps=2))
    assert run.trace.rows[-1].tv_theta > 0
