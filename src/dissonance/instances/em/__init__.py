"""Expectation-maximisation: the beliefs about latent variables, the instance of LIR, what it has learned."""
