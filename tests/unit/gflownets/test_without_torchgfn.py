"""The adapter where torchgfn is not installed."""

import importlib
import sys

import pytest

from dissonance.errors import CapabilityError
from fresh import python


def test_the_adapter_says_how_to_install_torchgfn(monkeypatch: pytest.MonkeyPatch):
    for name in [n for n in sys.modules if n.split(".")[0] == "gfn" or n == "dissonance.gflownets.torchgfn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "gfn", None)
    with pytest.raises(CapabilityError, match=r"found no 'gfn.*': pip install 'dissonance\[torchgfn\]'"):
        importlib.import_module("dissonance.gflownets.torchgfn")


def test_the_package_does_not_import_torchgfn():
    code = "import sys, dissonance.gflownets.losses; sys.exit('gfn' in sys.modules)"
    assert python("-c", code).returncode == 0
