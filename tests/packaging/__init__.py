"""What an installed slatespark can do; no test of pytest is in here."""
