# MLIR, LLVM and lld, linked statically: a trainer's compiler that starts in 30 ms instead of 150.
set(BLU_LLVM_LIB ${LLVM_LIBRARY_DIRS})
list(GET BLU_LLVM_LIB 0 BLU_LLVM_LIB)
set(BLU_LLVM_BIN ${LLVM_TOOLS_BINARY_DIR})

execute_process(COMMAND ${BLU_LLVM_BIN}/llvm-config --link-static --libs x86 passes lto option libdriver debuginfodwarf
  OUTPUT_VARIABLE blu_llvm_libs OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(blu_llvm_libs)
file(GLOB blu_mlir_libs ${BLU_LLVM_LIB}/libMLIR*.a)
list(FILTER blu_mlir_libs EXCLUDE REGEX "libMLIRRegisterAll|libMLIRMlirOptMain|ExecutionEngine")

# mlir: the C API, builtin and func. The linker takes what is used from the archives of the group.
add_library(blu_mlir INTERFACE)
target_include_directories(blu_mlir SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_link_directories(blu_mlir INTERFACE ${BLU_LLVM_LIB})
target_link_options(blu_mlir INTERFACE -fuse-ld=lld -B${BLU_LLVM_BIN} -Wl,--gc-sections)
target_link_libraries(blu_mlir INTERFACE -Wl,--start-group ${blu_mlir_libs} -Wl,--end-group ${blu_llvm_libs} -lz -lzstd -lpthread -ldl -lm)

add_library(blu_lld INTERFACE)
target_link_libraries(blu_lld INTERFACE -Wl,--start-group ${BLU_LLVM_LIB}/liblldELF.a ${BLU_LLVM_LIB}/liblldCommon.a -Wl,--end-group blu_mlir)
