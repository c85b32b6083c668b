"""Sealed files: records that were removed, doubled or moved are noticed; a file that was cut holds what came before."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path

import pytest

from dissonance.errors import DissonanceError, FormatError
from dissonance.io import sealed
from dissonance.io.locked import alone

RECORDS = [b"one", b"two", b"two", b"four"]


def written(path: Path) -> list[bytes]:
    """The records of a file as they lie in it."""
    seal, held, size = sealed.seal(path, RECORDS[0]), list[bytes](), 0
    for content in RECORDS[1:]:
        seal = sealed.extend(path, content, seal)
    whole = path.read_bytes()
    for content in RECORDS:
        held.append(whole[size : size + sealed.LINE + len(content)])
        size += len(held[-1])
    assert size == len(whole)
    return held


def test_records_in_any_other_order_than_they_were_written_are_refused(tmp_path: Path):
    path = tmp_path / "file"
    held = written(path)
    orders = {o for n in range(1, 6) for o in product(range(4), repeat=n)} | {*permutations(range(4))}
    for order in orders:
        path.write_bytes(b"".join(held[k] for k in order))
        if order == (0, 1, 2, 3)[: len(order)]:  # what was written before a kill
            assert sealed.unseal(path, "a file") == RECORDS[: len(order)]
        else:
            with pytest.raises(FormatError, match="file: is damaged"):
                sealed.unseal(path, "a file")


def test_a_record_that_is_cut_off_is_left_out(tmp_path: Path):
    path = tmp_path / "file"
    held = written(path)
    whole = b"".join(held)
    for size in range(len(held[0]), len(whole)):
        path.write_bytes(whole[:size])
        assert sealed.unseal(path, "a file") == RECORDS[: len(sealed.unseal(path, "a file"))]


def test_records_of_two_writers_do_not_make_one_file(tmp_path: Path):
    path = tmp_path / "file"
    first = sealed.seal(path, b"one")
    sealed.extend(path, b"two", first)
    sealed.extend(path, b"three", first)
    with pytest.raises(FormatError, match="is damaged"):
        sealed.unseal(path, "a file")


def test_a_file_is_held_by_one_writer_under_every_name(tmp_path: Path):
    path, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(path)
    for other in (path, link, tmp_path / "." / "file"):
        with alone(path), pytest.raises(DissonanceError, match="at work on it"), alone(other):
            pass
    with alone(path), alone(tmp_path / "another"):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["link"]


def test_a_file_system_without_locks_is_written_to_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fcntl = pytest.importorskip("fcntl")

    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with alone(tmp_path / "file"):
        pass
