from setuptools import Extension, setup

import dlshim

setup(ext_modules=[Extension("plain_c", ["plain_c.c"], include_dirs=[dlshim.get_include()])])
