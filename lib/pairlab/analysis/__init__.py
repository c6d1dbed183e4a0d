"""From stored runs to statistics, figures and the paper. Nothing here touches a host.

question       a Question is declared; its Answer shows, draws, checks and writes itself
questions/     pairlab's own questions
repetitions    the common table: one row per repetition, with the factors of its cell and the measured quantities
selection, cell_estimates, by_group, …    the runs that answer a question; one estimate per cell
published      the papers' numbers
claims/        verdicts on the papers' findings
comparison/    differences between two cells, and a host's noise floor
figures/       DataFrame in, figure out
output/        numbers as text, tables, keyed values, and the paper
"""
