// A pack is a sequence of S tokens that holds whole documents; anchors are drawn in it. Nothing crosses documents.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "draftsmith/base/rng.h"
#include "draftsmith/data/data_set.h"

namespace draftsmith {

// A document's place in a pack.
struct DocumentSpan {
  std::int64_t document = 0;  // index in the data set
  std::int64_t begin = 0;     // its first token in the pack
  std::int64_t length = 0;
};

// One sequence for the model. Token, document and position ids and loss_mask have `length` entries; padding has
// document id -1, token id 0, position 0, loss mask 0. Document ids count from 0 within the pack.
struct Pack {
  std::int64_t length = 0;
  std::vector<std::int32_t> token_ids;
  std::vector<std::int32_t> document_ids;
  std::vector<std::int64_t> position_ids;
  std::vector<std::uint8_t> loss_mask;
  std::vector<DocumentSpan> documents;
  std::int64_t num_tokens() const;  // without padding
};

// Says which documents share a pack. Documents longer than max_length or row_length are cut at the end, and those
// without a valid anchor are left out and counted. The order is shuffled by (seed, epoch); each pack is filled
// first-fit, and partial packs are kept.
struct PackPlan {
  std::vector<std::vector<std::int64_t>> packs;  // document indices of each pack, in order
  std::int64_t num_without_anchor = 0;
  std::int64_t num_cut = 0;  // of those placed
};
struct PackOptions {
  std::int64_t row_length = 512;
  std::int64_t max_length = 1024;
  std::uint64_t seed = 1;
  std::int64_t epoch = 0;
  std::int64_t multiple = 1;  // make_pack pads a pack to a multiple of this many tokens, at most to row_length

  // Returns how many tokens a document of `length` keeps; the rest is cut off.
  std::int64_t kept(std::int64_t length) const;
};
// Throws a UserError when row_length or max_length is below 1.
PackPlan plan_packs(const DataSet& data, const PackOptions& options);
// Makes one pack of a plan. Its documents, each cut to kept(length) tokens, must fit in row_length together.
Pack make_pack(const DataSet& data, std::span<const std::int64_t> documents, const PackOptions& options);

// Returns, in ascending order, the positions a of document `span` whose own and next token are supervised.
std::vector<std::int64_t> valid_anchors(const Pack& pack, const DocumentSpan& span);

struct AnchorOptions {
  std::int64_t per_document = 512;
  std::int64_t per_pack = 512;
};
// Draws anchors uniformly without replacement in each document and returns them in ascending order. When the pack's
// budget is smaller than what the documents would get, it is shared in proportion (largest remainders), with at least
// one for each document while it lasts.
std::vector<std::int64_t> sample_anchors(const Pack& pack, const AnchorOptions& options, Rng& rng);

}  // namespace draftsmith
