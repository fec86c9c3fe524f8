#include "flex/executor.h"

#include "flex/view.h"

namespace flex {

ThreadPool::ThreadPool(int num_threads) {
  if (num_threads < 1) throw Error("[flex.executor] num_threads must be at least 1");
  for (int thread = 1; thread < num_threads; ++thread) threads_.emplace_back([this, thread] { work(thread); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begin_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(const std::function<void(int thread)>& body) {
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    busy_ = static_cast<int>(threads_.size());
    ++round_;
  }
  begin_.notify_all();
  body(0);
  std::unique_lock lock(mutex_);
  end_.wait(lock, [this] { return busy_ == 0; });
}

void ThreadPool::work(int thread) {
  std::uint64_t done = 0;
  while (true) {
    const std::function<void(int)>* body = nullptr;
    {
      std::unique_lock lock(mutex_);
      begin_.wait(lock, [&] { return stop_ || round_ != done; });
      if (stop_) return;
      done = round_;
      body = body_;
    }
    (*body)(thread);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) end_.notify_one();
  }
}

}  // namespace flex
