// Which id stands for "not yet known" in a block.
#pragma once

#include <cstdint>
#include <string>

#include "draftsmith/text/tokenizer.h"

namespace draftsmith {

struct MaskTokenChoice {
  std::int32_t id = -1;
  std::string why;  // one sentence to print when it was chosen by the last rules
};
// The mask token by the rules: configured id, the tokenizer's mask token, the lowest embedding row at or above the
// tokenizer's length, the highest control token that the template never prints and that is not bos, eos, an end, pad or
// unk. Refuses an id outside 0 .. num_embedding_rows-1, equal to pad or an end token, and a tokenizer that leaves no
// choice.
MaskTokenChoice choose_mask_token(const Tokenizer& tokenizer, std::int64_t configured, std::int64_t num_embedding_rows);

}  // namespace draftsmith
