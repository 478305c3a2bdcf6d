"""Mutation fuzzers of every file that is read; ``make fuzz`` runs a million inputs."""
