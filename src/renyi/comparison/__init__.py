"""Methods and models beside each other on the same rows."""
