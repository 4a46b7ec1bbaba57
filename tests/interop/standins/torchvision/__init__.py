"""Stand-in: lets `import streaming` pass without torchvision, which only its image datasets use."""
