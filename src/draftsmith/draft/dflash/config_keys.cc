#include "draftsmith/draft/dflash/config_keys.h"

#include "draftsmith/base/check.h"

namespace draftsmith {

void read_dflash_keys(const JsonKeys& keys, const JsonKeys& inner, DrafterConfig& config) {
  for (const char* key : {"conv_kernel_size", "selector_rank", "selector_top_k", "final_logit_softcapping"})
    require(!inner.has(key), inner.name(key), " belongs to DFlash2 drafters, which are not supported");
  for (const char* key : {"input_embedding_scale", "output_multiplier"})
    require(inner.number(key, 1.0) == 1.0, inner.name(key), " other than 1 is not supported");
  if (keys.has("is_causal"))
    config.is_causal = keys.flag("is_causal");
  else if (inner.has("causal"))
    config.is_causal = inner.flag("causal");
}

}  // namespace draftsmith
