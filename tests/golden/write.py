"""Make golden numbers anew, of these families only: python tests/golden/write.py [--all] [family ...].

Inputs come from `cases.py` and numbers from the library as it is; without arguments, list the families.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from golden import store
from golden.calls import answer
from golden.cases import FAMILIES
from golden.compare import differences


def nudged(x: Any, by: float) -> Any:
    """The weights of a case, or the numbers of other inputs, a little off."""
    if isinstance(x, dict):
        return {k: nudged(v, by) for k, v in x.items()}
    if isinstance(x, list):
        return [nudged(v, by) for v in x]
    return x * (1 + by) if isinstance(x, float) and abs(x) > 1e-3 and x != 1.0 else x


def pinned(case: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a case, without those that are all rounding: weights at most 1e-9 off move them further than right
    answers may be apart. What was left out is named."""
    found = store.plain(store.rounded(answer(case)))
    weights = {k: case[k] for k in ("beta", "gamma", "p", "high", "utility", "x", "noise") if k in case}
    for by in (1e-11, -1e-10, 1e-9):
        other = store.plain(store.rounded(answer(case | nudged(weights, by))))
        for kind in set(found) - {"bounds", "bracket", "left out"}:
            for name in list(found[kind]):
                one = {
                    k: {name: x[kind][name]} if name in x.get(kind, {}) else {} for k, x in (("a", found), ("b", other))
                }
                old, new = ({kind: one[k], "bounds": x.get("bounds", {})} for k, x in (("a", found), ("b", other)))
                if any(said.startswith(f"{kind} ") for said in differences(old, new)):
                    del found[kind][name]
                    found.setdefault("left out", {})[f"{kind} {name}"] = True
    return found


def made(family: str) -> str:
    """Write a family, and say how many of its cases are new."""
    torch.set_num_threads(1)
    began = time.process_time()
    found = [{"case": case, "numbers": pinned(case)} for case in FAMILIES[family]()]
    before = store.read(family) if family in store.counts() else []
    same = sum(a == b for a, b in zip(store.plain(found), before, strict=False))
    refused = sum(x["numbers"].get("same", {}).get("refused") is True for x in found)
    out = sum(len(x["numbers"].get("left out", ())) for x in found)
    size = store.write(family, found)
    seconds = time.process_time() - began
    return (
        f"{family:20} {len(found):4} cases, {same:4} as before, {refused:3} refused, {out:3} numbers left out, "
        f"{size:7} bytes, {seconds:5.1f} s"
    )


def main() -> None:
    """Write the families that are named."""
    names = sorted(FAMILIES) if "--all" in sys.argv else sys.argv[1:]
    unknown = set(names) - set(FAMILIES)
    if unknown or not names:
        raise SystemExit(
            f"families: {', '.join(sorted(FAMILIES))}" + f"; unknown: {', '.join(unknown)}" * bool(unknown)
        )
    store.FOLDER.mkdir(exist_ok=True)
    for name in names:
        sys.stdout.write(f"{made(name)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
