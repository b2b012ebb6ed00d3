"""Data sets from what magma-gen recorded with agentd."""

__version__ = "0.1.0"  # agentd's release: graphs are exported only when the two are equal
