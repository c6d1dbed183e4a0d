"""What the live view says and draws, from phases and samples."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from pairlab.base import charts
from pairlab.model.spec import Spec
from pairlab.testbed.host.live_sampler import Sample
from pairlab.widgets.live_view import MAX_POINTS, LiveView, MeasurementState

SVG = "{http://www.w3.org/2000/svg}"


def sample(elapsed_s, clients, total_s=10.0):
    total = None if None in clients else sum(clients)
    return Sample(elapsed_s, total_s, tuple(clients), total, usr=0.1, sys=0.5, softirq=0.25)


def state_of(clients=(2e9, 1e9), samples=3, **spec):
    found = MeasurementState(Spec(**{"pairs": len(clients), "duration_s": 10.0} | spec))
    found.on_phase("measuring (s)", samples / 2, 10.0)
    for number in range(samples):
        found.on_sample(sample((number + 1) / 2, clients))
    return found


def drawn(html):
    return ElementTree.fromstring(html.replace("<svg ", "<svg xmlns='http://www.w3.org/2000/svg' "))


def texts(html):
    return [each.text for each in drawn(html).iter(f"{SVG}text")]


@pytest.mark.parametrize(
    ("phase", "text"),
    [
        (("bringing up", 31, 50), "bringing up 31/50"),
        (("measuring (s)", 4.2, 10.0), "measuring 4.2/10 s"),
        (("waiting for process 7 of root (sleep), which is measuring on this host", 0, 0), "waiting for process 7"),
        (("taking down", 0, 0), "taking down"),
    ],
)
def test_a_phase_is_shown_with_its_progress(phase, text):
    found = MeasurementState(Spec())
    found.on_phase(*phase)
    assert found.phase_text.startswith(text)
    assert text in found.html()


def test_the_picture_says_in_words_what_it_shows():
    assert drawn(state_of().charts()).get("aria-label") == (
        "measuring 1.5/10 s: total 3 Gbit/s; Jain's fairness 0.900; CPU usr 10%, sys 50%, softirq 25%"
    )


def test_every_axis_has_its_unit_and_slow_links_a_scale_of_their_own():
    assert {
        "Each client (Gbit/s)",
        "Total (Gbit/s)",
        "Jain's fairness (1: all equal)",
        "CPU (% of all CPUs)",
        "client, of 2",
        "s since the release",
    } <= set(texts(state_of().charts()))
    assert "Each client (Mbit/s)" in texts(state_of((2e6, 1e6)).charts())


@pytest.mark.parametrize(("count", "numbers"), [(1, ["0"]), (3, ["0", "1", "2"]), (50, ["0", "20", "40"])])
def test_the_number_of_a_client_is_below_the_middle_of_its_bar(count, numbers):
    chart = charts.Chart("each", charts.counted("client", count), charts.axis("Gbit/s", 4))
    bars = drawn(chart.bars([4] * count, "red")).get("d").split("M")[1:]
    middles = [float(bar.split(" ")[0]) + float(bar.split("h")[1].split("V")[0]) / 2 for bar in bars]
    shown = {
        each.text: float(each.get("x"))
        for each in drawn(chart.picture("")).iter()
        if each.get("text-anchor") == "middle" and each.text != "client"
    }
    assert shown == {number: pytest.approx(middles[int(number)], abs=0.5) for number in numbers}


def test_what_is_unavailable_is_named_in_place_of_bars_and_nobody_sending_is_drawn_too():
    shown = texts(state_of((None, None)).charts())
    assert "unavailable: clients share one network stack" in shown
    assert "unavailable: other processes use the same network" in shown
    assert "fairness unavailable" in state_of((1e9, None)).sample_text
    assert "Each client (Gbit/s)" in texts(state_of((1e9, None)).charts())
    assert "total 0 bit/s" in state_of((0.0, 0.0)).sample_text
    drawn(state_of((0.0, 0.0)).charts())


def test_the_tail_after_the_time_to_send_is_left_out():
    found = state_of(samples=20)
    found.on_sample(sample(10.6, (0.0, 0.0)))
    assert "total 3 Gbit/s" in found.sample_text


def test_a_long_measurement_has_no_larger_picture_and_one_of_hundreds_of_clients_a_small_one():
    short, long = state_of(samples=MAX_POINTS, duration_s=600.0), state_of(samples=10 * MAX_POINTS, duration_s=6000.0)
    assert len(long.charts()) < 1.3 * len(short.charts())
    assert len(state_of([1e9] * 500).charts()) < 30_000


def test_names_are_escaped():
    found = MeasurementState(Spec())
    found.on_phase("waiting for <script>alert(1)</script> & 'friends'", 0, 0)
    assert "<script" not in found.html()
    found.on_sample(sample(0.5, (1e9,)))
    assert "<script" not in found.html()


@pytest.mark.parametrize(("duration_s", "every_s"), [(2.0, 0.5), (10.0, 1.0)])
def test_the_view_draws_a_new_phase_at_once_and_the_rest_in_time(duration_s, every_s):
    now = [100.0]
    view = LiveView(clock=lambda: now[0])
    view.begin(Spec(duration_s=duration_s))
    view.on_phase("bringing up", 0, 4)
    assert "bringing up 0/4" in view.value
    now[0] += every_s / 2
    view.on_phase("bringing up", 1, 4)
    assert "bringing up 0/4" in view.value
    now[0] += every_s / 2
    view.on_phase("bringing up", 3, 4)
    assert "bringing up 3/4" in view.value
    view.on_phase("measuring (s)", 0.0, duration_s)
    assert f"measuring 0/{duration_s:g} s" in view.value


def test_of_transactions_the_latency_is_drawn_and_said_in_place_of_fairness():
    found = state_of()
    for at, p50_s in enumerate((18e-6, 20e-6)):
        told = {"transactions_per_s": 52_000.0, "latency_p50_s": p50_s, "latency_p99_s": 2 * p50_s}
        found.on_sample(replace(sample(2 + at / 2, (1e6, 1e6)), **told))
    assert found.sample_text.endswith(
        "latency p50 20 µs, p99 40 µs; 52,000 transactions/s; CPU usr 10%, sys 50%, softirq 25%"
    )
    assert {"Latency (µs)", "p50", "p99"} <= set(texts(found.charts()))
    assert "Jain's fairness (1: all equal)" not in texts(found.charts())


def test_hosts_with_kernels_of_their_own_have_a_chart_each():
    found = state_of()
    found.on_sample(replace(sample(2.0, (1e9, 1e9)), hosts_busy={"host-0": 0.25, "host-1": 1.0}))
    assert {"host-0 (% of its CPU that is busy)", "host-1 (% of its CPU that is busy)"} <= set(texts(found.charts()))
    assert not any("host" in text for text in texts(state_of().charts()))
