// For tests: each rank is a thread of one process.
#pragma once

#include <barrier>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "draftsmith/ranks/ranks.h"

namespace draftsmith {

// Runs `body` on every rank at once and returns when all have ended. Throws what the first rank to fail threw; the
// others fail after it, since they miss its values.
inline void on_thread_ranks(std::int64_t size, const std::function<void(Ranks&)>& body) {
  struct Meeting {
    std::barrier<> barrier;
    std::vector<at::Tensor> values;  // of each rank
  };
  class ThreadRank : public Ranks {
   public:
    ThreadRank(Meeting& meeting, std::int64_t rank) : meeting_(meeting), rank_(rank) {}
    std::int64_t rank() const override { return rank_; }
    std::int64_t size() const override { return static_cast<std::int64_t>(meeting_.values.size()); }
    void sum(const at::Tensor& values) override {
      exchange(values, [this] {
        at::Tensor total = meeting_.values.front().clone();
        for (std::size_t i = 1; i < meeting_.values.size(); ++i) total.add_(meeting_.values[i]);
        return total;
      });
    }
    void broadcast(const at::Tensor& values) override {
      exchange(values, [this] { return meeting_.values.front().clone(); });
    }

   private:
    // No rank's values change before every rank has read them.
    void exchange(const at::Tensor& values, const std::function<at::Tensor()>& result) {
      meeting_.values[rank_] = values;
      meeting_.barrier.arrive_and_wait();
      const at::Tensor mine = result();
      meeting_.barrier.arrive_and_wait();
      values.copy_(mine);
    }
    Meeting& meeting_;
    const std::int64_t rank_;
  };

  Meeting meeting{.barrier = std::barrier<>(size), .values = std::vector<at::Tensor>(size)};
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        ThreadRank mine(meeting, rank);
        body(mine);
      } catch (...) {
        {
          const std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();
        }
        meeting.barrier.arrive_and_drop();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace draftsmith
