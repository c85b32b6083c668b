"""The studio: a local page on which beliefs are a picture one can touch. The library computes, the page shows."""
