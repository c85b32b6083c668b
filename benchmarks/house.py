"""How large the code is, and how many of its modules a reader passes on the way from a file to an answer.

    python benchmarks/house.py                         # this checkout
    python benchmarks/house.py --checkout ../before    # another one
    python benchmarks/house.py --names                 # with the names and lines that are counted

Counted in src/dissonance, from the source:

- files, lines and classes of all, of solvers/ and its parts, of the other rooms that solve, which were part of solvers/
  once (ROOMS), and of all that solves.
- classes and public names, at the top level of modules: those are classes and functions whose name does not begin with
  an underscore. Names at the root: `dissonance.__all__`.
- names defined at least twice: public names that two or more modules define; and how many of them are for different
  things. A name is for one thing where its definitions beside the first are
  - commands (what cli/app.py makes one) or actions (what ACTIONS of studio/actions.py lists under that very name):
    they carry the name of what they expose;
  - in modules of one group of INTERCHANGEABLE: other implementations that are chosen from, with the same arguments;
  - functions that import the name from the module that defines it and pass their arguments on.
- isinstance checks: calls of isinstance and issubclass, comparisons of type(x), and class patterns of match, in lir/
  in what solves, on a class that is imported from or defined there or in cpds/; and those on a class of lir/.

Counted while the code runs, in a fresh process with the checkout's src on its path (sys.setprofile):

- modules: those of dissonance of which a function is called, except by the import of a module.
- module switches: how often a called function belongs to another module than the function of dissonance that was
  called before it. Returns are not counted.
- "compiled" counts a function that Numba may compile, with all that it calls, as part of its caller: small problems are
  solved without Numba, by the same functions interpreted, and then each of those calls is a call like any other.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve().parents[1]
SCORE, LIR, EM = "score examples/smoking.json", "five steps of lir", "one EM iteration"
WALKS = (SCORE, LIR, EM)


def parsed(folder: Path) -> dict[str, ast.Module]:
    """The modules under a folder: path from there -> syntax tree."""
    paths = sorted(folder.rglob("*.py"))
    return {p.relative_to(folder).as_posix(): ast.parse(p.read_text(encoding="utf-8")) for p in paths}


def public_definitions(module: ast.Module) -> Iterator[str]:
    """The classes and functions that a module defines at its top level, without those that begin with an underscore."""
    for node in module.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name


def origins(path: str, module: ast.Module) -> dict[str, str]:
    """The classes of dissonance that a module imports or defines, and the folder (or module) each one is from."""
    found = {node.name: path.partition("/")[0] for node in ast.walk(module) if isinstance(node, ast.ClassDef)}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dissonance."):
            folder = (node.module or "").split(".")[1]
            found |= {alias.asname or alias.name: folder for alias in node.names}
    return found


def names_in(node: ast.AST) -> set[str]:
    """The names and attributes mentioned in an expression."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def is_call(node: ast.AST, *names: str) -> bool:
    """Whether an expression calls a function of one of these names."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def tested_types(node: ast.AST) -> set[str]:
    """The names of the types that an expression or pattern tests for."""
    if isinstance(node, ast.Call) and is_call(node, "isinstance", "issubclass"):
        return names_in(node.args[1])
    if isinstance(node, ast.Compare) and any(is_call(x, "type") for x in (node.left, *node.comparators)):
        return set[str]().union(*map(names_in, (node.left, *node.comparators)))
    if isinstance(node, ast.MatchClass):
        return names_in(node.cls)
    return set()


def type_checks(modules: dict[str, ast.Module], *folders: str) -> list[str]:
    """Where lir/ and what solves test for a type of these folders: "file:line types"."""
    found: list[str] = []
    for path, module in modules.items():
        if path.split("/")[0].removesuffix(".py") in ("lir", *ROOMS):
            theirs = {name for name, folder in origins(path, module).items() if folder in folders}
            for node in ast.walk(module):
                if tested := sorted(tested_types(node) & theirs):
                    found.append(f"{path}:{getattr(node, 'lineno', 0)} {', '.join(tested)}")
    return found


ROOMS = ("solvers", "bounds", "reduced", "gaussians", "sampling", "answer", "timed")
"""Where the infimum over mu is found: all of it was in solvers/ once."""


def defined_twice(modules: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Public names that several modules define, and which."""
    where: dict[str, list[str]] = defaultdict(list)
    for path, module in modules.items():
        for name in set(public_definitions(module)):
            where[name].append(path)
    return {name: paths for name, paths in sorted(where.items()) if len(paths) > 1}


