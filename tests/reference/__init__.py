"""Independent references: plain numpy and cvxpy, none of the package's numerics."""
