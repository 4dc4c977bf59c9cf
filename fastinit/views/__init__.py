"""How results are shown: tables, figures and pages. Nothing here knows an experiment."""
