"""Paper M: drivers on several allocations of containers to hosts."""
