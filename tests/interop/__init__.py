"""The real SlateDB client writes and we read, and the other way; never skipped."""
