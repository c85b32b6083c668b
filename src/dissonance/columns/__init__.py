"""Columns: PDGs of very many arcs as a few arrays.

A million beliefs are a few arrays: the scopes as numbers of variables, the tables of all arcs of one shape as one
tensor. Nothing is done arc by arc when such a PDG is made, copied, read or written; its arcs are views of the arrays,
made when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.columns.column import Column as Column
    from dissonance.columns.columnar import ColumnarPDG as ColumnarPDG

lazily(__name__)
