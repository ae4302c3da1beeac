"""Columns of real libraries; a library that is not installed here is skipped."""
