// Packs are filled first-fit from a bounded list of open packs, and anchors are drawn per document. Everything follows
// from (seed, epoch) and the data, so a run that resumes builds the same packs again.
#include "draftsmith/data/pack.h"

#include <algorithm>
#include <numeric>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

// More open packs fill the gaps a little better and cost time for each document; 64 leaves well under 1 % of a long
// plan unused.
constexpr std::size_t kMaxOpenPacks = 64;

struct OpenPack {
  std::size_t index = 0;
  std::int64_t room = 0;
};

bool has_anchor(std::span<const std::uint8_t> mask) {
  for (std::size_t a = 0; a + 1 < mask.size(); ++a) {
    if (mask[a] != 0 && mask[a + 1] != 0) return true;
  }
  return false;
}

// Shares `budget` among documents that want `wanted` anchors. Each gets one while the budget lasts; the rest is shared
// in proportion to what is still wanted, by largest remainders (ties go to the earlier document). None gets more than
// it wants.
std::vector<std::int64_t> share_budget(const std::vector<std::int64_t>& wanted, std::int64_t budget) {
  std::vector<std::int64_t> share(wanted.size(), 0);
  for (std::size_t i = 0; i < wanted.size() && budget > 0; ++i) {
    if (wanted[i] > 0) share[i] = 1, --budget;
  }
  std::int64_t open = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) open += wanted[i] - share[i];
  if (budget <= 0 || open <= 0) return share;
  if (open <= budget) return wanted;

  std::vector<std::int64_t> remainder(wanted.size());
  std::int64_t left = budget;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::int64_t product = budget * (wanted[i] - share[i]);
    remainder[i] = product % open;
    share[i] += product / open;
    left -= product / open;
  }
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  for (std::size_t i = 0; left > 0; ++i, --left) ++share[order[i]];
  return share;
}

}  // namespace

std::int64_t PackOptions::kept(std::int64_t length) const { return std::min({length, max_length, row_length}); }

std::int64_t Pack::num_tokens() const {
  return documents.empty() ? 0 : documents.back().begin + documents.back().length;
}

PackPlan plan_packs(const DataSet& data, const PackOptions& options) {
  require(options.row_length > 0, "train.row_length is ", options.row_length, "; it must be at least 1");
  require(options.max_length > 0, "data.max_length is ", options.max_length, "; it must be at least 1");
  PackPlan plan;
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < data.num_documents(); ++d) {
    const std::int64_t length = options.kept(data.length(d));
    if (!has_anchor(data.loss_mask_of(d).first(length))) {
      ++plan.num_without_anchor;
      continue;
    }
    plan.num_cut += length < data.length(d);
    order.push_back(d);
  }
  Rng rng(options.seed, RngPurpose::kPackOrder, {static_cast<std::uint64_t>(options.epoch)});
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[rng.below(static_cast<std::int64_t>(i))]);

  std::vector<OpenPack> open;
  for (std::int64_t d : order) {
    const std::int64_t length = options.kept(data.length(d));
    auto place = std::find_if(open.begin(), open.end(), [&](const OpenPack& pack) { return pack.room >= length; });
    if (place == open.end()) {
      if (open.size() == kMaxOpenPacks) {  // the fullest pack is the one that hardly anything fits in any more
        open.erase(std::min_element(open.begin(), open.end(), [](auto& a, auto& b) { return a.room < b.room; }));
      }
      open.push_back({plan.packs.size(), options.row_length});
      plan.packs.emplace_back();
      place = open.end() - 1;
    }
    plan.packs[place->index].push_back(d);
    place->room -= length;
    if (place->room == 0) open.erase(place);
  }
  return plan;
}

Pack make_pack(const DataSet& data, std::span<const std::int64_t> documents, const PackOptions& options) {
  Pack pack;
  for (std::int64_t d : documents) {
    const std::int64_t length = options.kept(data.length(d));
    const auto tokens = data.tokens_of(d).first(length);
    const auto mask = data.loss_mask_of(d).first(length);
    const auto id = static_cast<std::int32_t>(pack.documents.size());
    pack.documents.push_back({d, pack.length, length});
    pack.token_ids.insert(pack.token_ids.end(), tokens.begin(), tokens.end());
    pack.loss_mask.insert(pack.loss_mask.end(), mask.begin(), mask.end());
    pack.document_ids.insert(pack.document_ids.end(), length, id);
    pack.length += length;
    pack.position_ids.resize(pack.length);
    std::iota(pack.position_ids.end() - length, pack.position_ids.end(), std::int64_t{0});
  }
  DRAFTSMITH_ASSERT(pack.length <= options.row_length);
  pack.length =
      std::min((pack.length + options.multiple - 1) / options.multiple * options.multiple, options.row_length);
  pack.token_ids.resize(pack.length, 0);
  pack.document_ids.resize(pack.length, -1);
  pack.position_ids.resize(pack.length, 0);
  pack.loss_mask.resize(pack.length, 0);
  return pack;
}

std::vector<std::int64_t> valid_anchors(const Pack& pack, const DocumentSpan& span) {
  std::vector<std::int64_t> anchors;
  for (std::int64_t a = span.begin; a + 1 < span.begin + span.length; ++a) {
    if (pack.loss_mask[a] != 0 && pack.loss_mask[a + 1] != 0) anchors.push_back(a);
  }
  return anchors;
}

std::vector<std::int64_t> sample_anchors(const Pack& pack, const AnchorOptions& options, Rng& rng) {
  std::vector<std::vector<std::int64_t>> valid;
  std::vector<std::int64_t> wanted;
  for (const DocumentSpan& span : pack.documents) {
    valid.push_back(valid_anchors(pack, span));
    wanted.push_back(std::min(static_cast<std::int64_t>(valid.back().size()), options.per_document));
  }
  const std::vector<std::int64_t> share = share_budget(wanted, options.per_pack);

  std::vector<std::int64_t> anchors;
  for (std::size_t i = 0; i < valid.size(); ++i) {
    std::vector<std::int64_t>& pool = valid[i];
    const auto size = static_cast<std::int64_t>(pool.size());
    if (share[i] < size) {  // the first share[i] places of a Fisher-Yates shuffle
      for (std::int64_t k = 0; k < share[i]; ++k) std::swap(pool[k], pool[k + rng.below(size - k)]);
      std::sort(pool.begin(), pool.begin() + share[i]);
    }
    anchors.insert(anchors.end(), pool.begin(), pool.begin() + share[i]);
  }
  return anchors;
}

}  // namespace draftsmith
