"""Where independent pieces of work are done: in this process, in several, or on a cluster of machines."""
