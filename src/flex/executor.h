// Threads are given by the caller; flex starts none in a call. Results do not depend on how many there are.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace flex {

class Executor {
 public:
  virtual ~Executor() = default;
  virtual int num_threads() const = 0;
  // Calls body(0) .. body(num_threads() - 1), at most one at a time for each number, and returns when all are done.
  // The body must not throw.
  virtual void run(const std::function<void(int thread)>& body) = 0;
};

class Serial final : public Executor {
 public:
  int num_threads() const override { return 1; }
  void run(const std::function<void(int thread)>& body) override { body(0); }
};

// Keeps threads that sleep between calls.
class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(int num_threads);  // the calling thread is one of them
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  int num_threads() const override { return static_cast<int>(threads_.size()) + 1; }
  void run(const std::function<void(int thread)>& body) override;

 private:
  void work(int thread);
  std::mutex mutex_;
  std::condition_variable begin_, end_;
  const std::function<void(int)>* body_ = nullptr;
  std::uint64_t round_ = 0;
  int busy_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace flex
