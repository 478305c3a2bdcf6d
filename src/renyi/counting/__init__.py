"""Count pairs of codes: the methods, and what each of them costs."""
