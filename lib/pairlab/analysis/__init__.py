"""From stored runs to statistics, figures and the paper. Nothing here touches a host.

selection, throughput_cells, flow_groups, by_group, cell_estimates   which runs answer a question; one estimate per cell
published      what the papers state
questions/     one module per question: its measures, estimates and tables
claims/        which findings of the papers hold
comparison/    whether two cells differ, and what a host's noise hides
figures/       DataFrame in, figure out
output/        numbers as text, tables, keyed values, and the paper
"""
