"""A store in memory that, as a local folder, is not listed where names can be looked up."""

from __future__ import annotations

from slatespark.storage.memory_store import MemoryStore


class FolderStore(MemoryStore):
    """Its listings count as slow."""

    @property
    def lists_whole_folders(self) -> bool:
        """True."""
        return True
