"""What is committed of the reference fits together: the paper's PDF is of the results beside it."""

import re

from pairlab import paths
from pairlab.analysis.output import paper


def test_the_committed_paper_is_made_of_the_committed_results():
    pdf = (paths.PAPER / "reference.pdf").read_bytes()
    made_of = re.search(rb"/MadeOf ?\(([0-9a-f]{16})\)", pdf)
    assert made_of, "the PDF does not tell what it was made of"
    assert made_of[1].decode() == paper.inputs_digest("reference"), "make outputs"
    assert len(pdf) <= 2e6
