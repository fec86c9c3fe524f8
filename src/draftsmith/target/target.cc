#include "draftsmith/target/target.h"

namespace draftsmith {

TargetSession::Pass TargetSession::prefill(std::span<const std::int32_t> tokens) {
  Pass pass = extend(tokens);
  pass.logits = pass.logits.narrow(0, pass.logits.size(0) - 1, 1);
  return pass;
}

}  // namespace draftsmith
