"""What several test modules share: the real client, the model it is compared with, stores that fail, golden files."""
