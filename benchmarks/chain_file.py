"""Write a binary chain as a PDG file: one arc forward and one back on every link, with random tables.

python benchmarks/chain_file.py 100000 chain.json
dissonance score chain.json --json
"""

from __future__ import annotations

import argparse

from families import chain

from dissonance import save

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variables", type=int)
    parser.add_argument("path")
    asked = parser.parse_args()
    save(asked.path, chain(asked.variables, seed=0))
