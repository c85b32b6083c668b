"""The paper's experiments, run again: declared as data; what comes out is tables, figures and a report."""
