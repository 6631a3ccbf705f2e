"""Wire formats: how a request becomes a body, and an answer a reply."""
