"""Files that ask for too much: refused while they are read, in one line, in little time and memory."""

from __future__ import annotations

import gzip
import io
import os
import threading
import time
import tracemalloc
from pathlib import Path

import mpmath
import pytest
import torch

from dissonance import PDG, Arc, Euclidean, LinearGaussian, Variable, inconsistency
from dissonance.errors import DissonanceError, FormatError, SizeError
from dissonance.io import encode, files, limits, load, xmlbif

PDG_FILE = '{"format": "dissonance.pdg", "version": 1, "variables": [%s], "arcs": [%s]}'
X = '{"name": "X", "size": 2}'


def table(numbers: str) -> str:
    return PDG_FILE % (X, '{"name": "p", "targets": ["X"], "table": [' + numbers + "]}")


def many(count: int, form: str) -> str:
    return ", ".join(form % i for i in range(count))


BIF_VALUES = "\n".join(f"variable v{i} {{ type discrete [ 2 ] {{ a, b }}; }}" for i in range(25))
PARENTS = ", ".join(f"v{i}" for i in range(24))
TOO_MUCH = {
    "json": (table("[], " * 17_000_000 + "[]"), "numbers, names and brackets"),
    "json numbers": (table("1, " * 17_000_000 + "1"), "numbers, names and brackets"),
    "json lines": (table("\n" * 9_000_000), "more than 8388608 lines"),
    "json variables": (PDG_FILE % (many(300_000, '{"name": "%d", "size": 1}'), ""), "262144 variables"),
    "json arcs": (
        PDG_FILE % (X, many(300_000, '{"name": "%d", "targets": ["X"], "table": [1, 0]}')),
        "more than 262144 arcs",
    ),
    "bif": (f"network x {{}}\n{BIF_VALUES}\nprobability ( v24 | {PARENTS} ) {{ default 0.5, 0.5; }}", "fill up to"),
    "xmlbif": (f"<BIF><NETWORK>{'<VARIABLE/>' * 2_100_000}</NETWORK></BIF>", "more than 2097152 elements"),
    "uai": (f"MARKOV\n1\n2\n1\n1 0\n2 {'1 ' * 17_000_000}", "numbers, names and brackets"),
    "uai tables": ("MARKOV\n1\n2\n999999\n", "more than 262144 tables"),
}


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c == "xmlbif" else c for c in TOO_MUCH])
def test_a_small_file_that_unpacks_to_a_large_one_is_refused(case: str):
    refused_within(*TOO_MUCH[case], case.split()[0], 1 << 30)


def test_elements_are_counted_while_they_are_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(xmlbif, "MAX_ELEMENTS", limits.MAX_ELEMENTS >> 5)
    text = f"<BIF><NETWORK>{'<VARIABLE/>' * 66_000}</NETWORK></BIF>"
    refused_within(text, "more than 65536 elements", "xmlbif", 1 << 25)


def refused_within(text: str, message: str, form: str, most: int) -> None:
    """A file, packed, is refused with a message of one line, and so many bytes are never exceeded."""
    packed = gzip.compress(text.encode(), 1)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=message) as refused:
            load(io.BytesIO(packed), format=form)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    assert "\n" not in str(refused.value)


def test_many_defaults_fill_no_more_than_one(tmp_path: Path):
    values = "\n".join(f"variable v{i} {{ type discrete [ 2 ] {{ a, b }}; }}" for i in range(40))
    parents = ", ".join(f"v{i}" for i in range(16))
    blocks = "\n".join(f"probability ( v{j} | {parents} ) {{ default 0.5, 0.5; }}" for j in range(16, 40))
    with pytest.raises(FormatError, match=r"defaults fill up to 1048576 in a file"):
        load(io.BytesIO(f"network x {{}}\n{values}\n{blocks}".encode()), format="bif")


def test_a_source_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "MAX_BYTES", 1 << 20)
    with pytest.raises(FormatError, match="/dev/zero: holds more than"):
        files.read("/dev/zero", limit=1 << 20)
    bomb = gzip.compress(b"\0" * (1 << 22))
    with pytest.raises(FormatError, match="holds more than 1048576 bytes"):
        files.read(io.BytesIO(bomb), limit=1 << 20)


def test_a_pipe_that_nothing_writes_to_is_given_up_and_a_slow_writer_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(files, "PATIENCE", 0.2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FormatError, match="nothing writes to this pipe"):
        load(pipe)
    text = table("0.5, 0.5").encode()

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            time.sleep(0.5)  # longer than a pipe without a writer is waited for
            file.write(text[:20])
            time.sleep(0.1)
            file.write(text[20:])

    writer = threading.Thread(target=write)
    writer.start()
    assert len(load(pipe)[0]) == 1
    writer.join()


