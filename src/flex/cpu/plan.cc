#include "flex/cpu/plan.h"

#include <algorithm>
#include <numeric>

namespace flex::detail {
namespace {

// A chunk holds at most this share of all work.
constexpr std::int64_t kChunks = 16;

class Union {
 public:
  explicit Union(std::int64_t size) : parent_(static_cast<std::size_t>(size)) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  std::int64_t find(std::int64_t i) {
    while (at(i) != i) i = at(i) = at(at(i));
    return i;
  }
  void join(std::int64_t a, std::int64_t b) {
    a = find(a), b = find(b);
    at(std::max(a, b)) = std::min(a, b);
  }

 private:
  std::int64_t& at(std::int64_t i) { return parent_[static_cast<std::size_t>(i)]; }
  std::vector<std::int64_t> parent_;
};

// A tile with what it costs and the keys it sees.
struct Item {
  PlanTile tile;
  std::int64_t work = 0;
  KeySpan keys[2];
};

void widen(KeySpan& span, const KeySpan& with) {
  if (with.size() == 0) return;
  if (span.size() == 0) {
    span = with;
  } else {
    span = {std::min(span.begin, with.begin), std::max(span.end, with.end)};
  }
}

Item item_of(const BlockMask& mask, std::int64_t plane, std::int64_t tile, std::int64_t head) {
  Item item;
  item.tile = {static_cast<std::int32_t>(tile), static_cast<std::int32_t>(head)};
  item.work = mask.pairs_in(plane, tile);
  const std::int64_t context = mask.shape().num_context;
  for (const Segment& segment : mask.row(plane, tile)) {
    const int source = segment.begin >= context ? 1 : 0;
    const std::int64_t offset = source == 0 ? 0 : context;
    widen(item.keys[source], {segment.begin - offset, segment.end - offset});
  }
  return item;
}

// Puts the tiles of one plane whose hulls of keys meet, directly or through others, into one list; lists are in order
// of their first tile. It asks for hulls and not for segments, because a chunk's sums cover a hull.
std::vector<std::vector<Item>> components_of(std::vector<Item> items) {
  const auto count = static_cast<std::int64_t>(items.size());
  Union sets(count);
  for (int source = 0; source < 2; ++source) {
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < count; ++i)
      if (items[static_cast<std::size_t>(i)].keys[source].size() > 0) order.push_back(i);
    const auto span = [&](std::int64_t i) { return items[static_cast<std::size_t>(i)].keys[source]; };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return span(a).begin < span(b).begin; });
    std::int64_t reach = -1, owner = -1;  // the furthest end so far and whose it is
    for (const std::int64_t i : order) {
      if (owner >= 0 && span(i).begin < reach) sets.join(i, owner);
      if (span(i).end > reach) reach = span(i).end, owner = i;
    }
  }
  std::vector<std::vector<Item>> out;
  std::vector<std::int64_t> index(items.size(), -1);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t& at = index[static_cast<std::size_t>(sets.find(i))];
    if (at < 0) {
      at = static_cast<std::int64_t>(out.size());
      out.emplace_back();
    }
    out[static_cast<std::size_t>(at)].push_back(items[static_cast<std::size_t>(i)]);
  }
  return out;
}

void append(BackwardPlan& plan, std::int64_t b, std::int64_t kv_head, const std::vector<Item>& component,
            std::int64_t most_work) {
  const auto number = static_cast<std::int64_t>(plan.first_chunk.size());
  plan.first_chunk.push_back(static_cast<std::int64_t>(plan.chunks.size()));
  std::int64_t all = 0;
  for (const Item& item : component) all += item.work;
  const std::int64_t pieces = std::max<std::int64_t>(1, (all + most_work - 1) / most_work);
  std::int64_t done = 0, piece = 0;
  bool open = false;
  for (const Item& item : component) {
    // The middle of an item decides its piece.
    const std::int64_t at = all == 0 ? 0 : std::min(pieces - 1, (done + item.work / 2) * pieces / all);
    if (!open || at != piece) {
      Chunk& added = plan.chunks.emplace_back();
      added.b = b, added.kv_head = kv_head, added.component = number;
      piece = at;
      open = true;
    }
    Chunk& chunk = plan.chunks.back();
    chunk.tiles.push_back(item.tile);
    chunk.work += item.work;
    for (int source = 0; source < 2; ++source) widen(chunk.keys[source], item.keys[source]);
    done += item.work;
  }
}

}  // namespace

BackwardPlan plan_backward(const BlockMask& mask, std::int64_t num_batches, std::int64_t num_kv_heads,
                           std::int64_t group) {
  BackwardPlan plan;
  const bool own_masks = mask.shape().num_heads > 1;  // each query head has its own
  // The mask counts a plane once, however many batches and key/value heads share it.
  const std::int64_t all = mask.num_pairs() * (num_batches / mask.shape().num_batches) * (own_masks ? 1 : num_kv_heads);
  const std::int64_t most_work = std::max<std::int64_t>(1, (all + kChunks - 1) / kChunks);
  for (std::int64_t b = 0; b < num_batches; ++b) {
    std::vector<std::vector<Item>> shared;  // components, where all heads have one mask
    for (std::int64_t kv_head = 0; kv_head < num_kv_heads; ++kv_head) {
      std::vector<Item> items;
      if (own_masks || kv_head == 0) {
        for (std::int64_t head = 0; head < (own_masks ? group : 1); ++head)
          for (std::int64_t tile = 0; tile < mask.num_tiles(); ++tile)
            items.push_back(item_of(mask, mask.plane(b, kv_head * group + head), tile, head));
      }
      if (own_masks) {
        append(plan, b, kv_head, items, most_work);
      } else {
        if (kv_head == 0) shared = components_of(std::move(items));
        for (const std::vector<Item>& component : shared) append(plan, b, kv_head, component, most_work);
      }
    }
  }
  plan.first_chunk.push_back(static_cast<std::int64_t>(plan.chunks.size()));
  plan.by_work.resize(plan.chunks.size());
  std::iota(plan.by_work.begin(), plan.by_work.end(), 0);
  std::stable_sort(plan.by_work.begin(), plan.by_work.end(), [&](std::int64_t a, std::int64_t b) {
    return plan.chunks[static_cast<std::size_t>(a)].work > plan.chunks[static_cast<std::size_t>(b)].work;
  });
  return plan;
}

}  // namespace flex::detail
