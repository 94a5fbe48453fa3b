"""Every kernel in plain Python: the readable definition, the twin in tests, and the fallback without numba.

Same modules, names and signatures as the compiled kernels, same results, same errors; a hundred times slower. May
import numpy for its containers, never numba.
"""
