"""A fresh Python process in a tenth of a second: forked off one that has imported torch and nothing of this package.

`python("-c", code)`, `python("-m", "dissonance", ...)` and `python(script, ...)` do what the command does, with a
status, an output and modules of their own. Tests of signals, of pipes that close and of what is imported start a real
process.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATIENCE = 900.0


def python(
    *words: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """What a process with these arguments, this folder, environment and standard input does."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(text.encode())
        given.seek(0)
        status = ask(server(), [str(w) for w in words], str(cwd), dict(env or os.environ), [given, out, err])
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(words, status, out.read().decode(), err.read().decode())


def ask(address: str, words: list[str], cwd: str, env: Mapping[str, str], files: list) -> int:
    """The status of a process that the server forks off, with these as its standard input, output and error."""
    with socket.socket(socket.AF_UNIX) as here:
        here.settimeout(PATIENCE)
        here.connect(address)
        socket.send_fds(here, [b"x"], [f.fileno() for f in files])
        with here.makefile("rw") as line:
            print(json.dumps([words, cwd, dict(env)]), file=line, flush=True)
            return int(line.readline())


@cache
def server() -> str:
    """The address of the process that others are forked off; it ends with this one.

    From a shell: `python fresh.py ADDRESS ...` does what `python ...` does.
    """
    folder = tempfile.mkdtemp(prefix="fresh")
    address = f"{folder}/socket"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, __file__, address], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(process.communicate)  # its input ends, and so does it
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return address


def serve(address: str) -> None:
    import matplotlib.pyplot
    import scipy.sparse
    import scipy.special
    import torch

    del matplotlib, scipy, torch
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
        while True:
            asked, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                answer(asked)
            asked.close()


def answer(asked: socket.socket) -> None:
    """Fork off the process that was asked for, and tell its status."""
    _, files, _, _ = socket.recv_fds(asked, 1, 3)
    with asked.makefile("rw") as line:
        words, cwd, env = json.loads(line.readline())
        child = os.fork()
        if child == 0:
            for k, file in enumerate(files):
                os.dup2(file, k)
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(env)
            be(words)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=line, flush=True)
    os._exit(0)


def be(words: list[str]) -> None:
    """Do what `python words...` does, then end."""
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(k, mode, encoding="utf-8") for k, mode in enumerate("rww"))
    status = 0
    try:
        if words[0] == "-c":
            sys.argv, sys.path[0] = ["-c", *words[2:]], ""
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
        elif words[0] == "-m":
            sys.argv, sys.path[0] = words[1:], str(Path.cwd())
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv, sys.path[0] = words, str(Path(words[0]).parent)
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    address, *arguments = sys.argv[1:]
    if not arguments:
        serve(address)
    sys.exit(ask(address, arguments, str(Path.cwd()), os.environ, [sys.stdin, sys.stdout, sys.stderr]))
