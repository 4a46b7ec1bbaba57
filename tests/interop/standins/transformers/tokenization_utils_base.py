class BatchEncoding(dict[str, object]):
    """Only ever asked about with isinstance."""
