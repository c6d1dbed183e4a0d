"""The analysis wing: from stored runs to statistics, figures and the paper. It never touches the host.

origin.py       which runs a result was made from      stats.py      estimates and their intervals
published.py    the numbers of the papers              figures.py    DataFrame in, matplotlib Axes out
throughput.py   how experiment E1 is laid out          latex.py      keyed numbers and tables for paper/
paper.py        builds paper/main.pdf                  texlive.py    what that needs of LaTeX
claims.py       which findings of the papers hold      ledger.py     what they state, and what decides it
per_run.py      each run reduced to one row            estimators.py from such rows to an effect
effects.py      an effect, and the estimators known    cells.py      which cells an estimator compares
noise.py        what can be told from noise            floors.py     the record of a host's, noise_layout.py as text
selection.py    which runs answer a question           estimates.py  one estimate per cell, and its changes
quantiles.py    percentiles, and how they change        clusters.py  what their intervals draw: repetitions
by_group.py     tables of percentiles and of CDFs      flow_groups.py   what they are of; cdf_points.py   few points
layout.py       estimates as text and keys             panels.py, figures_cdf.py, figures_cpu.py   more figures
look.py         how all figures look                   grids.py, line_labels.py   panels, and who is who in them
figure_files.py a figure as SVG, PDF, PNG and PGF
fct.py          completion times (fct_layout.py)       elephants.py  mice beside elephants
cpu.py          CPU use beside throughput              cpu_use.py    of one run, in its window
testbed_facts.py   what was measured, and on what
"""
