"""Checkpoints: of another run, or damaged, they are refused in one line; nothing that decides a run is left out.

Their records continue each other, and one run at a time writes them.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from dissonance import PDG, Arc, Attention, Control, Focus, Record, SoftmaxTable, Table, Variable, lir, lirs
from dissonance.errors import DissonanceError, FormatError
from dissonance.flows import Descent
from dissonance.io import sealed
from dissonance.io.fingerprint import Fingerprint
from dissonance.refocus import Cycle, Hub, Partial, Smooth
from dissonance.runs import Run

X, Y = Variable("X", 2), Variable("Y", 2)
BIG = Variable("B", 1200)


def pdg(q: float = 0.2, back: bool = False, other: float = 0.3) -> PDG:
    """A table that may move, one that may not, and an arc either way between X and Y."""
    ends = (Y, X) if back else (X, Y)
    rows = [[0.7, 0.3], [0.4, 0.6]]
    return PDG(
        Arc("p", (), X, SoftmaxTable([0.9, 0.1])),
        Arc("q", (), X, Table([q, 1 - q])),
        Arc("r", *ends, SoftmaxTable(rows)),
        Arc("s", (), Y, Table([other, 1 - other])),
    )


def cycle(beta: float) -> Cycle:
    return Cycle(Focus(Attention.only({"p": 1.0, "q": beta}), Control({"p": 1.0})))


def by_lambda(weight: float) -> Callable[..., Focus]:
    return lambda pdg, step, generator, trace: Focus(Attention.only({"p": weight, "q": 1.0}), Control({"p": 1.0}))


RUNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a fixed table": ({}, {"pdg": pdg(other=0.4)}),
    "an arc the other way": ({}, {"pdg": pdg(back=True)}),
    "partial": ({"refocus": Partial(0.5)}, {"refocus": Partial(0.8)}),
    "hub": ({"refocus": Hub(0.1)}, {"refocus": Hub(0.2)}),
    "smooth": ({"refocus": Smooth(1.0)}, {"refocus": Smooth(2.0)}),
    "cycle": ({"refocus": cycle(1.0)}, {"refocus": cycle(2.0)}),
    "a closure": ({"refocus": by_lambda(1.0)}, {"refocus": by_lambda(2.0)}),
    "flow": ({"flow": Descent(steps=2)}, {"flow": Descent(steps=3)}),
    "options": ({"flow": Descent("SGD", options={"momentum": 0.5})}, {"flow": Descent("SGD")}),
    "seed": ({"seed": 1}, {"seed": 2}),
    "attention": ({}, {"attention": Attention.only({"p": 1.0, "q": 2.0, "r": 1.0, "s": 1.0})}),
}


def ran(path: Path, steps: int, pdg: PDG | None = None, **options: Any) -> Any:
    return lir(pdg or globals()["pdg"](), steps=steps, checkpoint=path, **options)


@pytest.mark.parametrize("case", RUNS)
def test_whatever_decides_a_run_is_part_of_what_its_checkpoint_is_of(case: str, tmp_path: Path):
    one, other = RUNS[case]
    ran(tmp_path / "run", 1, **one)
    with pytest.raises(FormatError, match="another run"):
        ran(tmp_path / "run", 2, **other)


def test_a_control_of_many_components_counts_to_the_last(tmp_path: Path):
    p = torch.full((BIG.size,), 1 / BIG.size)
    big = PDG(Arc("p", (), BIG, SoftmaxTable(p)), Arc("q", (), BIG, Table(p)))
    chi = torch.ones(BIG.size, dtype=torch.float64)
    lir(big, steps=1, checkpoint=tmp_path / "run", control=Control({"p": chi}))
    other = chi.clone()
    other[600] = 0.5
    with pytest.raises(FormatError, match="another run"):
        lir(big, steps=2, checkpoint=tmp_path / "run", control=Control({"p": other}))


def test_a_function_is_known_by_its_source_and_says_what_it_is_not_known_by(tmp_path: Path):
    ran(tmp_path / "run", 1, refocus=by_lambda(1.0))
    with pytest.warns(UserWarning, match=r"by_lambda.*cannot be checked"):
        ran(tmp_path / "run", 2, refocus=by_lambda(1.0))
    with pytest.raises(FormatError, match="another run"):
        ran(tmp_path / "run", 3, refocus=lambda pdg, step, generator, trace: trace.base)


def test_fewer_steps_than_were_done_are_refused(tmp_path: Path):
    ran(tmp_path / "run", 8)
    with pytest.raises(FormatError, match=r"has done 8 steps, and 3 are asked for\. Ask for 8 or more"):
        ran(tmp_path / "run", 3)
    assert ran(tmp_path / "run", 8).steps == 8


def test_theta_of_one_run_is_not_that_of_many(tmp_path: Path):
    pdgs = [pdg(0.2), pdg(0.4)]
    lirs(pdgs, steps=1, checkpoint=tmp_path / "run")
    state = sealed.read_state(tmp_path / "run", "a checkpoint")
    state["theta"] = {key: x[:1] for key, x in state["theta"].items()}
    sealed.write_state(tmp_path / "run", state)
    with pytest.raises(FormatError, match="parameters of other shapes"):
        lirs(pdgs, steps=2, checkpoint=tmp_path / "run")


def test_every_bit_flip_and_every_cut_is_noticed(tmp_path: Path):
    path = tmp_path / "run"
    ran(path, 1)
    whole, draw = path.read_bytes(), random.Random(0)
    for k in range(60):
        damaged = bytearray(whole)
        if k % 3:
            damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        else:
            del damaged[draw.randrange(len(whole)) :]
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"run: is (damaged|not a checkpoint)") as refused:
            ran(path, 2)
        assert "\n" not in str(refused.value)
    path.write_bytes(whole)
    assert ran(path, 2).steps == 2


def test_a_sealed_file_that_holds_no_state_is_refused_without_advice_to_run_it(tmp_path: Path):
    sealed.seal(tmp_path / "run", b"\x80\x04cos\nsystem\n.")
    with pytest.raises(DissonanceError) as refused:
        ran(tmp_path / "run", 1)
    assert "weights_only" not in str(refused.value) and "\n" not in str(refused.value)


def test_a_fingerprint_tells_values_apart_and_knows_equal_ones():
    same = [Fingerprint({"a": 1.0, "b": [torch.zeros(2), Partial(0.5)]}).hex() for _ in range(2)]
    assert same[0] == same[1]
    values: list[Any] = [1, 1.0, "1", [1], (1, 1), {"a": 1}, torch.ones(1), torch.ones(1, 1), torch.ones(1).double()]
    values += [None, Partial, Partial(0.5), abs, {1, 2}, random.Random, torch.float32]
    assert len({Fingerprint(x).hex() for x in values}) == len(values)
    shared = [torch.ones(2)]
    assert Fingerprint([shared, shared]).hex() != Fingerprint([shared, [torch.ones(2)]]).hex()


# -- records that continue each other, and one run at a time -----------------------------------------------------------

PAIRS = 60


def pairs() -> PDG:
    """Two beliefs about each of many variables: a focus on one variable is a small part, which is appended."""
    given = [(k, Variable(f"V{k}", 2), 0.2 + 0.01 * k) for k in range(PAIRS)]
    return PDG(
        *(Arc(f"{n}{k}", (), v, SoftmaxTable([q, 1 - q])) for k, v, p in given for n, q in (("a", p), ("b", 0.9)))
    )


def one_by_one(steps: int, path: Path | None = None, **options: Any) -> Run:
    """A run that looks at one variable after another."""
    names = [(f"a{k}", f"b{k}") for k in (0, 1, 0, 2, 1, 3, 2, 4)]
    foci = [Focus(Attention.only(dict.fromkeys(n, 1.0)), Control(dict.fromkeys(n, 0.5))) for n in names]
    return lir(pairs(), Cycle(*foci), steps=steps, trace=Record(globally=False), checkpoint=path, **options)


def records(path: Path) -> list[bytes]:
    """The records of a checkpoint, as they lie in the file."""
    whole = path.read_bytes()
    starts = [m.start() for m in re.finditer(re.escape(sealed.MAGIC), whole)]
    return [whole[a:b] for a, b in pairwise([*starts, len(whole)])]


def assert_same(one: Run, other: Run) -> None:
    assert one.trace.column("step") == other.trace.column("step")
    assert one.trace.column("local_upper")[:-1] == other.trace.column("local_upper")[:-1]
    assert all(torch.equal(x, other.theta[key]) for key, x in one.theta.items())


def test_records_that_were_removed_doubled_or_swapped_are_refused(tmp_path: Path):
    path = tmp_path / "run"
    one_by_one(5, path)
    held = records(path)
    assert len(held) == 5
    orders: Sequence[Sequence[int]]
    orders = [
        (0, 1, 3, 4),
        (1, 2, 3, 4),
        (0, 1, 2, 3, 4, 4),
        (0, 0, 1, 2, 3, 4),
        (0, 2, 1, 3, 4),
        (0, 4),
        (4, 3, 2, 1, 0),
    ]
    for order in orders:
        path.write_bytes(b"".join(held[k] for k in order))
        with pytest.raises(FormatError, match="run: is damaged"):
            one_by_one(8, path)
    for count in (1, 3, 5):  # killed after fewer steps
        path.write_bytes(b"".join(held[:count]))
        assert_same(one_by_one(8, path), one_by_one(8))


def test_records_that_lack_a_row_are_refused_though_they_are_sealed(tmp_path: Path):
    path = tmp_path / "run"
    one_by_one(5, path)
    first, *states = sealed.read_states(path, "a checkpoint")
    for order in ((0, 2, 3), (0, 1, 1, 2, 3), (1, 0, 2, 3)):
        seal = sealed.write_state(path, first)
        for k in order:
            seal = sealed.append_state(path, states[k], seal)
        with pytest.raises(FormatError, match="row of every step"):
            one_by_one(8, path)


@pytest.mark.parametrize("refocus", ["uniform", "sweep"])
def test_a_run_is_refused_the_checkpoint_of_one_that_is_at_work(refocus: str, tmp_path: Path):
    path, options = tmp_path / "run", {"refocus": refocus, ("sweeps" if refocus == "sweep" else "steps"): 4}

    def meanwhile(step: int, _: object) -> None:
        with pytest.raises(DissonanceError, match="run: another command is at work on it"):
            lir(pdg(), checkpoint=path, **options)

    run = lir(pdg(), checkpoint=path, callbacks=[meanwhile], **options)
    assert run.steps == 4 and len(run.trace) == 5
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    again = lir(pdg(), checkpoint=path, **options)
    assert all(torch.equal(x, run.theta[key]) for key, x in again.theta.items())


OTHER_PROCESS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_checkpoints import one_by_one

def wait(step, traces):
    if step == 3:
        print("here", flush=True)
        sys.stdin.readline()

print(one_by_one(8, Path(sys.argv[2]), callbacks=[wait]).steps)
"""


def test_two_processes_do_not_write_one_checkpoint_and_a_killed_one_holds_nothing(tmp_path: Path):
    path = tmp_path / "run"
    command = [sys.executable, "-c", OTHER_PROCESS, str(Path(__file__).parent), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "here\n"  # and waits in the middle of its run
        before = path.read_bytes()
        with pytest.raises(DissonanceError, match="at work on it"):
            one_by_one(8, path)
        assert path.read_bytes() == before
        other.kill()
    assert_same(one_by_one(8, path), one_by_one(8))
