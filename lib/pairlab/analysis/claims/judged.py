"""The verdicts on all claims in some runs, as a notebook shows and writes them."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from pairlab import paths
from pairlab.analysis.claims import listing, report, verdicts
from pairlab.analysis.output import latex
from pairlab.analysis.output.provenance import origin_of, what_was_read
from pairlab.base.printing import echo
from pairlab.store.dataset import load_runs


class Judged:
    """verdicts: a row per claim and system (verdicts.evaluate)."""

    def __init__(self, runs: str | Path, sweep: str = "", confidence: float = 0.95):
        self.runs = load_runs(runs, sweep=sweep)
        self.origin = origin_of(self.runs, runs, sweep)
        self.verdicts = verdicts.evaluate(self.runs, confidence=confidence)

    def __str__(self) -> str:
        return f"{report.summary(self.verdicts)}\n{what_was_read(self.runs)}"

    def of(self, verdict: str) -> pd.DataFrame:
        """The rows with a verdict."""
        return self.verdicts[self.verdicts["verdict"] == verdict]

    def why(self, verdict: str) -> pd.DataFrame:
        """The number of claims with a verdict, and their ids, by system and reason."""
        return self.of(verdict).groupby(["system", "missing"])["id"].agg(["size", ", ".join])

    def show(self) -> None:
        """Shows each measured finding, in a table for each system."""
        for system, part in self._measured(report.findings).groupby("System"):
            echo(system)
            _show(part.drop(columns="System").set_index("Claim"))

    def show_by_construction(self) -> None:
        """Shows the measured claims that hold or are contradicted by construction."""
        _show(self._measured(report.by_construction).set_index(["System", "Claim"]).sort_index())

    def _measured(self, part: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
        chosen = part(self.verdicts)
        return report.display(chosen[chosen["verdict"] != "not measured"])

    def check(self) -> None:
        """Asserts that each claim has one verdict in a system, a value in its interval, a reason if it has none, and a
        p if decided."""
        table = self.verdicts
        assert table["verdict"].isin(verdicts.VERDICTS).all()
        assert not table.duplicated(["id", "system"]).any()
        bounded = table[table["low"].notna()]
        assert bounded["value"].between(bounded["low"], bounded["high"]).all()
        decided = table[table["verdict"].isin(verdicts.DECIDED)]
        assert (decided["p"] <= 1 - decided["confidence"] + 1e-9).all()
        corrected = table[table["p_holm"].notna()]
        assert (corrected["p_holm"] >= corrected["p"]).all()
        assert (table["missing"] != "")[table["verdict"].isin(["not measured", "not comparable"])].all()
        assert self.of("not comparable")["p"].isna().all()

    def write(self, notebook: str) -> None:
        """Writes the list of claims and the numbers for the paper, and prints their files."""
        written = [latex.write_lines(listing.lines(self.verdicts), "claims", self.origin)]
        written.append(report.values(self.verdicts, self.runs).write(notebook, self.origin))
        echo("\n".join(map(paths.shown, written)))


def _show(table: pd.DataFrame) -> None:
    from IPython.display import HTML, display

    with pd.option_context("display.max_colwidth", None):
        display(HTML(table.to_html()))
