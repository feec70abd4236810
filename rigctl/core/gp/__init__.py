"""The Gaussian process: kernels, learning their parameters, factors, many trials."""
