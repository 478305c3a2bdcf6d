"""CertificateDisplay: bounds on the error, from the estimate to the worst case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

from renyi.certificates.record import CLOSED, BoundReport, Certificate, Step
from renyi.certificates.text import ALONE
from renyi.certification import bound_report, simple_rules
from renyi.drawing import COLOURS, axes, literal
from renyi.formatting import at_most, chosen_percent, percent, wrapped
from renyi.marginals.marginals import Marginals
from renyi.plots import owner_of, shown
from renyi.rules import RULES

_WIDTH = 34  # of a name
_LINE = 0.3  # inches


class Rung(NamedTuple):
    """A line of the ladder: an error that is known, or what it can be at most."""

    group: str
    name: str
    value: float | None = None  # known exactly, seen or estimated
    lower: float | None = None  # of a bound, where some distribution attains it
    upper: float | None = None


class CertificateDisplay:
    """What is known of the error of a model, as a ladder.

    A dot is an error that is known or estimated. A bar ends where the error is proven
    to end; a diamond is an error that some distribution attains.

    Parameters
    ----------
    rungs : sequence of Rung
        The lines, from above.
    notes : sequence of str
        Why the bounds may say little about new rows; they are drawn paler then.

    Attributes
    ----------
    bars_ : list of BarContainer
        One for every rung with an upper bound, in order.
    dots_ : Line2D or None
        The errors that are known or estimated.
    ax_, figure_
        What it was drawn on.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X, y)
    >>> display = renyi.CertificateDisplay.from_estimator(clf)
    >>> [(rung.name, rung.upper) for rung in display.rungs][1]
    ('closed form', 0.121...)
    """

    def __init__(self, rungs: Sequence[Rung], *, notes: Sequence[str] = ()) -> None:
        self.rungs = tuple(rungs)
        self.notes = tuple(notes)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the certificate of a fitted classifier, or what its rule guarantees."""
        model = owner_of("certificate_", estimator)
        found = getattr(model, "certificate_", None)
        if found is not None:
            return cls.from_certificate(found, ax=ax)
        promise = getattr(model, "guarantee_", None)
        if promise is None:
            raise TypeError(
                f"A {type(estimator).__name__} has no certificate: give a fitted "
                "RenyiClassifier, CrossFitClassifier or MinimaxClassifier."
            )
        result = getattr(model, "result_", None)
        note = getattr(model, "note_", "")
        shown = getattr(result, "worst_distribution", None) is not None
        lower = result.lower if result is not None and shown else None
        rungs = [Rung("Worst case of this rule", "guarantee", None, lower, promise)]
        if model.marginals_ is not None:
            rungs += _exact("For comparison", simple_rules(model.marginals_))
        return cls(rungs, notes=[note] if note else []).plot(ax)

    @classmethod
    def from_certificate(cls, certificate: Certificate, *, ax: Any = None) -> Self:
        """Draw a certificate, whatever it rests on."""
        if not isinstance(certificate, Certificate):
            raise TypeError(
                f"certificate must be a Certificate, not a "
                f"{type(certificate).__name__}: `certify` makes one."
            )
        rungs = [*_known(certificate), *_bounds(certificate)]
        if certificate.majority is not None and certificate.one_feature is not None:
            rungs += _exact("For comparison", simple_rules(certificate))
        return cls(rungs, notes=_notes(certificate)).plot(ax)

    @classmethod
    def from_marginals(
        cls,
        model: Any,
        m: Marginals,
        *,
        level: str = "lp",
        time_limit: float | None = None,
        ax: Any = None,
    ) -> Self:
        """Bound the worst error by marginals, and what any rule could promise.

        Parameters
        ----------
        model : RenyiClassifier or Scorecard
            Whose bounds are looked for.
        m : Marginals
            Of the training rows, or of any others.
        level : {"lp", "exact"}
            How far to go, as in `certify`.
        time_limit : float, optional
            Seconds for the programs together.
        ax : matplotlib axes, optional
            Where to draw.
        """
        report = bound_report(model, m, level=level, time_limit=time_limit)
        return cls.from_report(report, ax=ax)

    @classmethod
    def from_report(cls, report: BoundReport, *, ax: Any = None) -> Self:
        """Draw the bounds of a model beside what any rule could promise."""
        c = report.certificate
        rungs = [*_known(c), *_bounds(c, report.model)]
        rungs += _exact("What any rule could promise", report.any_rule)
        return cls(rungs, notes=_notes(c)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw it on some axes, or on a figure of its own."""
        groups = list(dict.fromkeys(rung.group for rung in self.rungs))
        lines: list[tuple[str, Rung | None]] = []
        for group in groups:
            rungs = [rung for rung in self.rungs if rung.group == group]
            lines += [(literal(group), None)]
            lines += [(shown(rung.name, _WIDTH), rung) for rung in rungs]
        height = 1.1 + _LINE * len(lines) + 0.4 * bool(self.notes)
        self.ax_ = ax = axes(ax, 7, height)
        self.figure_ = ax.figure
        dots = []
        self.bars_: list[Any] = []
        pale = 0.45 if self.notes else 1.0
        beside: Any = {"xytext": (7, 0), "textcoords": "offset points"}
        beside |= {"va": "center", "fontsize": 8}
        for y, (_, rung) in enumerate(lines):
            if rung is None:
                continue
            if rung.upper is not None:
                self._draw_bound(y, rung, pale)
                text = f"≤ {at_most(rung.upper)}"
                ax.annotate(text, (rung.upper, y), **beside)
            if rung.value is not None:
                dots.append((rung.value, y))
                ax.annotate(percent(rung.value, 2), (rung.value, y), **beside)
        self.dots_ = None
        if dots:
            x, at = zip(*dots, strict=True)
            (self.dots_,) = ax.plot(x, at, "o", color=COLOURS[1], ms=6, clip_on=False)
        self._name(lines)
        return self

    def _draw_bound(self, y: int, rung: Rung, pale: float) -> None:
        """Draw what an error can be at most, and from where on it is not known."""
        ax = self.ax_
        upper = rung.upper
        colour = {"color": COLOURS[0], "alpha": 0.35 * pale}
        self.bars_.append(ax.barh([y], [upper], 0.5, **colour))
        ax.plot([upper, upper], [y - 0.25, y + 0.25], color=COLOURS[0], lw=2)
        if rung.lower is not None:
            ax.plot([rung.lower, upper], [y, y], color="black", lw=2)
            ax.plot([rung.lower], [y], "D", color="black", ms=5)

    def _explain(self) -> None:
        """Say what bars, diamonds and dots are."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        shown: list[Any] = []
        if self.bars_:
            shown += [Patch(color=COLOURS[0], alpha=0.35, label="proven: at most")]
        if any(rung.lower is not None for rung in self.rungs):
            text = "some distribution attains it"
            shown += [Line2D([], [], color="black", marker="D", ms=5, label=text)]
        if self.dots_ is not None:
            look: Any = {"marker": "o", "color": COLOURS[1], "ls": ""}
            shown += [Line2D([], [], label="known or estimated", **look)]
        where: Any = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0)}
        self.ax_.legend(handles=shown, ncols=3, fontsize=8, frameon=False, **where)

    def _name(self, lines: list[tuple[str, Rung | None]]) -> None:
        ax = self.ax_
        ends = [x for r in self.rungs for x in (r.value, r.upper) if x is not None]
        reach = 1.2 * max([*ends, 1e-3])
        ax.set_xlim(0, reach)
        ax.set_xticks([x for x in ax.get_xticks() if 0 <= x <= 1])
        ax.set_xlim(0, reach)
        ax.set_ylim(len(lines) - 0.4, -0.6)
        ax.xaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
        names = [name if rung else "" for name, rung in lines]
        ax.set_yticks(range(len(lines)), names, fontsize=8)
        ax.tick_params(axis="y", length=0)
        head: Any = {"fontsize": 8, "fontweight": "bold", "va": "center"}
        head["transform"] = ax.get_yaxis_transform()
        for y, (name, rung) in enumerate(lines):
            if rung is None:
                ax.text(0.005, y, name, **head)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        about = "share of wrong answers"
        if self.notes:
            about += "\n" + wrapped(literal(f"{ALONE} {self.notes[0]}"))
        ax.set_xlabel(about)
        self._explain()


