"""The same benchmarks in this checkout and in an earlier one: processor time of each, and the ratio.

    git worktree add ../before 4d9ad2d
    python benchmarks/beside.py --before ../before                  # all of them
    python benchmarks/beside.py --before ../before lir em           # some

Each benchmark runs as a process of its own, with the checkout's own script and sources and one thread, now of one
checkout and then of the other; the least processor time of the rounds counts, user and system, imports included. Rivals
that a benchmark times as well are left out where it has an option for that, and else are part of both times. Machine
code is compiled and cached in the first round.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

BENCHMARKS = {
    "import": ["-c", "import dissonance, torch; from dissonance import inconsistency, lir"],
    "lir": ["benchmarks/lir.py", "--replicates", "5", "--steps", "10"],
    "batch": ["benchmarks/batch.py", "--problems", "200", "--no-clarabel", "--paper", "0"],
    "scaling": ["benchmarks/scaling.py", "--family", "chain", "--sizes", "100", "300"],
    "em": ["benchmarks/em.py", "--rows", "5000", "--columns", "5", "--components", "4", "--kinds", "full"],
    "bp": ["benchmarks/bp.py", "--sides", "50", "--states", "2", "--tree", "10000", "--pgmpy", "0"],
    "attention": ["benchmarks/attention.py", "--speed", "--tokens", "128", "--batch", "2"],
    "policy": ["benchmarks/policy.py"],
    "posteriors": ["benchmarks/posteriors.py", "alarm", "--sets", "64", "--rounds", "2"],
    "neural": ["benchmarks/neural.py", "--sizes", "128x64", "--repeats", "60"],
    "stress": ["benchmarks/stress.py", "--problems", "100"],
    "formats": ["benchmarks/formats.py", "alarm"],
    "gflownet": ["benchmarks/gflownet.py", "--height", "8", "--dimensions", "2", "--batch", "64", "--width", "32"],
}


def processor_time(checkout: Path, arguments: list[str]) -> float:
    """The seconds that a run takes; an error if it fails."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    made = subprocess.Popen(
        [sys.executable, *arguments], cwd=checkout, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert made.stdout is not None
    said = made.stdout.read()
    _, status, used = os.wait4(made.pid, 0)
    made.returncode = os.waitstatus_to_exitcode(status)
    if made.returncode:
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        raise SystemExit(f"{checkout}: python {' '.join(arguments)}: {''.join(last)}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if unknown := [n for n in args.names if n not in BENCHMARKS]:
        parser.error(f"no benchmark {unknown[0]!r}: there are {', '.join(BENCHMARKS)}.")
    print("| benchmark | before, s | now, s | ratio |\n|---|---|---|---|")
    for name in args.names or BENCHMARKS:
        arguments, checkouts = BENCHMARKS[name], (args.before.resolve(), HERE)
        took = [[processor_time(checkout, arguments) for checkout in checkouts] for _ in range(args.rounds)]
        before, now = map(min, zip(*took, strict=True))
        command = " ".join(arguments[1:] if arguments[0] == "-c" else arguments)
        print(f"| `{command}` | {before:.2f} | {now:.2f} | {now / before:.2f} |", flush=True)


if __name__ == "__main__":
    main()
