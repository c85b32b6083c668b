"""Attack the library: brackets, damaged files and records, kills, flips, threads, seeds. Exits with 1 if any broke.

    python benchmarks/attack.py --seconds 600
    python benchmarks/attack.py --problems 30000 --stacked 970000 --files 100000 --kills 100 --flips 1000

With --seconds the time is shared out among all attacks; with counts each runs that often, and the others not at all.
The same --seed attacks with the same problems and files. docs/reliability.md has the record.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
ATTACKS = {
    "kills": ("kills", "kills of resolve and study", 1.0),
    "records": ("records", "changes to the records of checkpoints, and pairs of processes", 1.0),
    "flips": ("flips", "bit flips in checkpoints", 1.0),
    "trials": ("threads", "trials of two threads", 1.0),
    "seeds": ("seeds", "models in processes with other hash seeds and threads, and runs in company", 1.0),
    "files": ("damaged", "damaged files", 2.0),
    "tables": ("tables", "tables written and read back", 1.0),
    "names": ("named", "facts and controls by odd names", 1.0),
    "forms": ("closed_forms", "closed forms at 60 digits", 1.0),
    "problems": ("brackets", "brackets of random PDGs", 2.0),
    "solvers": ("by_name", "brackets of random PDGs by solvers that are named", 1.0),
    "rounded": ("rounded", "brackets of counts at 60 digits, weights up to 1e12", 1.0),
    "runs": ("runs", "runs against inconsistency, before and after", 1.0),
    "stacked": ("stacked", "brackets of random PDGs in arrays", 3.0),
    "books": ("books", "books of beliefs and the bets on them", 2.0),
}
"""By option: the module, what is counted, and its share of the time. What forks this process comes first."""
SHOWN = 10


def run(attack: Iterator[str | None], most: int | None, seconds: float | None) -> tuple[int, list[str]]:
    """How much was tried, and what broke."""
    began, count, broke = time.monotonic(), 0, list[str]()
    for said in attack:
        count += 1
        if said is not None:
            broke.append(said)
        if count == most or (seconds is not None and time.monotonic() - began > seconds):
            break
    return count, broke


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, help="how long in all")
    parser.add_argument("--seed", type=int, default=0)
    for option, (_, what, _) in ATTACKS.items():
        parser.add_argument(f"--{option}", type=int, help=f"how many {what}")
    given = parser.parse_args()
    counts = {option: getattr(given, option) for option in ATTACKS}
    if given.seconds is None and not any(counts.values()):
        given.seconds = 60.0
    chosen = [o for o in ATTACKS if counts[o] or (given.seconds is not None and counts[o] is None)]
    shares = sum(ATTACKS[o][2] for o in chosen)
    sys.path += [str(HERE), str(HERE.parent / "tests")]
    warnings.simplefilter("ignore")
    failures = 0
    for option in chosen:
        module, what, share = ATTACKS[option]
        attack: Callable[[int], Iterator[str | None]] = import_module(f"attacks.{module}").attack
        began = time.monotonic()
        seconds = None if given.seconds is None else given.seconds * share / shares
        count, broke = run(attack(given.seed), counts[option], seconds)
        print(f"{count:>9,} {what}: {len(broke)} broke ({time.monotonic() - began:.0f} s)", flush=True)
        for line in broke[:SHOWN]:
            print(f"          {line}")
        failures += len(broke)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
