"""What can be asked for on the command line: commands, options, and their limits.

Only argparse is needed here, so that ``renyi --help`` answers at once.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, NoReturn

from renyi import __version__, endings

SMALL = 200_000_000  # bytes of counts that are written without being asked for
_SOURCE = f"a table ({endings.TABLES}), marginals (.renyi) or a bundled name"
_TABLES = (
    f"tables ({endings.TABLES}), patterns such as 'visits-*.csv.gz', folders of "
    "Parquet files, or a bundled name"
)
_BASES = ", ".join(endings.DATABASE)
_DATABASE = f"or, with --table, a DuckDB or SQLite file ({_BASES})"
_WRITTEN = endings.either(endings.WRITTEN)
_GENOTYPES = f"genotypes ({endings.either(endings.GENOTYPES)})"
_MODEL = "a model written by fit (.json)"
_MARGINALS = "marginals (.renyi)"
_WHERE = (
    'only rows that meet a condition, such as "year = 2024" (needs the extra duckdb'
)
_MEMORY = "memory limit, such as 2G (default: half of the memory)"
_PREVALENCE = "answer where the second of two classes, as sorted, has this share"
_PROOF = "write a proof of the bounds for 'renyi verify' (.json)"
_BEFORE = " (put it before options that take several names)"
_EPILOG = """\
examples:
  renyi fit votes --out votes             learn from a bundled data set
  renyi fit visits.csv --target readmitted --id patient --out visits
  renyi predict visits.json new.csv --id patient --out answers.csv
  renyi marginals build visits.csv --target readmitted --out visits.renyi
  renyi marginals build 'visits-*.parquet' --target readmitted \\
        --where "year = 2024" --checkpoint job --out visits.renyi
  renyi export visits.json --sql duckdb --table visits
  renyi export visits.json --points 10 --out visits.html
  renyi select visits.csv --target readmitted --n-features 10
  renyi compare visits.csv --target readmitted --out compare.html
  renyi certify visits.json visits.renyi --exact --time-limit 300
  renyi report visits.json -o visits.html  see the model in a browser
  renyi fit visits.csv --target readmitted --confidence 0.95 --out visits
  renyi fit study.bed --pheno pop.phe --covar pcs.txt --out study

