"""The page writes numbers as Python does, to the last digit."""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess

import pytest
from browsing import ROOT

PROGRAM = """
import { general, fixed } from "./numbers.js";
let text = "";
for await (const part of process.stdin) text += part;
const numbers = JSON.parse(text);
console.log(JSON.stringify(numbers.map((x) => [general(x, 6), general(x, 4), general(x, 9), fixed(x, 4)])));
"""


def test_numbers_are_written_as_python_writes_them() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node on this machine")
    draw = random.Random(0)
    numbers = [draw.uniform(-3, 3) * 10 ** draw.randint(-12, 9) for _ in range(4000)]
    numbers += [k / 2**m for k in range(1, 60) for m in range(1, 12)]  # ties, which go to the even digit
    numbers += [0.0, 1.0, 0.1, 123456.5, 999999.5, 9999995.0, 1e-5, 1e-4, 1e22, 5e-324, 1.7976931348623157e308, math.pi]
    run = [node, "--input-type=module", "-e", PROGRAM]
    out = subprocess.run(
        run, input=json.dumps(numbers), capture_output=True, text=True, check=True, cwd=ROOT / "studio" / "src"
    ).stdout
    expected = [[f"{x:.6g}", f"{x:.4g}", f"{x:.9g}", f"{x:.4f}"] for x in numbers]
    wrong = [(x, e, f) for x, e, f in zip(numbers, expected, json.loads(out), strict=True) if e != f and abs(x) < 1e21]
    assert not wrong, wrong[:5]
