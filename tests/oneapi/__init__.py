"""oneAPI on a real SYCL runtime: the OpenCL CPU device that the wheel brings.

Run in an environment of its own: `nox -s dpctl`, `nox -s dpnp`.
"""
