"""Learners that read raw streams: text and bytes, rows of named columns."""
