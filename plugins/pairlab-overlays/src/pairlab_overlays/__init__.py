"""Container networks of other projects, as drivers: Weave Net and Flannel, each carried between hosts by its daemon."""
