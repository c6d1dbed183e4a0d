from pairlab import paths
from pairlab.analysis.output import paper


def test_a_paper_is_old_where_its_text_or_a_result_changed(out, monkeypatch):
    text, value = out / "sources" / "main.tex", out / "paper" / "values" / "few" / "01-throughput.tex"
    for file in (text, text.with_name("pairlab.sty"), value):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    monkeypatch.setattr(paths, "PAPER", text.parent)
    before = paper.inputs_digest("few")
    assert paper.inputs_digest("few") == before
    for file in (text, value):
        file.write_text("2")
        assert paper.inputs_digest("few") != before
        file.write_text("1")
    value.rename(value.with_name("25-fairness.tex"))
    assert paper.inputs_digest("few") != before


def test_a_paper_is_the_same_wherever_its_sources_lie(out, monkeypatch):
    digests = set()
    for place in (out / "one" / "paper", out / "other" / "papers"):
        place.mkdir(parents=True)
        for name in ("main.tex", "report.tex", "pairlab.sty"):
            (place / name).write_text("1")
        monkeypatch.setattr(paths, "PAPER", place)
        digests.add(paper.inputs_digest("few"))
    assert len(digests) == 1
