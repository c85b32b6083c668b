"""Functions are interpreted until there is enough work to start Numba for; without Numba they stay so."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

import fresh
from dissonance import PDG, Arc, Attention, SoftmaxTable, Variable, inconsistency, lir
from dissonance import compiled as compiling
from dissonance.compiled import compiled as noted
from dissonance.compiled import engage
from dissonance.solvers import Newton
from dissonance.solvers.convex import entries, interior
from dissonance.solvers.exact import precompile

HERE = Path(__file__).parent


def pdg(seed: int, zeros: float = 0.0, learnable: bool = False) -> PDG:
    """Three variables in a loop, and a marginal."""
    rng = np.random.default_rng(seed)
    a, b, c = (Variable(n, k) for n, k in zip("ABC", (2, 3, 2), strict=True))

    def arc(name: str, s: Any, t: Any, *shape: int) -> Arc:
        p = rng.random(shape)
        p[rng.random(shape) < zeros] = 0.0
        p[..., 0] += 0.1
        p /= p.sum(-1, keepdims=True)
        return Arc(name, s, t, SoftmaxTable(p) if learnable else p)

    return PDG(arc("ab", a, b, 2, 3), arc("bc", b, c, 3, 2), arc("ca", c, a, 2, 2), arc("b", (), b, 3))


def scores() -> dict[str, Any]:
    """What the solver is used for, on small PDGs: bounds, mu, blame, and a run of LIR."""
    found: dict[str, Any] = {}
    for name, zeros, gamma, hard in [
        ("soft", 0.0, 0.0, ()),
        ("zeros", 0.3, 0.0, ()),
        ("hard", 0.0, 0.0, ("ca",)),
        ("gamma", 0.0, 0.4, ()),
        ("all", 0.2, 0.3, ("bc",)),
    ]:
        one = pdg(7, zeros)
        attention = Attention.uniform(one, gamma=gamma).replace(beta=dict.fromkeys(hard, math.inf))
        result = inconsistency(one, attention, solver=Newton())
        found[name] = {
            "bounds": [result.lower, result.upper],
            "mu": result.mu.marginal("A", "B", "C").reshape(-1).tolist(),
            "mu_error": result.mu_error,
            "saved": [x.saved_if_dropped for x in result.by_arc()],
        }
    run = lir(pdg(8, learnable=True), steps=2)
    found["lir"] = {"bounds": [run.after.lower, run.after.upper], "theta": run.pdg["ab"].cpd.table().tolist()}
    return found


def python(code: str) -> CompletedProcess[str]:
    """Run some code in a fresh interpreter, with the tests at hand."""
    done = fresh.python("-c", code, cwd=HERE)
    assert done.returncode == 0, done.stderr
    return done


WITHOUT = "import sys; sys.modules['numba'] = None\n"
LOGGED = "import logging; logging.basicConfig(level=logging.INFO, format='%(levelname)s %(name)s %(message)s')\n"
CHAIN = (
    "import numpy as np\nfrom dissonance import *\n"
    "xs = [Variable(f'X{i}', 2) for i in range(200)]\n"
    "r = np.random.default_rng(0).dirichlet(np.ones(2), size=(2, 199, 2))\n"
    "arcs = [Arc(f'f{i}', xs[i], xs[i + 1], r[0, i]) for i in range(199)]\n"
    "chain = PDG(*arcs, *(Arc(f'b{i}', xs[i + 1], xs[i], r[1, i]) for i in range(199)))\n"
)


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    """The scores where Numba is not installed."""
    found = python(WITHOUT + "import json, test_compiling; print(json.dumps(test_compiling.scores()))")
    return json.loads(found.stdout)


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    """The scores by machine code."""
    engage()
    assert "numba" in sys.modules
    return scores()


@pytest.mark.parametrize("name", ["soft", "zeros", "hard", "gamma", "all", "lir"])
def test_interpreted_and_compiled_functions_find_the_same_bit_for_bit(
    name: str, interpreted: dict[str, Any], compiled: dict[str, Any]
):
    """A run that is resumed may be interpreted where it was compiled before."""
    lower, upper = compiled[name]["bounds"]
    assert upper - lower <= 1e-7
    assert interpreted[name] == compiled[name]


def test_without_numba_large_work_is_done_all_the_same_and_one_line_says_why_it_is_slow():
    code = WITHOUT + LOGGED + CHAIN + "for _ in range(2): print(inconsistency(chain, solver='newton').upper)"
    found = python(code)
    lines = [x for x in found.stderr.splitlines() if "Numba" in x]
    assert len(lines) == 1 and lines[0].startswith("WARNING dissonance") and "pip install numba" in lines[0]
    first, second = map(float, found.stdout.split())
    values: dict[str, Any] = {}
    exec(CHAIN, values)
    assert first == second == pytest.approx(inconsistency(values["chain"], solver="newton").upper, abs=1e-9)


def test_without_numba_a_small_score_says_nothing():
    found = python(
        WITHOUT + LOGGED + "import test_compiling as t; print(t.inconsistency(t.pdg(1), solver='newton').upper)"
    )
    assert "Numba" not in found.stderr and float(found.stdout) > 0


def test_a_small_score_does_not_import_numba():
    found = python(
        "import sys, test_compiling as t\n"
        "r = t.inconsistency(t.pdg(1), solver='newton'); assert r.converged\n"
        "assert t.inconsistency(t.pdg(2, 0.2), t.Attention.uniform(t.pdg(2), gamma=0.3)).converged\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('numba', 'llvmlite')))"
    )
    assert found.stdout.strip() == "[]"


def test_numba_is_engaged_when_work_adds_up():
    found = python(
        "import sys\nfrom dissonance import compiled\nfrom dissonance.solvers.convex import interior, starts\n"
        "seen = []\n"
        "for part in (0.4, 0.4, 0.4):\n"
        "    compiled.expect(part * compiled.ENOUGH)\n"
        "    made = [hasattr(f, 'py_func') for f in (interior.newton, starts.cold)]\n"
        "    seen.append(['numba' in sys.modules, *made, interior.cold is starts.cold])\n"
        "import json; print(json.dumps(seen))"
    )
    assert json.loads(found.stdout) == [[False, False, False, True]] * 2 + [[True, True, True, True]]


STATE = "from dissonance import compiled\nfrom dissonance.solvers.convex import entries, room\n"


def test_a_large_solve_loads_its_machine_code_by_itself_and_does_not_start_numba():
    precompile()
    found = python(
        CHAIN + STATE + "import sys; print(inconsistency(chain, solver='newton').converged, entries.newton.quick, "
        "type(entries.newton.now).__module__, any(m in sys.modules for m in ('numba', 'numba.core')))"
    )
    assert found.stdout.split() == ["True", "True", "dissonance.machine_code", "False"]


def test_all_that_the_loop_over_subtrees_calls_is_an_entry():
    """The loop is interpreted; what it calls must not be."""
    for loop in (interior.newton, interior.solve_system, interior.lengthen):
        called = {x: vars(interior)[x] for x in plain(loop).__code__.co_names if x in vars(interior)}
        parts = {name: plain(f) for name, f in called.items() if callable(f)}
        assert parts and {name: getattr(entries, name).plain for name in parts} == parts


def plain(function: Any) -> Any:
    """A function as it is written."""
    return getattr(function, "py_func", None) or function.__wrapped__


def test_many_small_solves_load_their_machine_code_in_the_end():
    found = python(
        STATE + "import test_compiling as t\nseen = []\n"
        "for seed in range(60):\n"
        "    t.inconsistency(t.pdg(seed), solver='newton'); seen.append(entries.newton.quick)\n"
        "print(seen[0], seen[-1], seen == sorted(seen))"
    )
    assert found.stdout.split() == ["False", "True", "True"]


def test_machine_code_loaded_without_numba_finds_the_same_bit_for_bit(compiled: dict[str, Any]):
    precompile()
    found = python(
        STATE + "import json, sys, test_compiling as t; compiled.expect(0.1, entries.newton)\n"
        "print(json.dumps([entries.newton.quick, 'numba' in sys.modules, t.scores()]))"
    )
    assert json.loads(found.stdout) == [True, False, compiled]


def test_numba_can_be_started_after_its_libraries_were_loaded_without_it(compiled: dict[str, Any]):
    precompile()
    found = python(
        STATE + "import json, test_compiling as t; compiled.expect(0.1, entries.newton); compiled.engage()\n"
        "import numba, numpy as np\n"
        "total = numba.njit(lambda n: np.ones((n, n)).dot(np.ones(n)).sum())(5)\n"
        "print(json.dumps([entries.newton.quick, total, t.scores()]))"
    )
    assert json.loads(found.stdout) == [True, 25.0, compiled]


def test_numba_started_before_there_is_an_entry_leaves_their_machine_code_to_be_loaded():
    """Workers start it first; each then compiled the solver once more, every time."""
    precompile()
    found = python(
        "from dissonance import compiled; compiled.engage(); compiled._have_made = None\n"
        + STATE
        + "import test_compiling as t; before = entries.newton.quick; t.inconsistency(t.pdg(1), solver='newton')\n"
        "print(before, all(e.quick for e in compiled._entries.values()), type(entries.newton.now).__module__)"
    )
    assert found.stdout.split() == ["False", "True", "dissonance.machine_code"]


AGREED = (
    "import sys, numpy as np\n"
    "def agreed():\n"
    "    L = np.array(room.Offsets._make(range(len(room.Offsets._fields))))\n"
    "    L[room.AT.clusters] = L[room.AT.unknowns] = 1\n"
    "    L[room.AT.parent], L[room.AT.cell_at], L[room.AT.unknown_at], L[room.AT.own] = 0, 1, 3, 4\n"
    "    X = np.array([3.0, 1.0, 0.0, 0.0]); entries.agree(np.array([-1, 0, 2, 0, 0, 0]), X, L, 0, 2)\n"
    "    return X[2:].tolist()\n"
)


def test_machine_code_that_cannot_be_loaded_is_made_again(tmp_path: Path):
    """A file that is damaged, or of another processor, is as good as none."""
    (tmp_path / "damaged.o").write_bytes(b"damaged")
    found = python(
        STATE
        + f"from pathlib import Path\ncompiled._object_file = lambda: Path({str(tmp_path)!r}, 'damaged.o')\n"
        + AGREED
        + "compiled.expect(0.1, entries.newton); seen = [entries.newton.quick]\n"
        "compiled.expect(1.0, entries.newton)\n"
        "print(*seen, type(entries.newton.now).__module__, *agreed(), 'numba' in sys.modules)"
    )
    assert found.stdout.split() == ["False", "dissonance.machine_code", "0.75", "0.25", "False"]
    assert [x.name for x in tmp_path.iterdir()] == ["damaged.o"]


def test_where_no_machine_code_can_be_made_for_others_numba_compiles_here(tmp_path: Path):
    found = python(
        LOGGED
        + STATE
        + f"from pathlib import Path\ncompiled._object_file = lambda: Path({str(tmp_path)!r}, 'none.o')\n"
        + AGREED
        + "sys.executable = '/bin/false'; compiled.expect(1.0, entries.newton)\n"
        "print(entries.newton.quick, hasattr(entries.agree.now, 'py_func'), *agreed())"
    )
    assert found.stdout.split() == ["True", "True", "0.75", "0.25"]
    assert "cannot be loaded without Numba here" in found.stderr and not list(tmp_path.iterdir())


def test_what_was_begun_and_nobody_waited_for_ends_with_the_process(tmp_path: Path):
    found = python(
        f"from pathlib import Path\nfrom dissonance import compiled\n"
        f"compiled._object_file = lambda: Path({str(tmp_path)!r}, 'none.o')\n"
        "compiled.begin_compiling(); print(compiled._making.pid, compiled._making.poll())"
    )
    pid, status = found.stdout.split()
    assert status == "None" and "compiling the solver, once" in found.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    assert not list(tmp_path.iterdir())


def test_machine_code_that_is_kept_is_not_made_again():
    precompile()
    found = python("from dissonance import compiled; compiled.begin_compiling(); print(compiled._making)")
    assert found.stdout.strip() == "None" and not found.stderr


def test_the_solver_is_made_while_numba_compiles_what_sets_large_problems_up(tmp_path: Path):
    """Two things that take as long: side by side where there are two cores."""
    found = python(
        STATE + f"from pathlib import Path\ncompiled._object_file = lambda: Path({str(tmp_path)!r}, 'none.o')\n"
        "compiled.expect(1.0); print(compiled._making.poll(), compiled._numba.__name__)"
    )
    assert found.stdout.split() == ["None", "numba"]


def test_machine_code_refuses_arrays_that_it_does_not_take():
    precompile()
    found = python(
        STATE + "import numpy as np; compiled.expect(0.1, entries.newton)\n"
        "ints = np.zeros(3, dtype=np.int64)\n"
        "for wrong in (np.zeros(3, dtype=np.float32), np.zeros((3, 3)), np.zeros(6)[::2]):\n"
        "    try: entries.measure(ints, wrong, ints)\n"
        "    except TypeError as error: print(error)"
    )
    message = "measure takes contiguous arrays of float64 in 1 dimensions."
    assert found.stdout.splitlines() == [message] * 3


def test_machine_code_is_kept_only_when_all_of_it_is():
    """One compiled function used to be enough."""
    found = python(
        "import tempfile\nfrom pathlib import Path\nfrom dissonance import compiled\n"
        "folder = Path(tempfile.mkdtemp()); compiled._folder = lambda: folder\n"
        "seen = [compiled.kept()]\n"
        "for name in ('one.nbc', compiled._object_file().name):\n"
        "    (folder / name).touch(); seen.append(compiled.kept())\n"
        "compiled.complete(); print(*seen, compiled.kept())"
    )
    assert found.stdout.split() == ["False", "False", "False", "True"]


def test_what_is_defined_after_numba_is_engaged_is_compiled_at_once():
    engage()
    twice = noted(lambda x: 2 * x)
    assert hasattr(twice, "py_func") and twice.py_func(3) == 6


def test_machine_code_is_said_to_be_kept_once_all_of_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiling, "_folder", lambda: tmp_path)
    (tmp_path / "one function.nbc").touch()  # a process that was killed while it compiled
    assert not compiling.kept()
    compiling.complete()
    assert compiling.kept()


def test_a_trial_tells_whether_arguments_are_passed_as_assumed(tmp_path: Path):
    """The function that is tried is in the file beside the entries, and returns what Python does."""
    precompile()
    found = python(
        "from pathlib import Path\nimport numpy as np\nfrom dissonance import compiled, machine_code\n"
        "one = machine_code.load_object(compiled._object_file(), {'probe': machine_code.probe})['probe']\n"
        "given = np.arange(1, 4), np.arange(3.0), np.arange(8.0).reshape(4, 2), 3, 0.5\n"
        "print(one(*given) == machine_code.probe(*given))"
    )
    assert found.stdout.split() == ["True"]


WATCHED = """
import sys; sys.modules['numba'] = None
import numpy as np, test_compiling
from dissonance.solvers.convex import entries, program, support


