"""Checkpoint rows of every shape in which a question may wait, as a released version wrote them."""
