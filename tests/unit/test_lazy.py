"""Public names are read from the source of a package and imported on first use."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from dissonance.lazy import public

FRONT = """
from typing import TYPE_CHECKING
from dissonance.lazy import lazily
if TYPE_CHECKING:
    from house.kitchen import bread as bread, cook
    from house.stairs import stairs as stairs
    from . import garden as garden
__all__ = ["door"]
door = "open"
lazily(__name__)
"""
ROOMS = {
    "__init__": FRONT,
    "kitchen": "bread, cook = 1, 2",
    "stairs": "stairs = 'up'",
    "garden": "__all__ = ['tree']\ntree = 3",
}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A package with a name of its own, two from elsewhere, and a public submodule."""
    (tmp_path / "house").mkdir()
    for name, code in ROOMS.items():
        (tmp_path / "house" / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("house")
    for name in [m for m in sys.modules if m.split(".")[0] == "house"]:
        del sys.modules[name]


def test_what_is_public_is_read_without_importing_it(house):
    found = public("house")
    assert found.homes == {"bread": "house.kitchen", "stairs": "house.stairs", "door": "house"}
    assert found.packages == ["garden"] and public("house.garden").homes == {"tree": "house.garden"}
    assert not {"house.kitchen", "house.garden"} & set(sys.modules)


def test_names_are_imported_on_first_use(house):
    assert house.__all__ == ["bread", "door", "stairs"]
    assert [n for n in dir(house) if not n.startswith("_")] == ["bread", "door", "garden", "stairs"]
    assert (house.bread, house.door, house.garden.tree) == (1, "open", 3)
    importlib.import_module("house.stairs")
    assert house.stairs == "up"


def test_a_name_for_types_only_is_not_offered(house):
    with pytest.raises(AttributeError, match="module 'house' has no attribute 'cook'"):
        _ = house.cook


def test_a_name_of_a_public_submodule_says_where_it_is(house):
    with pytest.raises(AttributeError, match=r"house\.tree is in house\.garden: from house\.garden import tree"):
        _ = house.tree
    with pytest.raises(ImportError, match=r"house\.tree is in house\.garden"):
        exec("from house import tree")
    assert not hasattr(house, "tree") and "house.garden" not in sys.modules
