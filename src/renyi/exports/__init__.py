"""Models in the languages of other programs."""
