"""`python -m dissonance` is the command `dissonance`."""

from dissonance.cli import main

if __name__ == "__main__":  # not in the processes that it starts
    main()
