"""How a spec, a run, many runs, a testbed and a verdict show themselves: as a card in a notebook, as text elsewhere."""

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

from pairlab.base import html_repr
from pairlab.measurement import verdict
from pairlab.measurement.checks import CHECKS
from pairlab.model.records import STATUSES, TONES, Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.store.dataset import Runs
from pairlab.testbed.endpoints import Limits
from pairlab.testbed.limits import describe
from pairlab.testbed.open import open_testbed
from tests.support.runs import made_up

HOSTILE = "<img src=x onerror=alert(1)>\"'&"


class _Reader(HTMLParser):
    """Reads a card: its texts, its rows by label, and the tags that were opened and never closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.found = [], set(), []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] != "style":
            self.found.append((self.open[-1], data))


def read(html):
    reader = _Reader(html)
    assert not reader.open
    assert reader.tags <= {"style", "div", "span", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    return reader


def rows(html):
    """What a card lists, before any other table in it."""
    listed = html.split("<thead>")[0]
    return dict(re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', unescape(listed), re.DOTALL))


def badge(html):
    return unescape(re.search(r'class="pairlab-badge"[^>]*>(.*?)</span>', html)[1])


# --- cards


def test_a_card_lists_labels_and_values_and_leaves_out_what_is_empty():
    html = html_repr.summary(
        "A title", [("pairs", 5), ("none", ""), ("duration", "2 s")], badge="ok", tone="good", note="So."
    )
    assert rows(html) == {"pairs": "5", "duration": "2 s"}
    assert badge(html) == "ok"
    assert ("div", "So.") in read(html).found


def test_everything_in_a_card_is_escaped():
    html = html_repr.summary(
        HOSTILE, [(HOSTILE, HOSTILE)], badge=HOSTILE, note=HOSTILE, body=html_repr.table([HOSTILE], [[HOSTILE]])
    )
    assert "<img" not in html
    assert [text for _, text in read(html).found if text != ": "] == [HOSTILE] * 7


def test_without_its_style_a_card_still_reads_as_in_a_notebook_that_is_not_trusted():
    html = html_repr.summary("Run 1", [("pairs", 5)], badge="invalid")
    assert "".join(text for _, text in read(html).found) == "Run 1: invalidpairs5"
    assert re.sub(r"<style>.*</style>", "", html, flags=re.DOTALL).count("<tr>") == 1


def test_a_table_leaves_out_columns_that_say_nothing():
    html = html_repr.table(("a", "b", "c"), [(1, "", "x"), (2, "", "")])
    assert [text for tag, text in read(html).found if tag == "th"] == ["a", "c"]


def test_every_colour_of_a_card_is_the_themes_with_a_fallback():
    html = html_repr.summary("A title", [("a", "b")], badge="ok", tone="good")
    colours = [found.strip() for found in re.findall(r"color:([^;}\"]+)", html)]
    assert len(colours) > 5
    assert all(colour == "inherit" or re.match(r"var\(--jp-[a-z0-9-]+, .+\)$", colour) for colour in colours)


def test_every_status_has_a_tone_of_a_badge():
    assert set(TONES) == set(STATUSES)
    assert set(TONES.values()) <= set(html_repr.TONES)


# --- spec


def test_a_specs_repr_makes_it_again_and_names_only_what_is_not_the_default():
    spec = Spec(driver="macvlan", pairs=5, duration_s=2.5, telemetry=False)
    assert repr(spec) == "Spec(driver='macvlan', pairs=5, duration_s=2.5, telemetry=False)"
    assert eval(repr(spec)) == spec
    assert repr(Spec()) == "Spec()"


def test_a_specs_card_has_the_cell_with_units_and_the_key():
    spec = Spec(driver="ovs", pairs=40, workload="flowgen", duration_s=5, warmup_s=1, link_rate_bps=1e8)
    html = spec._repr_html_()
    assert "40 pairs over ovs" in html
    assert rows(html)["traffic"] == "flowgen, 5 s after a warm-up of 1 s"
    assert rows(html)["also"] == "links of 100 Mbit/s"
    assert rows(html)["key"] == spec.key
    assert "more than 100 ms apart" in rows(html)["invalid if"]


def test_a_spec_of_flows_with_an_end_tells_their_size_and_time():
    assert (
        rows(Spec(flow_bytes=5_000_000, duration_s=30.0)._repr_html_())["traffic"]
        == "auto, flows of 5 MB each, which have 30 s"
    )


# --- run


def test_a_runs_card_has_outcome_starts_time_host_and_status_in_words():
    html = made_up(2.5e9, pairs=1)._repr_html_()
    told = rows(html)
    assert badge(html) == "ok"
    assert (told["outcome"], told["flows"], told["starts"]) == ("2.50 Gbit/s in total", "1, none failed", "within 1 ms")
    assert told["measured"] == "2024-05-01 12:30:00 UTC"
    assert "a machine" in told["environment"]


def test_the_reasons_of_a_run_are_all_there_and_escaped():
    html = made_up(status="invalid", reasons=("one", HOSTILE), host=HOSTILE)._repr_html_()
    assert badge(html) == "invalid"
    assert rows(html)["reasons"] == f"one\n{HOSTILE}"
    assert HOSTILE in rows(html)["environment"]


def test_a_run_that_was_not_measured_shows_its_reasons_and_no_numbers():
    run = Run(Spec(), "skipped", ("driver 'ovs' needs ovs-vswitchd",))
    assert "outcome" not in rows(run._repr_html_())
    assert repr(run) == f"<Run {run.key}: {run}>"
    assert "needs ovs-vswitchd" in repr(run)


def test_flows_of_which_none_was_complete_have_no_median():
    assert made_up(flow_bytes=1000).outcome == "no flow was complete"


def test_the_median_that_a_run_tells_is_of_all_its_flows():
    flows = [{"pair": pair, "flow": 0, "status": "ok", "fct_s": 0.1 * (pair + 1)} for pair in range(3)]
    failed = [{"pair": each, "flow": 1, "status": "failed", "error": "it was late"} for each in range(3)]
    runs = [Run(Spec(flow_bytes=1000), "ok", flows=table("flows", flows + failed[:lost])) for lost in (2, 3)]
    assert [run.outcome for run in runs] == ["median FCT 300.0 ms", "median FCT not known"]
    assert str(runs[1]).endswith("3 of 6 flows failed")


# --- runs


def test_runs_are_counted_by_experiment_and_what_is_left_out_says_why():
    runs = Runs(
        (
            made_up(pairs=1),
            made_up(pairs=5, driver="ovs", workload="iperf"),
            made_up(experiment="fct", status="invalid", reasons=(HOSTILE,)),
        ),
        damaged=("runs/x is damaged",),
    )
    told = rows(runs._repr_html_())
    assert badge(runs._repr_html_()) == "2 ok, 1 invalid"
    assert told["throughput"] == "2 runs: netns; auto, iperf; bridge, ovs; 1, 5 pairs"
    assert f"invalid: 1 run, {HOSTILE}" in str(runs).splitlines()[3]
    assert "left out, not readable: runs/x is damaged" in str(runs)
    assert repr(runs) == "<Runs: 2 ok, 1 invalid>"


def test_reasons_that_differ_in_their_numbers_are_told_once():
    busy = [made_up(status="invalid", reasons=(f"other processes used {share} % of the CPUs",)) for share in (12.8, 3)]
    lines = str(Runs((*busy, busy[1], made_up(status="failed", reasons=("other",))))).splitlines()
    assert "left out, invalid: 3 runs, such as: other processes used 12.8 % of the CPUs" in lines
    assert "left out, failed: 1 run, other" in lines
    assert "left out, invalid: 2 runs, other processes used 3 % of the CPUs" in str(Runs(tuple(busy[1:] * 2)))


def test_no_runs_at_all_can_be_shown_too():
    assert str(Runs(())) == "none"
    assert badge(Runs(())._repr_html_()) == "none"


# --- verdict


JUDGED = replace(
    made_up(status="invalid", reasons=("the wall clock was set",), max_skew_s=0.1),
    checks={
        "skew_s": 0.25,
        "foreign_cpu": 0.031,
        "steal": None,
        "clock_step_s": -0.0001,
        "settled": False,
        "shift": 0.02,
    },
)


def test_a_verdict_has_each_recorded_check_with_value_bound_and_whether_it_was_met():
    found = {check.name: check for check in verdict.of(JUDGED).checks}
    assert list(found) == ["skew_s", "foreign_cpu", "steal", "clock_step_s", "settled", "shift"]
    assert found["skew_s"][1:4] == ("250 ms", "at most 100 ms", False)
    assert found["foreign_cpu"][1:4] == ("3.1 %", "at most 10 %", True)
    assert found["steal"][1:4] == ("unknown", "at most 10 %", None)
    assert found["clock_step_s"][1:4] == ("−100 µs", "−4 ms to 4 ms", True)
    assert found["settled"][1:4] == ("no", "yes", False)
    assert found["shift"][1:4] == ("2 %", "", None)


def test_a_verdict_reads_in_a_terminal():
    lines = str(verdict.of(JUDGED)).splitlines()
    assert lines[0] == "invalid: the wall clock was set"
    assert lines[1] == "  skew_s        not met   250 ms (at most 100 ms)"
    assert lines[-1] == "  shift         –         2 %"


def test_a_verdicts_card_has_the_meaning_of_every_check():
    html = verdict.of(JUDGED)._repr_html_()
    assert badge(html) == "invalid"
    texts = [text for tag, text in read(html).found if tag == "td"]
    assert CHECKS["foreign_cpu"].meaning in texts
    assert texts.count("not met") == 2


def test_a_run_from_before_checks_were_recorded_says_so():
    assert "before checks were recorded" in verdict.of(made_up())._repr_html_()


# --- testbed


def test_a_testbeds_card_has_its_first_addresses_its_limits_and_how_long_it_took():
    with open_testbed(Spec(pairs=5, pinning="same-core")) as bed:
        told, html = rows(bed._repr_html_()), bed._repr_html_()
        assert repr(bed).startswith("<Testbed: 5 pairs on bridge (netns), up in ")
        first = bed.pairs[0]
    lines = told["pairs"].splitlines()
    assert lines[0] == f"client-0 {first.client.address} → {first.server.address}:{first.port}"
    assert lines[-1] == "and 2 more"
    assert "on CPU " in told["limits"]
    assert badge(html).startswith("up in ")
    assert badge(html).endswith(" s")


def test_limits_are_counted_by_kind():
    limits = {"client-0": Limits((0, 1), 0.5, 1024), "server-0": Limits((0, 1), 0.5, 1024), "client-1": Limits((2,))}
    assert describe(limits).splitlines() == [
        "2 endpoints: on CPU 0-1, at most 0.5 CPUs, weight 1,024",
        "1 endpoint: on CPU 2",
    ]
    assert describe({}) == ""
