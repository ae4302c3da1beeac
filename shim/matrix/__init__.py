"""The exchanges of ``python -m dlshim matrix``."""
