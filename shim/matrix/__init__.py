"""The `python -m dlshim matrix` command."""
