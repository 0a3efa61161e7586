// lld.cpp - lld inside of the compiler's process: the one C++ file of codegen/.
#include "lld/Common/Driver.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <cstring>
#include <string>

LLD_HAS_DRIVER(elf)

// Debian's LLVM names Polly as an extension of its optimiser, for link-time optimisation; we have none.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "none", "", [](llvm::PassBuilder &) {}};
}

// Runs ld.lld with these arguments. 0: good; else *error holds what lld said (malloc'ed).
extern "C" int blu_lld(int argc, const char **argv, char **error) {
  std::string text;
  llvm::raw_string_ostream out(text);
  lld::Result r = lld::lldMain(llvm::ArrayRef<const char *>(argv, argc), out, out, {{lld::Gnu, &lld::elf::link}});
  if (r.retCode) *error = strdup(text.c_str());
  return r.retCode;
}