INTERCHANGEABLE = (
    ("io/",),  # formats: FORMATS of io/__init__.py has the modules
    ("gflownets/kernels.py", "gflownets/plain.py"),  # for a GPU, and for a CPU
    ("solvers/convex/device.py", "solvers/convex/solve.py"),  # the same
)
"""Paths, or folders, whose modules define the same functions for something to choose among them."""

FORMAT_FUNCTIONS = ("from_bytes", "to_bytes", "alphas")
"""What a format is, in the modules of io/."""


def exposed(modules: dict[str, ast.Module]) -> set[tuple[str, str]]:
    """The commands and the actions: (path, name) of each function that has the name that it is called by."""
    found: set[tuple[str, str]] = set()
    for node in ast.walk(modules.get("cli/app.py", ast.Module([], []))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("app.command("):
            found |= {(f"cli/{ast.unparse(x.value)}.py", x.attr) for x in node.args if isinstance(x, ast.Attribute)}
    for node in ast.walk(modules.get("studio/actions.py", ast.Module([], []))):
        if isinstance(node, ast.Dict):
            for key, x in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(x, ast.Attribute) and key.value == x.attr:
                    found.add((f"studio/{ast.unparse(x.value)}.py", x.attr))
    return found


def passes_on(module: ast.Module, name: str) -> bool:
    """Whether a function of that name imports its name from where it is defined."""
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == name]
    imports = [x for f in functions for x in ast.walk(f) if isinstance(x, ast.ImportFrom)]
    return any(alias.name == name for x in imports for alias in x.names)


