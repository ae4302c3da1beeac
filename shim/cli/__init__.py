"""The commands of ``python -m dlshim``, one module for each."""
