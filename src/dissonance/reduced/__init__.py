"""gamma > 0 where Newton's steps do not fit: the reduced dual, one sum-product pass an evaluation."""
