"""Linear-Gaussian components as problems in the mean and the covariance of mu."""
