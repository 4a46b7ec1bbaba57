class BatchFeature(dict[str, object]):
    """Only ever asked about with isinstance."""
