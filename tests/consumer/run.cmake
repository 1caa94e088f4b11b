# Installs the build tree into a folder of its own, moves that folder, and builds and runs a foreign project against it:
# once through find_package, once through pkg-config. A ctest entry:
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DCXX=... -DLIBDIR=... -DGENERATOR=... -P run.cmake
cmake_policy(VERSION 3.22)

function(run)
  string(REPLACE ";" " " shown "${ARGV}")
  message(STATUS "+ ${shown}")
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${shown}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/first")
file(RENAME "${WORK}/first" "${WORK}/prefix")  # nothing installed may know its place

run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${SOURCE}" -B "${WORK}/build" -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_COMPILER=${CXX}"
    "-DCMAKE_PREFIX_PATH=${WORK}/prefix")
run("${CMAKE_COMMAND}" --build "${WORK}/build")
# A component that there is not is refused with the reason.
execute_process(
  COMMAND "${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${SOURCE}" -B "${WORK}/refused" "-DCMAKE_CXX_COMPILER=${CXX}"
          "-DCMAKE_PREFIX_PATH=${WORK}/prefix" "-DCOMPONENTS=core;omnx" RESULT_VARIABLE status ERROR_VARIABLE said OUTPUT_QUIET)
string(REGEX REPLACE "[ \n]+" " " said "${said}")
if(status EQUAL 0 OR NOT said MATCHES "dlprim has no component 'omnx' \\(there are core, net, onnx\\)")
  message(FATAL_ERROR "a component that there is not: ${status}, ${said}")
endif()
run("${WORK}/build/consumer" $ENV{DLPRIM_TEST_DEVICE})
run("${WORK}/build/net_consumer" $ENV{DLPRIM_TEST_DEVICE})
run("${WORK}/build/onnx_consumer")
if(EXISTS "${WORK}/prefix/bin/dlprim")
  run("${WORK}/prefix/bin/dlprim" devices)
endif()

find_program(PKG_CONFIG pkg-config)
if(NOT PKG_CONFIG)
  message(STATUS "pkg-config is not installed: its files stay untested")
  return()
endif()
set(ENV{PKG_CONFIG_PATH} "${WORK}/prefix/${LIBDIR}/pkgconfig:$ENV{PKG_CONFIG_PATH}")
foreach(pair IN ITEMS "main.cpp dlprim-core" "net.cpp dlprim-net" "onnx.cpp dlprim-onnx")
  separate_arguments(pair)
  list(GET pair 0 source)
  list(GET pair 1 package)
  execute_process(COMMAND "${PKG_CONFIG}" --static --cflags --libs ${package} OUTPUT_VARIABLE flags RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "pkg-config does not know ${package}")
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run("${CXX}" -std=c++17 "${SOURCE}/${source}" -o "${WORK}/${package}" ${flags} "-Wl,-rpath,${WORK}/prefix/${LIBDIR}")
  run("${WORK}/${package}" $ENV{DLPRIM_TEST_DEVICE})
endforeach()