@pytest.mark.parametrize(
    "text",
    [
        PDG_FILE.replace("}", ', "gamma": 0, "gamma": 1}') % (X, ""),
        PDG_FILE % (X, '{"name": "p", "targets": ["X"], "table": [1, 0], "table": [0, 1]}'),
        PDG_FILE % ('{"name": "X", "name": "Y", "size": 2}', ""),
        '{"graph": {"variables": [], "edges": [], "edges": []}, "cpds": []}',
    ],
)
def test_a_key_that_is_given_twice_is_refused(text: str):
    with pytest.raises(FormatError, match=r"the key '\w+' is given twice"):
        load(io.BytesIO(text.encode()))


def test_keys_in_names_do_not_count():
    odd = '{"name": "a\\":b{", "size": 2}, {"name": "\\\\", "values": ["x\\": 1", ": {}"]}'
    assert len(load(io.BytesIO((PDG_FILE % (odd, "")).encode()))[0].variables) == 2


def test_what_is_counted_is_close_to_what_is_there():
    limits.check_parts(b"word " * 300_000)
    with pytest.raises(FormatError, match="too much for a model"):
        limits.check_parts(b"[ " * (limits.MAX_PARTS + 1))


# -- Gaussians ---------------------------------------------------------------------------------------------------------

Z = Variable("Z", Euclidean(1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"Sigma": [[5e-324]]}, "standard deviation"),
        ({"Sigma": [[1e300]]}, "standard deviation"),
        ({"b": [1e200]}, "up to 1e"),
        ({"A": [[1e200]]}, "up to 1e"),
    ],
)
def test_numbers_beyond_double_precision_are_refused(given: dict[str, object], message: str):
    with pytest.raises(DissonanceError, match=message):
        LinearGaussian(**given)


def test_more_dimensions_than_fit_are_refused_before_anything_is_made():
    text = PDG_FILE % (
        '{"name": "Z", "dim": 100000}, {"name": "Y", "dim": 1}',
        '{"name": "p", "targets": ["Y"], "linear_gaussian": {"b": [0], "Sigma": [[1]]}}',
    )
    result = inconsistency(load(io.BytesIO(text.encode()))[0])
    with pytest.raises(SizeError, match="a covariance of 100001 dimensions"):
        assert result.mu


@pytest.mark.parametrize("sd", [1e-3, 1e-6, 1e-7, 1e-9, 1e-12])
@pytest.mark.parametrize("mean", [0.0, 1.0, 47.19])
def test_bounds_hold_however_narrow_the_noise(sd: float, mean: float):
    with mpmath.workdps(60):
        for other, far in ((sd, sd), (3 * sd, 1.0), (0.1, 0.3), (1e3, 2.0)):
            p, q = LinearGaussian(b=[mean], Sigma=[[sd**2]]), LinearGaussian(b=[mean + far], Sigma=[[other**2]])
            result = inconsistency(PDG(Arc("p", (), Z, p), Arc("q", (), Z, q)))
            with torch.no_grad():
                s, t = (mpmath.mpf(x.Sigma.item()) for x in (p, q))
                gap = mpmath.mpf(p.b.item()) - mpmath.mpf(q.b.item())
            exactly = gap**2 / (2 * (s + t)) - mpmath.log(2 * mpmath.sqrt(s * t) / (s + t))
            assert result.lower <= exactly <= result.upper


def test_blank_csv_and_odd_npz_files_are_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    blank = tmp_path / "blank.csv"
    blank.write_text(",,\n,,\n")
    with pytest.raises(FormatError, match="blank lines"):
        load(blank)
    x = Variable("X", 2)
    whole = encode("m.npz", PDG(Arc("p", (), x, [0.5, 0.5])))
    at = whole.index(b"PK\x01\x02")
    for byte, value in ((8, 1), (10, 99)):  # encrypted; packed in a way that nobody knows
        odd = bytearray(whole)
        odd[at + byte] = value
        (tmp_path / "odd.npz").write_bytes(bytes(odd))
        with pytest.raises(FormatError, match=r"not a whole \.npz file"):
            load(tmp_path / "odd.npz")
    monkeypatch.setattr(limits, "MAX_UNPACKED", 100)
    (tmp_path / "large.npz").write_bytes(whole)
    with pytest.raises(FormatError, match="more than 100 bytes of arrays"):
        load(tmp_path / "large.npz")