'renyi COMMAND --help' explains a command.
"""


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    # Of later Pythons: escape sequences, which are shown to nobody here.
    color = property(lambda self: False, lambda self, value: None)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Read the arguments, of which some stand in for others."""
        known, _ = self.parse_known_args(args, namespace)
        names = [getattr(known, part, None) for part in ("command", "action")]
        place = " ".join([self.prog, *filter(None, names)])
        lacking = ""  # what a command needs if no option stands in for it
        others = ("sql", "genotype_counts", "ld_panel")
        stands_in = any(getattr(known, name, None) for name in others)
        if getattr(known, "files", None) == [] and not stands_in:
            lacking = f"FILE{_BEFORE}"
        elif getattr(known, "print_sql", None) is False and known.out is None:
            lacking = "--out"
        if lacking:
            self._fail(f"the following arguments are required: {lacking}", place)
        return known

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Read the arguments; an unknown one is reported by its command."""
        self._given = list(args or [])
        known, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return known, rest

    def error(self, message: str) -> NoReturn:
        """Exit with the message, options that may have been meant, where to read on."""
        more = _BEFORE if message.endswith("FILE") else ""
        options = list(self._option_string_actions)
        for text in self._given:
            name = text.partition("=")[0]
            if name.startswith("-") and name not in options:
                meant = option(name.lstrip("-"))
                close = get_close_matches(meant, options, n=1, cutoff=0.7)
                more += f" (did you mean {close[0]}?)" if close else ""
        self._fail(message + more, self.prog)

    def _fail(self, message: str, place: str) -> NoReturn:
        self.exit(2, f"renyi: error: {message}; see '{place} --help'.\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    whole = _Parser(
        prog="renyi",
        description="Classify categorical data from counts of pairs of columns,\n"
        "with a worst-case error that is proven.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    whole.add_argument("--version", action="version", version=f"renyi {__version__}")
    commands = whole.add_subparsers(metavar="COMMAND", required=True, dest="command")
    _add_fit(commands)
    _add_predict(commands)
    _add_certify(commands)
    _add_verify(commands)
    _add_minimax(commands)
    _add_hgr(commands)
    _add_select(commands)
    _add_compare(commands)
    _add_marginals(commands)
    _add_export(commands)
    _add_report(commands)
    text = "list the bundled data sets"
    _add(_command(commands, "datasets", text, "inputs.list_datasets"), "--json")
    return whole


# ---- commands


def _add_fit(commands: Any) -> None:
    parser = _command(commands, "fit", "train a classifier and certify it")
    text = f"{_TABLES}; {_DATABASE}; marginals (.renyi); or {_GENOTYPES}"
    _add_files(parser, text, required=False)
    _add(parser, "--target COL")
    _add_rows(parser)
    _add(parser, "--out PREFIX")
    _add_columns(parser)
    model = parser.add_argument_group("model")
    _add(model, "--alpha auto|loo|NUMBER", "ridge penalty, or how to choose it")
    _add_order(model, "2 trains on all pairs of columns")
    text = (
        "map answers the likelier class; renyi and sharp answer at random, with a "
        "smaller bound in closed form"
    )
    _add(model, "--rule", text)
    _add(model, "--class-weight", "weights of the classes")
    _add(
        model,
        "--objective",
        "what to optimise: the error, or the ranking of two classes",
    )
    _add(model, "--calibration", "how scores become probabilities")
    _add(model, "--no-intercept", "fit the paper's literal form")
    _add(model, "--seed N", "seed of the rules renyi and sharp, and of the halves")
    crossfit = parser.add_argument_group("a certificate for the population")
    text = (
        "train on two random halves of the rows that certify each other's models, with "
        "this confidence, such as 0.95"
    )
    _add(crossfit, "--confidence SHARE", text)
    text = (
        "deploy the mean of the two scorecards (default), or answer by one of them at "
        "random, with a smaller bound"
    )
    _add(crossfit, "--method average|mixture", text)
    least = f"{SMALL / 1e6:.0f} MB"
    text = f"write PREFIX.renyi (default: if its counts take less than {least})"
    _add(parser, "--marginals", text)
    _add_genotypes(parser)
    _add(parser, "--json")


def _add_genotypes(parser: Any) -> None:
    """Add what is learned from genotypes, and which of them."""
    study = _add_samples(parser)
    study.description = (
        "Of the options above, genotypes also take --alpha, --seed, --out, --memory "
        "and --missing, which is category (default) or mean: how missing calls count."
    )
    text = "the two values of the phenotype to tell apart, such as CHB JPT"
    study.add_argument("--classes", nargs=2, metavar=("A", "B"), help=text)
    text = "groups of relatives, always left out together: FID, or a file like --pheno"
    _add(study, "--groups FILE", text)
    text = "one weight per copy, not points for each number of copies"
    _add(study, "--additive", text)
    _add(study, "--compare", "compare the models with and without --additive")
    text = f"write scores without each chromosome to PREFIX{endings.LOCO}"
    _add(study, "--loco", text)
    _add(study, "--prevalence SHARE", "state R² on the liability scale at this share")
    text = f"draw how much each variant matters ({endings.either(endings.PICTURE)})"
    _add(study, "--plot FILE", text)
    _add(study, "--device", "where to compute (cuda needs the extra gpu)")
    text = "instead of FILE: counts of cases and controls, a line per variant"
    _add(study, "--genotype-counts FILE", text)
    _add(
        study,
        "--ld-panel FILE",
        "with --genotype-counts: genotypes (.bed, .pgen) of other people",
    )
    kept = parser.add_argument_group("genotypes to leave out")
    _add(kept, "--extract FILE", "only variants of these ids")
    _add(kept, "--exclude FILE", "no variants of these ids")
    _add(kept, "--chr NAME ...", "only these chromosomes, such as 1-22 or X")
    _add(kept, "--region PLACE ...", "only these places, such as 6:25000000-34000000")
    _add(kept, "--mind SHARE", "no samples with more missing calls than this share")
    _add(kept, "--geno SHARE", "no variants with more missing calls than this share")
    _add(kept, "--maf SHARE", "no variants with a rarer allele below this frequency")


def _add_samples(parser: Any) -> Any:
    """Add files about the samples of genotypes."""
    study = parser.add_argument_group(_GENOTYPES)
    text = "a file with FID IID or IID, then the phenotype (default: .fam or .psam)"
    _add(study, "--pheno FILE", text)
    _add(study, "--pheno-name COL", "its column")
    _add(
        study,
        "--covar FILE",
        "covariates to add to the variants, in a file like --pheno",
    )
    _add(study, "--covar-name COL ...", "its columns (default: all)")
    _add(study, "--keep FILE", "only these samples (FID IID or IID)")
    _add(study, "--remove FILE", "none of these samples")
    _add(study, "--build NAME", "genome build of the positions, such as GRCh38")
    return study


def _add_predict(commands: Any) -> None:
    parser = _command(commands, "predict", "predict the rows of a table with a model")
    parser.epilog = (
        "Predict the rows of a database inside it, with the statement that 'renyi "
        "export MODEL --sql duckdb --table NAME' writes."
    )
    text = f"{_MODEL}; for {_GENOTYPES} also a scoring file of the PGS Catalog"
    parser.add_argument("model", metavar="MODEL", help=text)
    _add_files(parser, f"{_TABLES}; or {_GENOTYPES}")
    text = f"write to a file ({_WRITTEN}; .tsv of genotypes), not to stdout"
    _add(parser, "--out FILE", text)
    _add(parser, "--where SQL", f"{_WHERE})")
    _add(parser, "--id COL ...", "columns to copy beside the answers")
    _add(parser, "--proba", "add the estimated class probabilities")
    _add(parser, "--score", "add the scores")
    _add(parser, "--prevalence SHARE")
    text = "take all alleles as on the model's strand, also of A/T and C/G variants"
    _add(_add_samples(parser), "--same-strand", text)
    _add(parser, "--memory SIZE")
    _add(parser, "--spreadsheet")
    _add(parser, "--json")


def _add_certify(commands: Any) -> None:
    text = "bound the error of a model by marginals, unseen rows or two halves"
    parser = _command(commands, "certify", text)
    parser.add_argument("model", metavar="MODEL", nargs="?", help=_MODEL)
    parser.add_argument("file", metavar="MARGINALS", nargs="?", help=_MARGINALS)
    text = (
        "how far to go: the closed form (default), a linear program, or the exact "
        "worst case and what any rule could promise"
    )
    _add_level(parser, text)
    _add(parser, "--proof FILE")
    text = (
        "also bound the error if the second of two classes, as sorted, has this share"
    )
    _add(parser, "--prevalence SHARE", text)
    rows = _add_heldout(parser, "certify by these rows, not by marginals")
    _add(rows, "--confidence SHARE", "confidence of the bound (default 0.95)")
    halves = parser.add_argument_group("two halves of the rows, or two samples")
    text = "train on the marginals of each, and certify by those of the other"
    halves.add_argument("--halves", nargs=2, metavar=("A.renyi", "B.renyi"), help=text)
    _add(halves, "--out FILE.json", "write the model, the mean of the two")
    _add(parser, "--memory SIZE")
    _add(parser, "--json")


def _add_verify(commands: Any) -> None:
    text = "check claims exactly: proved (exit code 0), not proved (1), wrong file (2)"
    parser = _command(commands, "verify", text, "certify.run_verify")
    parser.epilog = (
        "The single file renyi/verify.py does the same where renyi is not installed."
    )
    text = f"{_MODEL}; not for a proof written by minimax"
    parser.add_argument("model", metavar="MODEL", nargs="?", help=text)
    parser.add_argument("file", metavar="MARGINALS", help=_MARGINALS)
    _add(parser, "--proof FILE", "the proof written by certify or minimax --proof")
    _add(parser, "--json")


def _add_minimax(commands: Any) -> None:
    text = "find the smallest worst error that any rule can promise"
    parser = _command(commands, "minimax", text, "certify.run_minimax")
    parser.add_argument("file", metavar="FILE", help=_SOURCE)
    _add(parser, "--target COL")
    search = parser.add_argument_group("search")
    text = (
        "lp: an upper bound by one linear program; exact: close the interval; auto: "
        "exact where it takes seconds"
    )
    _add(search, "--method", text)
    _add(search, "--time-limit SECONDS")
    _add(search, "--seed N", "seed of the search")
    text = f"write the worst distribution as a table ({_WRITTEN})"
    _add(parser, "--worst FILE", text)
    _add(parser, "--proof FILE")
    _add(parser, "--spreadsheet")
    _add_columns(parser, unseen=False)
    _add(parser, "--json")


def _add_hgr(commands: Any) -> None:
    text = "rank columns by their maximal correlation with the target"
    parser = _command(commands, "hgr", text, "select.run_hgr")
    parser.add_argument("file", metavar="FILE", help=_SOURCE)
    _add(parser, "--target COL")
    _add(parser, "--matrix", "print the correlation of every pair of columns")
    _add_columns(parser, unseen=False, class_conditional=False)
    _add(parser, "--json")


def _add_select(commands: Any) -> None:
    parser = _command(commands, "select", "select features, and train on them alone")
    parser.add_argument("file", metavar="FILE", help=_SOURCE)
    _add(parser, "--target COL")
    number = parser.add_mutually_exclusive_group()
    _add(number, "--n-features K", "select exactly K features")
    text = "penalty on a feature's largest point (default: by cross-validation)"
    _add(number, "--penalty NUMBER", text)
    text = "select the fewest features with an error certified to be at most this"
    _add(number, "--max-error SHARE", text)
    _add_order(parser, "2 selects among pairs of columns")
    _add(parser, "--rule", "how the refitted model answers")
    _add(parser, "--out PREFIX")
    text = f"draw the path ({endings.either(endings.PICTURE)}); needs the extra plot"
    _add(parser, "--plot FILE", text)
    _add_columns(parser, class_conditional=False)
    _add(parser, "--json")


def _add_compare(commands: Any) -> None:
    text = "compare several methods, or models, on the same rows"
    parser = _command(commands, "compare", text)
    parser.epilog = (
        "Methods: map, renyi, sharp (rules of the points), uncalibrated, order2, "
        "average and mixture (of halves that certify each other), minimax, dcc, mpm, "
        "tan, logistic, naive-bayes, majority; all for all of them."
    )
    text = (
        f"a table ({endings.TABLES}) or a bundled name; for --models, rows not used in "
        "training"
    )
    parser.add_argument("file", metavar="FILE", help=text)
    _add(parser, "--target COL")
    _add(parser, "--methods NAME ...", "train these (default: the quick ones)")
    _add(parser, "--models MODEL ...", "compare these models, written by fit (.json)")
    rows = parser.add_mutually_exclusive_group()
    _add(rows, "--folds K", "evaluate by cross-validation in K folds (default 10)")
    _add(
        rows,
        "--test SHARE",
        "evaluate on this share of the rows, train on the others",
    )
    _add(parser, "--confidence SHARE", "confidence of each interval (default 0.95)")
    _add(parser, "--seed N", "seed of folds, halves and random answers")
    _add(parser, "--out FILE.html", "write one page with a chart")
    _add_columns(parser, class_conditional=False)
    _add(parser, "--json")


def _add_marginals(commands: Any) -> None:
    parser = _command(commands, "marginals", "build, merge, subtract or show marginals")
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    text = "count the pairs of columns of a table"
    build = _command(actions, "build", text, "marginals.build")
    _add_files(build, f"{_TABLES}; {_DATABASE}", required=False)
    _add(build, "--target COL")
    text = "use its columns and bins, so that the counts can be combined"
    _add(build, "--encoder MODEL_OR_MARGINALS", text)
    _add_order(build, "2 counts pairs of pairs of columns", "--encoder")
    _add_rows(build)
    text = (
        "print the statements for --table, and count nothing: those about single "
        "columns are run now, since the others depend on the answers; those that read "
        "rows or count pairs are only printed"
    )
    _add(build, "--print-sql", text)
    _add_columns(build)
    text = "add up marginals of disjoint rows"
    merge = _command(actions, "merge", text, "marginals.merge")
    merge.add_argument("files", metavar="MARGINALS", nargs="+")
    text = "take the rows of B out of A"
    subtract = _command(actions, "subtract", text, "marginals.subtract")
    subtract.add_argument("first", metavar="A", help=_MARGINALS)
    subtract.add_argument("second", metavar="B", help=_MARGINALS)
    show = _command(actions, "show", "print what marginals hold", "marginals.show")
    show.add_argument("file", metavar="MARGINALS", help=_MARGINALS)
    text = "print the table of two columns"
    show.add_argument("--pair", nargs=2, metavar=("X", "Y"), help=text)
    _add(show, "--json")
    for each in (merge, subtract, show):
        _add(each, "--memory SIZE")
    for each in (build, merge, subtract):
        out = each.add_argument("--out", metavar="M.renyi", help="where to write")
        out.required = each is not build  # which may just print statements
        _add(each, "--json")


def _add_export(commands: Any) -> None:
    text = "write a model as a function, as SQL, as points, or as genotype scores"
    parser = _command(commands, "export", text)
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    text = (
        "a table of the points (csv, md), a function in one file (python, javascript), "
        "or a file for ONNX or skops; with --points also html; default: by the ending "
        "of --out"
    )
    _add(parser, "--format", text)
    kind = parser.add_mutually_exclusive_group()
    _add(kind, "--sql", "the engine that SQL is for")
    text = "whole points to add up by hand, no more than N for a category (two classes)"
    _add(kind, "--points N", text)
    text = (
        "a model of genotypes as files that plink2 --score reads (PREFIX"
        f"{endings.PLINK2[0]} and more), or as a scoring file of the PGS Catalog "
        f"({endings.either(endings.PGS)})"
    )
    _add(kind, "--scores", text)
    points = parser.add_argument_group("points")
    text = "choose and certify them by these marginals (default: MODEL's own .renyi)"
    _add(points, "--marginals M", text)
    _add(parser, "--spreadsheet")
    _add(parser, "--prevalence SHARE")
    text = (
        "write a SELECT that adds scores and answers to this table, not only the "
        "expression of a score"
    )
    _add(parser, "--table NAME", text)
    _add(parser, "--label CLASS", "class to score (default: the second of two)")
    _add(parser, "--out FILE", "write to a file, not to stdout")
    _add(parser, "--memory SIZE")


def _add_report(commands: Any) -> None:
    text = "write a self-contained HTML page about a model, and its figures as JSON"
    parser = _command(commands, "report", text)
    parser.add_argument("model", metavar="MODEL", help=f"{_MODEL}, of genotypes too")
    text = f"{_MARGINALS} (default: MODEL's own)"
    parser.add_argument("file", metavar="MARGINALS", nargs="?", help=text)
    text = "where to write (default: MODEL's name with .report.html)"
    parser.add_argument("-o", "--out", metavar="FILE", help=text)
    text = "show bounds up to a linear program, or to the exact worst case"
    _add_level(parser, text)
    _add(parser, "--path", "show in which order features would be selected")
    text = "write a model card beside it: README.md and modelcard.cdx.json"
    _add(parser, "--card", text)
    text = "show errors, calibration and ROC of these rows; none of them is kept"
    _add_heldout(parser, text)
    _add(parser, "--memory SIZE")
    _add(parser, "--json")


def _command(commands: Any, name: str, text: str, run: str = "") -> Any:
    """Add a command, done by `run` in the module of its name, or by another."""
    about = f"{text[0].upper()}{text[1:]}."
    parser = commands.add_parser(name, help=text, description=about, allow_abbrev=False)
    parser.set_defaults(run=run or f"{name}.run")
    return parser


# ---- options


def option(name: str) -> str:
    """Return the option that sets an argument of this name."""
    return f"--{name.replace('_', '-')}"


def _add_files(parser: Any, text: str, required: bool = True) -> None:
    """Add FILE, of which there may be several."""
    files = parser.add_argument(
        "files", metavar="FILE", nargs="+", help=text, default=[]
    )
    # With nargs="*", a file that comes after options would not be found.
    files.required = required


def _add_order(parser: Any, text: str, whose: str = "the marginals") -> None:
    text = f"columns in a feature: {text} (default 1, or that of {whose})"
    _add(parser, "--order R", text)


def _add_level(parser: Any, text: str) -> None:
    """Add how far bounds go, and how long that may take."""
    level = parser.add_mutually_exclusive_group()
    _add(level, "--level", text)
    _add(level, "--exact", "short for --level exact")
    _add(parser, "--time-limit SECONDS")


def _add_heldout(parser: Any, text: str) -> Any:
    """Add rows that the model has not seen; return their group."""
    rows = parser.add_argument_group("rows that were not used in training")
    _add(rows, "--rows FILE", text)
    _add(rows, "--target COL", "their class (by default named as in training)")
    return rows


def _add_rows(parser: Any) -> None:
    """Add conditions, queries, tables of databases, and what a long count may need."""
    rows = parser.add_argument_group("rows")
    _add(rows, "--where SQL", f"{_WHERE}, but for a table of a SQLite database)")
    text = "the rows of a query for DuckDB; the files, if any, are its table data"
    _add(rows, "--sql QUERY", text)
    text = f"a table of a database ({_BASES})"
    _add(rows, "--table NAME", text)
    text = "save the counts so far: the same command resumes if it was interrupted"
    _add(rows, "--checkpoint FILE", text)


def _add_columns(
    parser: Any, unseen: bool = True, class_conditional: bool = True
) -> None:
    """Add what is to be done with the columns."""
    columns = parser.add_argument_group("columns")
    _add(columns, "--id COL ...", "identifiers, not used in training")
    _add(columns, "--drop COL ...", "columns to leave out")
    _add(columns, "--numeric COL ...", "columns to bin, whatever they look like")
    _add(columns, "--categorical COL ...", "columns of labels, even if numbers")
    _add(columns, "--missing CODE ...", "cells that mean missing (so do ? and '')")
    _add(columns, "--weight COL", "column of row weights")
    _add(columns, "--bins N", "bins of a numeric column (default 5)")
    _add(columns, "--min-count N", "merge labels on fewer rows than N")
    if unseen:
        text = "labels unseen in training: count as the mean (default), or stop"
        _add(columns, "--unseen", text)
    if class_conditional:
        _add(columns, "--class-conditional", "count the pairs within each class too")
    text = "stream rows that need more memory, such as 2G (default: half of the memory)"
    _add(columns, "--memory SIZE", text)
    # What a command lacks is not given.
    rows = dict.fromkeys(("where", "sql", "table", "checkpoint"))
    parser.set_defaults(unseen=None, class_conditional=False, **rows)


def _add(parser: Any, usage: str, text: str = "") -> None:
    """Add an option; `usage` is as in ``--json``, ``--out FILE`` or ``--id COL ...``.

    The last takes one or more values, and may be given several times.
    """
    name, *values = usage.split()
    settings = {**_SETTINGS.get(usage, {} if values else {"action": "store_true"})}
    if text:
        settings["help"] = text
    if values:
        settings["metavar"] = values[0]
    if values[1:]:
        settings |= {"nargs": "+", "action": "extend", "default": []}
    parser.add_argument(name, **settings)


def _value(
    what: str, fits: Callable[[Any], bool], read: Callable[[str], Any] = float
) -> Callable[[str], Any]:
    """Return what reads a value; what does not fit is refused."""

    def value(text: str) -> Any:
        try:
            found = read(text)
        except ValueError:
            found = math.nan
        if not fits(found):
            raise argparse.ArgumentTypeError(f"{text!r:.60} is not {what}")
        return found

    return value


def _whole(least: int, most: float = math.inf) -> Callable[[str], Any]:
    limits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
    return _value(f"a whole number {limits}", lambda n: least <= n <= most, int)


def _bytes(text: str) -> int:
    """Read a size: 2G is 2·10⁹ bytes."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    return int(float(number) * 1000 ** " KMGT".index(unit or " "))


