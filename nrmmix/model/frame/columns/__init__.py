"""Columns that say more than a number: limits of a value, a date, how often a row counts, units to go back to."""