def for_different_things(modules: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Those of `defined_twice` whose definitions are not one thing, by the rule above, and where they are."""
    outside, found = exposed(modules), dict[str, list[str]]()
    for name, paths in defined_twice(modules).items():
        left = [p for p in paths if (p, name) not in outside and not passes_on(modules[p], name)]
        for group in INTERCHANGEABLE:
            inside = [p for p in left if p in group or (p.startswith(group) and name in FORMAT_FUNCTIONS)]
            left = [p for p in left if p not in inside[1:]]
        if len(left) > 1:
            found[name] = left
    return found


def parts_that_solve(modules: dict[str, ast.Module]) -> dict[str, list[str]]:
    """The modules of each room that solves, those of solvers/convex/ apart, and of all of them, by what is printed."""
    rooms = {
        f"{room}/" if f"{room}.py" not in modules else f"{room}.py": [
            path for path in modules if path.split("/")[0].removesuffix(".py") == room
        ]
        for room in ROOMS
    }
    inside = [path for path in rooms["solvers/"] if path.startswith("solvers/convex/")]
    rest = [path for path in rooms["solvers/"] if path not in inside]
    first = {"solvers/": rooms.pop("solvers/"), "solvers/convex/": inside, "the rest of solvers/": rest}
    every = [path for room in (first["solvers/"], *rooms.values()) for path in room]
    return first | rooms | {"all that solves": every}


def root_names(checkout: Path) -> int:
    """How many names `from dissonance import *` would bring."""
    return int(python(checkout, "-c", "import dissonance; print(len(dissonance.__all__))"))


def python(checkout: Path, *arguments: str) -> str:
    """The last line that a Python process prints that imports dissonance from this checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{checkout}: {' '.join(arguments)}\n{done.stderr}")
    return done.stdout.splitlines()[-1]


class Walk:
    """Counts modules and switches of dissonance: a function for sys.setprofile."""

    def __init__(self, package: Path) -> None:
        self.package = f"{package}{os.sep}"
        self.modules: set[str] = set()
        self.before = ""
        self.switches = -1  # the first module is not switched to

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_code.co_filename
        if event == "call" and module.startswith(self.package) and self.counts(frame):
            self.modules.add(module)
            self.switches += module != self.before
            self.before = module

    def counts(self, frame: FrameType | None) -> bool:
        """Whether no module is being imported: no frame of the stack is one's body."""
        while frame is not None:
            code = frame.f_code
            if code.co_name == "<module>" and code.co_filename.startswith(self.package):
                return False
            frame = frame.f_back
        return True


class CompiledWalk(Walk):
    """The same without what happens inside of functions that Numba may compile."""

    def counts(self, frame: FrameType | None) -> bool:
        """Whether nothing is being imported, and no frame is the wrapper of an interpreted function."""
        caller = frame
        while caller is not None:
            code = caller.f_code
            if code.co_name == "interpreted" and code.co_filename == f"{self.package}compiled.py":
                return False
            caller = caller.f_back
        return super().counts(frame)


def prepared(walk: str) -> Callable[[], object]:
    """A function that takes the walk; what it needs is imported and made already."""
    if walk == SCORE:
        from dissonance.cli.app import run

        return lambda: run(walk.split())
    if walk == LIR:
        import torch

        from dissonance import PDG, Arc, lir, load
        from dissonance.cpds import SoftmaxTable

        arcs = [(a, SoftmaxTable(torch.exp(a.log_table({})))) for a in load("examples/smoking.json")[0]]
        learnable = PDG(*(Arc(a.name, a.sources, a.targets, cpd) for a, cpd in arcs))
        return lambda: lir(learnable, steps=5)
    import numpy as np

    try:
        home: Any = importlib.import_module("dissonance.estimators")
    except ImportError:
        home = importlib.import_module("dissonance")
    x = np.random.default_rng(0).normal(size=(60, 2))
    mixture = home.GaussianMixture(2, tol=0.0, max_iter=1, means_init=x[:2])
    return lambda: mixture.fit(x)


def counted(walk: str, package: Path, compiled: bool) -> tuple[int, int]:
    """Modules and switches of a walk in this process, which has not taken it yet."""
    go, count = prepared(walk), (CompiledWalk if compiled else Walk)(package)
    sys.setprofile(count)
    try:
        go()
    finally:
        sys.setprofile(None)
    return len(count.modules), count.switches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, default=HERE)
    parser.add_argument("--names", action="store_true", help="list the names and lines that are counted")
    parser.add_argument("--walk", choices=WALKS, help=argparse.SUPPRESS)  # in a process of its own
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    checkout: Path = args.checkout.resolve()
    package = checkout / "src" / "dissonance"
    if args.walk:
        print(json.dumps(counted(args.walk, package, args.compiled)))
        return

    modules = parsed(package)
    lines = {path: len((package / path).read_text(encoding="utf-8").splitlines()) for path in modules}
    classes = {path: sum(isinstance(node, ast.ClassDef) for node in m.body) for path, m in modules.items()}
    twice, different = defined_twice(modules), for_different_things(modules)
    checks, checks_of_lir = type_checks(modules, *ROOMS, "cpds"), type_checks(modules, "lir")

    def listed(items: Iterator[str]) -> None:
        for item in items if args.names else ():
            print(f"{'':8}{item}")

    print(f"{len(modules):6,} files")
    print(f"{sum(lines.values()):6,} lines")
    print(f"{sum(classes.values()):6,} classes")
    for what, paths in parts_that_solve(modules).items():
        if paths:
            size = sum(lines[path] for path in paths), sum(classes[path] for path in paths)
            print(f"{len(paths):6,} files, {size[0]:,} lines, {size[1]} classes: {what}")
    print(f"{sum(1 for m in modules.values() for _ in public_definitions(m)):6,} public names")
    print(f"{root_names(checkout):6,} names at the root")
    print(f"{len(twice):6,} names defined at least twice, {len(different)} of them for different things")
    listed(f"{name}: {', '.join(paths)}{' (DIFFERENT)' * (name in different)}" for name, paths in twice.items())
    print(f"{len(checks):6,} isinstance checks on types of what solves and of cpds/")
    listed(iter(checks))
    print(f"{len(checks_of_lir):6,} isinstance checks on types of lir/")
    listed(iter(checks_of_lir))
    for walk in WALKS:
        command = (str(Path(__file__).resolve()), "--checkout", str(checkout), "--walk", walk)
        passed, switches = json.loads(python(checkout, *command))
        fewer, less = json.loads(python(checkout, *command, "--compiled"))
        print(f"{passed:6,} modules, {switches:5,} switches ({fewer}, {less:,} compiled): {walk}", flush=True)


if __name__ == "__main__":
    main()
