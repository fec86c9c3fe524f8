// Checks golden numbers: FILE.safetensors and FILE.json hold a small drafter, a pack, and what the public
// implementations computed from them (tests/golden/README.md). The same is computed here in fp32 and compared.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace draftsmith {

// The error of one quantity is the number of wrong entries if the bound is 0, else the largest difference relative to
// the largest entry of the expected tensor.
struct GoldenError {
  std::string name;  // "mask", "hidden", "loss", "grad.fc.weight" ...
  double error = 0;
  double bound = 0;
  bool ok() const { return error <= bound; }  // a NaN is not
};

struct GoldenReport {
  std::string file;
  std::vector<GoldenError> errors;  // in the order they are computed
  bool passed = false;
};

// Compares everything that the files hold. Mask, ids and counts must be equal; weights, layer outputs, hidden, nll,
// loss and accuracy may differ by 1e-5, gradients by 1e-4. Throws a UserError that names the file when it does not fit.
GoldenReport verify_golden(const std::filesystem::path& safetensors_file);

// Returns one JSON object: "passed", and each file's errors with their bounds.
std::string golden_reports_json(const std::vector<GoldenReport>& reports);

}  // namespace draftsmith