_SIZE = _value("a size such as 500M or 2G", lambda n: 1000 <= n < 2**63, _bytes)
_POSITIVE = _value("a number above 0", lambda x: 0 < x < math.inf)
_SHARE = _value("a number between 0 and 1", lambda x: 0 < x < 1)
_AMOUNT = _value("a number from 0 to 1", lambda x: 0 <= x <= 1)
_ALPHA = _value(
    "auto, loo or a number of at least 0",
    lambda x: x in ("auto", "loo") or 0 <= x < math.inf,
    lambda text: text if text in ("auto", "loo") else float(text),
)
_SETTINGS: dict[str, dict[str, Any]] = {
    "--alpha auto|loo|NUMBER": {"type": _ALPHA, "default": "auto"},
    "--bins N": {"type": _whole(2, 10_000)},
    "--calibration": {
        "choices": ("auto", "temperature", "affine", "discriminant", "none"),
        "default": "auto",
    },
    "--class-weight": {"choices": ("balanced",)},
    "--device": {"choices": ("cpu", "cuda")},
    "--confidence SHARE": {"type": _SHARE},
    "--exact": {"action": "store_const", "const": "exact", "dest": "level"},
    "--folds K": {"type": _whole(2, 1000)},
    "--format": {"choices": tuple(endings.EXPORTS)},
    "--geno SHARE": {"type": _AMOUNT},
    "--json": {"action": "store_true", "help": "print one JSON object"},
    "--level": {"choices": ("closed", "lp", "exact")},
    "--marginals": {"action": argparse.BooleanOptionalAction},
    "--marginals M": {"dest": "file"},
    "--maf SHARE": {"type": _AMOUNT},
    "--max-error SHARE": {"type": _SHARE},
    "--method": {"choices": ("auto", "lp", "exact"), "default": "auto"},
    "--memory SIZE": {"type": _SIZE, "help": _MEMORY},
    "--method average|mixture": {"choices": ("average", "mixture")},
    "--min-count N": {"type": _whole(1)},
    "--mind SHARE": {"type": _AMOUNT},
    "--n-features K": {"type": _whole(1)},
    "--objective": {"choices": ("error", "ranking"), "default": "error"},
    "--order R": {"type": _whole(1, 9)},
    "--out PREFIX": {
        "help": "write PREFIX.json (model), PREFIX.log and PREFIX.renyi (marginals)"
    },
    "--penalty NUMBER": {"type": _POSITIVE},
    "--points N": {"type": _whole(1, 1000)},
    "--prevalence SHARE": {"type": _SHARE, "help": _PREVALENCE},
    "--proof FILE": {"help": _PROOF},
    "--rule": {"choices": ("map", "renyi", "sharp"), "default": "map"},
    "--scores": {"choices": ("plink2", "pgs")},
    "--seed N": {"type": _whole(0, 2**32 - 1)},
    "--sql": {"choices": ("duckdb", "postgres", "spark", "sqlite")},
    "--spreadsheet": {
        "action": "store_true",
        "help": "put ' before cells of CSV that a spreadsheet would compute (=…, @…)",
    },
    "--test SHARE": {"type": _SHARE},
    "--target COL": {"help": "the column to predict"},
    "--time-limit SECONDS": {
        "type": _POSITIVE,
        "help": "stop after this time with the result so far, as Ctrl-C does",
    },
    "--unseen": {"choices": ("mean", "error")},
}
