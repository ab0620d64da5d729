"""Pages that need nothing else: vignettes as HTML and as notebooks."""
