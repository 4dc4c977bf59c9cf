"""What a person can run and read about initialized weights."""
