"""Reports: tables and text about a fit."""
