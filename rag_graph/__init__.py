"""The decision side: how an answer is made. Knows no chat platform and no SQL."""
