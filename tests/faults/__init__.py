"""What goes wrong: stores that fail or die at any call, writers that race, and bytes that were damaged."""
