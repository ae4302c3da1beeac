"""Trials: calls that are really made, each in a child process that may die."""
