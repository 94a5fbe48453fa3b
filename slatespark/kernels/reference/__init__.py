"""Every kernel as plain Python: the readable truth, the twin in tests, and what serves without numba.

Same modules, names and signatures as the compiled ones; same results, same errors. A hundred times slower. May import
numpy for its containers, never numba.
"""
