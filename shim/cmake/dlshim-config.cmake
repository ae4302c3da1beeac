# The target dlshim::dlshim, which is the folder of dlshim.h and dlshim.hpp.
if(NOT TARGET dlshim::dlshim)
  get_filename_component(_dlshim_include "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)
  add_library(dlshim::dlshim INTERFACE IMPORTED)
  set_target_properties(dlshim::dlshim PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_dlshim_include}")
  unset(_dlshim_include)
endif()
