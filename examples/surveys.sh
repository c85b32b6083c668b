#!/bin/sh
# Three tables of different shapes that disagree: a verdict, a labelled joint, reconciled tables, a report.
set -e
cd "$(dirname "$0")/surveys"
out=${1:-../surveys-out}
mkdir -p "$out"
dissonance score phone.csv panel.csv till.csv --chance 1000                      # the verdict, and whether it is chance
dissonance query phone.csv panel.csv till.csv --joint                            # the best compromise, with its labels
dissonance resolve phone.csv panel.csv till.csv --keep till --out "$out/tables/" # the tables, made to fit the till
dissonance score "$out"/tables/*.csv --top 0                                     # they do
dissonance report phone.csv panel.csv till.csv --out "$out/report.html"          # all of it in one file
