"""Releases: pair counts that may be published, and what is known of them."""
