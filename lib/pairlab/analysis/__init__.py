"""The analysis wing: from stored runs to statistics, figures and the paper. It never touches the host.

origin.py       which runs a result was made from      stats.py      estimates and their intervals
published.py    the numbers of the papers              figures.py    DataFrame in, matplotlib Axes out
throughput.py   how experiment E1 is laid out          latex.py      keyed numbers and tables for paper/
paper.py        builds paper/main.pdf                  texlive.py    what that needs of LaTeX
claims.py       which findings of the papers hold      ledger.py     what they state, and what decides it
per_run.py      each run reduced to one row            estimators.py from such rows to one value per repetition
"""
