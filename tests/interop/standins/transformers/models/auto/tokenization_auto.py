class AutoTokenizer:
    """Never called: the C4 and Pile datasets are not read here."""
