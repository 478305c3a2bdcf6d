"""A model to look at: one page, in one file, that needs no server and no network."""
