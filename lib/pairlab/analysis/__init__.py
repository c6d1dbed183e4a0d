"""The analysis wing: from stored runs to statistics, figures and the paper. It never touches the host.

origin.py       which runs a result was made from      stats.py      estimates and their intervals
published.py    the numbers of the papers              figures.py    DataFrame in, matplotlib Axes out
throughput.py   how experiment E1 is laid out          latex.py      keyed numbers and tables for paper/
paper.py        builds paper/main.pdf                  texlive.py    what that needs of LaTeX
claims.py       which findings of the papers hold      ledger.py     what they state, and what decides it
per_run.py      each run reduced to one row            estimators.py from such rows to one value per repetition
selection.py    which runs answer a question           estimates.py  one estimate per cell, and its changes
layout.py       estimates as text and keys             panels.py, figures_cdf.py, figures_cpu.py   more figures
fct.py          completion times (fct_layout.py)       elephants.py  mice beside elephants
cpu.py          CPU use beside throughput              testbed_facts.py   what was measured, and on what
"""
