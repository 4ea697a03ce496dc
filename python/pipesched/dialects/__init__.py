"""Classes of the operations of PipeSched's dialects, in the modules `pipe` and `exec`.

utils/gen-python-ops.py writes these modules from the definitions of the operations.
"""
