"""Rows that are loaded part by part: files, arrays on the disk, and what users give."""
