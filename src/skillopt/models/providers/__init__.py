"""Model providers, one file each. The folder is the registry."""
