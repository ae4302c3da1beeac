from setuptools import Extension, setup

import dlshim

module = Extension("cython_module", ["cython_module.pyx"], include_dirs=[dlshim.get_include()])
setup(ext_modules=[module])
