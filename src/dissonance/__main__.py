"""`python -m dissonance` is the command `dissonance`."""

from dissonance.cli import main

main()
