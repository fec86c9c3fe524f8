// `draftsmith env`: what a bug report needs.
#include <fmt/format.h>
#include <llama.h>
#include <sys/utsname.h>
#include <torch/version.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "draftsmith/app/commands.h"
#include "draftsmith/app/version.h"

namespace draftsmith {
namespace {

// First "key : value" line of a /proc file.
std::string proc_value(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "unknown";
}

std::string instruction_sets() {
  const std::string flags = " " + proc_value("/proc/cpuinfo", "flags") + " ";
  std::string found;
  for (const char* name :
       {"avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_vnni", "amx_bf16"}) {
    if (flags.find(std::string(" ") + name + " ") != std::string::npos)
      found += std::string(found.empty() ? "" : " ") + name;
  }
  return found.empty() ? "none of AVX2, AVX-512, AMX" : found;
}

std::string system_name() {
  std::ifstream in("/etc/os-release");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("PRETTY_NAME=", 0) == 0) return line.substr(13, line.size() - 14);
  }
  return "unknown";
}

void row(const char* name, const std::string& value) { fmt::print("{:<14} {}\n", name, value); }

void run() {
  utsname kernel{};
  uname(&kernel);
  row("draftsmith", kVersion);
  row("compiler", std::string("g++ ") + __VERSION__);
  row("libtorch", TORCH_VERSION);
  row("llama.cpp", std::string(llama_print_system_info()));
  row("system", system_name() + ", kernel " + kernel.release);
  row("processor", proc_value("/proc/cpuinfo", "model name"));
  row("instructions", instruction_sets());
  row("cores", std::to_string(std::thread::hardware_concurrency()));
  row("memory", proc_value("/proc/meminfo", "MemTotal") + ", free " + proc_value("/proc/meminfo", "MemAvailable"));
  row("gpu", "not used: this version computes on the CPU");
}

}  // namespace

void add_env(CLI::App& app) {
  auto* command = app.add_subcommand("env", "Print what a bug report needs: versions, processor, memory");
  command->footer("Example:\n  draftsmith env");
  command->callback(run);
}

}  // namespace draftsmith
