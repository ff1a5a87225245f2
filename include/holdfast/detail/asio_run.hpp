// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/post.hpp>

#include <holdfast/detail/asio_pending.hpp>
#include <holdfast/detail/task_context.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/task.hpp>

namespace holdfast::detail {

template <typename T>
struct AsioRunSignature {
  static_assert(std::is_default_constructible_v<T>,
                "async_run() hands an Asio handler an empty T beside an error: T must be default "
                "constructible; return a std::optional<T>");
  using Type = void(std::exception_ptr, T);
};
template <>
struct AsioRunSignature<void> {
  using Type = void(std::exception_ptr);
};

/// A task whose end is told to a completion handler.
template <typename T, typename Handler, typename AsioExecutor>
class AsioRun final : public AsioPending {
  using Work = AsioWork<AsioExecutor>;

 public:
  AsioRun(Executor& executor, Handler handler, const AsioExecutor& asio_executor)
      : context_(executor, {}),
        handler_(std::move(handler)),
        asio_executor_(asio_executor),
        work_(asio_work(asio_executor)),
        pending_(AsioPendingList::of(asio_executor)) {}
  ~AsioRun() override = default;

  static void start(Executor& executor, Task<T> task, Handler handler,
                    const AsioExecutor& asio_executor) {
    auto run = std::make_shared<AsioRun>(executor, std::move(handler), asio_executor);
    auto root = run_to_end(run, std::move(task));
    auto slot = boost::asio::get_associated_cancellation_slot(*run->handler_);
    if (slot.is_connected()) {
      slot.template emplace<OnCancel>(run);
    }
    run->self_ = run;
    run->pending_->add(*run);
    run->context_.join_executor(run, {});
    Root::start(root, run->context_);
  }

 private:
  struct OnCancel {
    explicit OnCancel(const std::shared_ptr<AsioRun>& owner) noexcept : run(owner) {}
    std::weak_ptr<AsioRun> run;
    void operator()(boost::asio::cancellation_type type) const noexcept {
      const auto alive = run.lock();
      if (alive != nullptr && type != boost::asio::cancellation_type::none) {
        alive->context_.request_stop();
      }
    }
  };

  /// What is posted in the end. The result goes where the handler goes.
  struct Complete {
    Handler handler;
    Work work;
    Result<T> result;

    using allocator_type = boost::asio::associated_allocator_t<Handler>;
    [[nodiscard]] allocator_type get_allocator() const noexcept {
      return boost::asio::get_associated_allocator(handler);
    }
    void operator()() {
      auto slot = boost::asio::get_associated_cancellation_slot(handler);
      if (slot.is_connected()) {
        slot.clear();
      }
      std::exception_ptr error = result.failed() ? result.exception() : nullptr;
      if constexpr (std::is_void_v<T>) {
        std::move(handler)(std::move(error));
      } else {
        std::move(handler)(error, error == nullptr ? result.take() : T{});
      }
    }
  };

  static Root run_to_end(std::shared_ptr<AsioRun> run, Task<T> task) {
    {
      Capture<T> capture{std::move(task), run->result_};
      co_await capture;
    }
    run->end();
  }

  void end() noexcept {
    context_.leave_executor();
    pending_->settle(*this, [this] {
      const AsioExecutor executor = *asio_executor_;
      Complete complete{std::move(*handler_), std::move(*work_), std::move(result_)};
      boost::asio::post(executor, std::move(complete));
      self_.reset();  // The caller has another.
    });
  }

  void context_gone() noexcept override {
    const auto self = std::move(self_);
    context_.request_stop();
    handler_.reset();
    work_.reset();
    asio_executor_.reset();
  }

  TaskContext context_;
  Result<T> result_;
  std::optional<Handler> handler_;
  std::optional<AsioExecutor> asio_executor_;
  std::optional<Work> work_;
  std::shared_ptr<AsioPendingList> pending_;
  std::shared_ptr<AsioRun> self_;
};

template <typename Fallback>
struct StartAsioRun {
  Executor* executor;
  Fallback fallback;

  template <typename Handler, typename T>
  void operator()(Handler&& handler, Task<T> task) const {
    const auto asio_executor = boost::asio::get_associated_executor(handler, fallback);
    using Run = AsioRun<T, std::decay_t<Handler>, std::decay_t<decltype(asio_executor)>>;
    Run::start(*executor, std::move(task), std::forward<Handler>(handler), asio_executor);
  }
};

}  // namespace holdfast::detail