class Watched(np.ndarray):
    def __getitem__(self, i):
        assert not (isinstance(i, (int, np.integer)) and i < 0), 'a negative index'
        return super().__getitem__(i)

    def __setitem__(self, i, x):
        assert not (isinstance(i, (int, np.integer)) and i < 0), 'a negative index'
        super().__setitem__(i, x)


def watching(function):
    def called(*args):
        count[0] += 1
        return function(*(a.view(Watched) if type(a) is np.ndarray else a for a in args))
    return called


def within(made):
    return lambda *args: made(*(watched(a) for a in args))


def watched(x):
    if isinstance(x, tuple):
        return type(x)._make(watched(a) for a in x)
    return x.view(Watched) if type(x) is np.ndarray else x


count = [0]
for entry in vars(entries).values():
    if isinstance(entry, entries.Entry):
        entry.now = watching(entry.now)
program.numbering, program.fronts = within(program.numbering), within(program.fronts)
support.support = within(support.support)
scores = test_compiling.scores()
print(count[0], scores['all']['bounds'])
"""


def test_no_index_of_the_solver_counts_from_the_end():
    """Compiled functions of the solver take an index as it is."""
    found = python(WATCHED)
    assert int(found.stdout.split()[0]) > 20


def test_an_entry_that_is_made_after_numba_has_started_is_loaded_and_not_compiled_again():
    engage()
    inconsistency(pdg(1), solver=Newton())
    precompile()
    found = python(
        LOGGED + "from dissonance.compiled import engage; engage()\nimport test_compiling as t\n"
        "from dissonance.solvers.convex import entries\n"
        "assert t.inconsistency(t.pdg(1), solver='newton').converged\nprint(type(entries.newton.now).__module__)"
    )
    assert found.stdout.strip() == "dissonance.machine_code" and "compiling" not in found.stderr


def test_machine_code_is_kept_apart_for_every_state_of_the_compiled_sources(tmp_path: Path):
    callee, other = tmp_path / "callee.py", tmp_path / "other.py"
    callee.write_text("@compiled\ndef f(): return 1\n")
    other.write_text("x = 1\n")
    first = compiling._digest([callee, other])
    other.write_text("x = 2\n")  # has no compiled function
    assert compiling._digest([callee, other]) == first
    callee.write_text("@compiled\ndef f(): return 2\n")
    assert compiling._digest([callee, other]) != first
