class VisionDataset:
    """Base class of streaming's image datasets; never instantiated here."""
