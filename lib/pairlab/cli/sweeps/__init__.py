"""`pairlab sweep`, and what several machines need to share one."""
