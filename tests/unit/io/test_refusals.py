"""What a reader does not understand is refused in one line: file, line, reason."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from networks import BIF, MARKOV, UAI, XMLBIF

from dissonance.errors import DissonanceError, FormatError
from dissonance.io import load

WRONG = {
    "bif: a word too many": (BIF.replace("(yes) 0.05", "(yes) 0.05 x"), "9: expected a number or ';' in the prob"),
    "bif: an unknown block": ("netwrk x {}\n" + BIF, "1: expected network, variable or probability, found 'netwrk"),
    "bif: an unknown value": (BIF.replace("(no) ", "(nope) "), "8: 'Asia' has no value 'nope'. Did you mean 'no'?"),
    "bif: an unknown parent": (
        BIF.replace("Tub | Asia", "Tub | Aisa"),
        "7: no variable named 'Aisa'. Did you mean 'Asia'",
    ),
    "bif: too few numbers": (
        BIF.replace("0.01, 0.99;\n", "1;\n"),
        "8: in the probability of 'Tub' the row has 1 numbers; 2",
    ),
    "bif: a wrong sum": (
        BIF.replace("0.05, 0.95", "0.05, 0.94"),
        "9: the probability of 'Tub': the slice at Asia=yes sums to 0.99",
    ),
    "bif: a default with a wrong sum": (BIF.replace("0.2, 0.3, 0.5", "0, 0, 0"), "12: the probability of 'X ray'"),
    "bif: a negative number": (
        BIF.replace("0.05, 0.95", "-0.05, 1.05"),
        "9: the probability of 'Tub': the slice at Asia=yes holds the negative",
    ),
    "bif: infinite": (
        BIF.replace("0.05, 0.95", "1e999, 0"),
        "9: the probability of 'Tub': the slice at Asia=yes holds a number that is not finite",
    ),
    "bif: not a number": (
        BIF.replace("0.05, 0.95", "0.0.5, 0.95"),
        "9: in the probability of 'Tub' the row holds what is not a number",
    ),
    "bif: a row twice": (
        BIF.replace("(no) 0.01", "(yes) 0.01"),
        "9: the probability of 'Tub' gives the same row twice",
    ),
    "bif: a row missing": (
        BIF.replace("default 0.2, 0.3, 0.5;", ""),
        "11: the probability of 'X ray' has 1 of 4 rows and no default",
    ),
    "bif: a table and rows": (
        BIF.replace("(no) 0.01", "table 1 1 0 0; (no) 0.01"),
        "8: the probability of 'Tub' has both a table and rows",
    ),
    "bif: one probability missing": (
        BIF.replace("probability ( Asia ) { table 0.01, 0.99; }", ""),
        " variable 'Asia' has no probability",
    ),
    "bif: two probabilities": (
        BIF + "probability ( Asia ) { table 1, 0; }",
        "15: variable 'Asia' has two probabilities; the first is on line 6",
    ),
    "bif: two variables": (BIF.replace("variable Tub", "variable Asia"), "4: two variables are named 'Asia'"),
    "bif: a miscount": (
        BIF.replace("discrete [ 3 ]", "discrete [ 2 ]"),
        "5: variable 'X ray' has 3 values, but says [ 2 ]",
    ),
    "bif: a value twice": (BIF.replace("{ yes no }", "{ no no }"), "4: variable 'Tub' has the value 'no' twice"),
    "bif: a continuous variable": (
        BIF.replace("type discrete[2]", "type continuous[2]"),
        "4: the type of variable 'Tub' must be discrete",
    ),
    "bif: a cycle": (
        BIF.replace("( Asia ) { table 0.01, 0.99; }", "( Asia | Tub ) { default 0.5 0.5; }"),
        "7: the network has a directed cycle: Tub -> Asia -> Tub",
    ),
    "bif: itself a parent": (
        BIF.replace("Tub | Asia", "Tub | Tub"),
        "7: the probability of 'Tub' mentions 'Tub' twice",
    ),
    "bif: cut short": (BIF[:-20], "13: expected a number or ';' in the probability of 'X ray', found '/*'"),
    "bif: a default for everything": (
        "".join(f"variable v{i} {{ type discrete [ 2 ] {{ a, b }}; }}\n" for i in range(31))
        + f"probability ( v0 | {', '.join(f'v{i}' for i in range(1, 31))} ) {{ default 1, 0; }}",
        "32: the probability of 'v0' would be a table of 2147483648 numbers",
    ),
    "bif: too many parents": (
        "".join(f"variable v{i} {{ type discrete [ 1 ] {{ a }}; }}\n" for i in range(40))
        + f"probability ( v0 | {', '.join(f'v{i}' for i in range(1, 40))} ) {{ default 1; }}",
        "41: the probability of 'v0' has 40 variables; at most 32",
    ),
    "bif: a half comment": (
        BIF + "/* never closed",
        "15: expected network, variable or probability, found '/* never closed'",
    ),
    "xmlbif: not well-formed": (XMLBIF.replace("</FOR>", "<FOR>", 1), "8: did not understand <FOR> in FOR"),
    "xmlbif: cut short": (XMLBIF[:-20], "11: is not well-formed XML: "),
    "xmlbif: an unknown element": (
        XMLBIF.replace("OUTCOME", "OUTCOMES"),
        "4: did not understand <OUTCOMES> in VARIABLE. Did you mean 'OUTCOME'?",
    ),
    "xmlbif: another document": ("<html></html>", "1: did not understand <html> as the outermost element"),
    "xmlbif: a decision": (
        XMLBIF.replace('TYPE="nature"', 'TYPE="decision"', 1),
        "4: variable 'Asia' is of type 'decision'",
    ),
    "xmlbif: an entity": (
        XMLBIF.replace("<!ELEMENT BIF ( NETWORK )*>", '<!ENTITY a "b">'),
        "2: declares the entity 'a'",
    ),
    "xmlbif: a wrong size": (
        XMLBIF.replace("0.01 0.99</TABLE>", "0.99</TABLE>", 1),
        "8: the TABLE of 'Asia' has 1 numbers; 2 are needed",
    ),
    "xmlbif: no number": (
        XMLBIF.replace(">0.01 0.99</TABLE>", ">nan 0.99</TABLE>"),
        "8: the TABLE of 'Asia' holds what is not a number",
    ),
    "xmlbif: an encoding of no one": (XMLBIF.replace("US-ASCII", "klingon"), " is not "),
    "xmlbif: stray text": (XMLBIF.replace("<NETWORK>", "<NETWORK>hello"), "3: did not understand 'hello"),
    "uai: another kind": ("BAYES2\n", "1: expected BAYES or MARKOV, found 'BAYES2'"),
    "uai: no such variable": (UAI.replace("2 0 1", "2 7 1"), "6: a variable of table 2 is 7; it must be less than 3"),
    "uai: a wrong size": (UAI.replace("4 0.05", "5 0.05"), "9: table 2 has size 5; its variables need 4"),
    "uai: a wrong sum": (
        UAI.replace(".9 .1 0", ".9 .2 0"),
        "12: the probability of 'x2': the slice at x1=0, x0=1 sums to 1.1",
    ),
    "uai: cut short": (UAI[:-9], "14: the file ends in table 3: 11 of 12 numbers"),
    "uai: too much": (UAI + "\n 7", "16: did not understand '7' after the last table"),
    "uai: no number": (UAI.replace("0.95", "O.95"), "9: table 2 holds 'O.95', which is not a number"),
    "uai: nan": (UAI.replace("0.95", "nan"), "9: table 2 holds 'nan', which is not a number"),
    "uai: a huge variable": ("MARKOV\n2\n999999999 2\n0\n", "3: variable 0 has size 999999999"),
    "uai: a negative factor": (MARKOV.replace(" 7 ", " -7 "), "8: table 1: a factor needs finite non-negative entries"),
    "uai: an empty scope": (MARKOV.replace("2 0 1", "0 "), "5: table 1 has 0 variables"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_understood_is_refused_with_its_line(case: str):
    text, message = WRONG[case]
    with pytest.raises(FormatError) as refused:
        load(io.BytesIO(text.encode()), format=case.partition(":")[0])
    assert str(refused.value).removeprefix("the input:").startswith(message)


def test_a_refusal_names_the_file_and_its_error_the_line(tmp_path: Path):
    path = tmp_path / "m.bif"
    path.write_text(BIF.replace("0.05, 0.95", "0.05, 0.94"))
    with pytest.raises(FormatError, match=r"m\.bif:9: the probability of 'Tub'") as refused:
        load(path)
    assert refused.value.line == 9


def test_a_gzip_file_that_is_cut_short_is_refused(tmp_path: Path):
    path = tmp_path / "m.bif.gz"
    path.write_bytes(gzip.compress(BIF.encode())[:-12])
    with pytest.raises(FormatError, match="is not a whole gzip file"):
        load(path)


def test_an_unknown_format_is_refused_and_the_nearest_one_named():
    with pytest.raises(DissonanceError, match=r"no format named 'xmlbfi'\. Did you mean 'xmlbif'"):
        load(io.BytesIO(b""), format="xmlbfi")