def _known(c: Certificate) -> list[Rung]:
    """Return what was seen or estimated, and its bound on the sampled population."""
    found = []
    if c.loo_error is not None:
        group = "New rows, estimated"
        found.append(Rung(group, "leave-one-out, rule map", c.loo_error))
    if c.sampled_error is not None and c.confidence is not None:
        group = f"The sampled population, confidence {chosen_percent(c.confidence)}"
        if c.observed_error is not None:
            name = "error on rows not used in training"
            found.append(Rung(group, name, c.observed_error))
        found.append(Rung(group, "at most", None, None, c.sampled_error))
    return found


def _bounds(c: Certificate, steps: Sequence[Step] = ()) -> list[Rung]:
    """Return the bounds of the model's own rule, then those of the other rules."""
    name = CLOSED
    group = f"Worst case of this model, rule {c.rule}"
    if c.confidence is not None:
        name = f"confidence {chosen_percent(c.confidence)}"
        group = f"Every population with its pairs, rule {c.rule}"
    steps = steps or c.steps or (Step(name, c.bounds[c.rule]),)
    found = [Rung(group, s.name, None, s.lower, s.upper) for s in steps]
    others = [rule for rule in RULES if rule != c.rule]
    group = "The same points, other rules"
    return found + [Rung(group, f"rule {r}", None, None, c.bounds[r]) for r in others]


def _exact(group: str, steps: Iterable[Step]) -> list[Rung]:
    """Return rules of one column or none, known exactly, then those of programs."""
    first, second, *programs = steps
    found = [Rung(group, step.name, step.upper) for step in (first, second)]
    return found + [Rung(group, s.name, None, s.lower, s.upper) for s in programs]


def _notes(c: Certificate) -> tuple[str, ...]:
    return c.warnings if c.doubtful else ()
