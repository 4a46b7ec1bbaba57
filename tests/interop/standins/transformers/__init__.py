"""Stand-in: lets `import streaming` pass without transformers.

StreamingDataLoader asks whether a batch is a BatchFeature or a BatchEncoding, and the C4 and Pile datasets load an
AutoTokenizer; reading MDS files does neither.
"""
