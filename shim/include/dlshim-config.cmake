if(NOT TARGET dlshim::dlshim)
  add_library(dlshim::dlshim INTERFACE IMPORTED)
  set_target_properties(dlshim::dlshim PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}")
endif()
