"""The convex program on a junction tree: its arrays, the compiled Newton method, its proofs."""

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:  # each is imported when something is solved
    from . import conic as conic
    from . import device as device
    from . import layout as layout
    from . import program as program
    from . import selection as selection
    from . import solve as solve
    from . import support as support
    from . import work as work

lazily(__name__)
