"""The studio: a local web page that shows beliefs as a picture and edits them. The library computes, the page shows."""
