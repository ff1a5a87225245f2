// SPDX-License-Identifier: Apache-2.0
// A schedule is a run, and its code an ordinary workflow: two parts of it go on side by side, one
// that looks at the clock, and one that runs what is due in turn.
#include "schedule_workflow.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <holdfast/workflow.hpp>

#include "schedule_book.hpp"

namespace holdfast::detail {

namespace {

/// A calendar that somebody has set is noticed after this time, at the latest.
constexpr Duration kLookInterval = std::chrono::hours(1);
/// So often it looks before it goes on with a journal that is empty.
constexpr int kLooksMax = 100;

ChildOptions options_of(const ScheduleDefinition& definition, const FiredRun& run) {
  ChildOptions options;
  options.id = run.id;
  options.queue = definition.queue;
  options.parent_close = ParentClose::kAbandon;
  options.must_end = true;
  options.is_root = true;
  return options;
}

/// How long to wait for what comes next. Nothing: for no time.
std::optional<Duration> wait_of(const ScheduleBook& book, const Agenda& agenda, StoreTime now) {
  if (!agenda.next_ns || !book.wants_time()) {
    return std::nullopt;
  }
  if (agenda.calendar_ns) {
    return StoreTime(Duration(*agenda.next_ns - *agenda.calendar_ns)) - now;
  }
  return std::min(Duration(*agenda.next_ns - agenda.now_ns), kLookInterval);
}

class ScheduleCode final : public WorkflowCode {
 public:
  ScheduleCode(std::shared_ptr<const WallClock> clock, Store& store) noexcept
      : clock_(std::move(clock)), store_(store) {}

  [[nodiscard]] Task<boost::json::value> run(Context& ctx,
                                             boost::json::value input) const override {
    ScheduleBook book(from_payload<ScheduleState>(std::move(input), "input"), ctx.started_at());
    listen(ctx, book);
    bool is_closing = false;
    co_await ctx.all(keep_time(ctx, book, is_closing), run_in_turn(ctx, book, is_closing));
    ctx.continue_as_new(book.state());
  }

 private:
  static void listen(Context& ctx, ScheduleBook& book) {
    ctx.on_signal<ScheduleDefinition>(kSetSignal, [&](ScheduleDefinition definition) {
      book.set(std::move(definition), ctx.now());
    });
    ctx.on_signal<std::string>(kPauseSignal,
                               [&](std::string reason) { book.pause(std::move(reason)); });
    ctx.on_signal<boost::json::value>(
        kResumeSignal, [&](const boost::json::value& /*nothing*/) { book.resume(ctx.now()); });
    ctx.on_signal<boost::json::value>(
        kRunNowSignal, [&](const boost::json::value& /*nothing*/) { book.ask_for_run(); });
  }

  /// What the clock says, and what follows from it in the tables of time zones, is a step: a replay
  /// has it from the journal.
  Task<Agenda> look(Context& ctx, const ScheduleBook& book) const {
    auto step = ctx.run("look at the clock",
                        [clock = clock_, store = &store_, state = book.state(),
                         start = book.start()] { return look_now(clock, *store, state, start); },
                        {.side_effect_free = true});
    Agenda agenda = co_await step;
    co_return agenda;
  }

  /// Both clocks are read here: by the time a step is done, what was now when it was asked for may
  /// be long ago.
  static Task<Agenda> look_now(std::shared_ptr<const WallClock> clock, Store& store,
                               ScheduleState state, ScheduleStart start) {
    const StoreTime now = co_await store.time();
    co_return ScheduleTimes(state).agenda(clock->now(), now, start);
  }

  Task<void> keep_time(Context& ctx, ScheduleBook& book, bool& is_closing) const {
    auto shown = ctx.state<ScheduleState>(kScheduleCell);
    for (int looks = 0; looks < kLooksMax || book.is_running() || book.has_changed(); ++looks) {
      std::optional<Duration> wait;
      if (book.wants_time()) {
        book.begin_look();
        const Agenda agenda = co_await look(ctx, book);
        if (!book.decide(agenda)) {
          continue;
        }
        wait = wait_of(book, agenda, ctx.now());
        begin_unwatched(ctx, book);
        // What begins now is to be seen from the same commit on.
        co_await ctx.wait_until([&book] { return !book.has_next(); });
      }
      if (book.take_change()) {
        const std::optional<std::string> running = book.running();
        co_await shown.set(book.state());
        book.was_shown(running);
      }
      co_await until_news(ctx, book, wait);
    }
    is_closing = true;
  }

  /// They go on by themselves, also when this run goes on as another one.
  static void begin_unwatched(Context& ctx, ScheduleBook& book) {
    const ScheduleDefinition& definition = book.state().definition;
    for (const FiredRun& run : book.begin_unwatched()) {
      static_cast<void>(ctx.child<boost::json::value>(definition.workflow, definition.input,
                                                      options_of(definition, run)));
    }
  }

  static Task<void> until_news(Context& ctx, ScheduleBook& book, std::optional<Duration> wait) {
    const auto has_news = [&book] { return book.has_changed(); };
    if (wait) {
      static_cast<void>(co_await ctx.wait_until(has_news, *wait));
    } else {
      co_await ctx.wait_until(has_news);
    }
  }

  static Task<void> run_in_turn(Context& ctx, ScheduleBook& book, bool& is_closing) {
    for (;;) {
      co_await ctx.wait_until([&] { return is_closing || book.has_next(); });
      if (is_closing) {
        co_return;
      }
      const FiredRun run = book.begin_next();
      const ScheduleDefinition& definition = book.state().definition;
      auto child = ctx.child<boost::json::value>(definition.workflow, definition.input,
                                                 options_of(definition, run));
      // If it is to stop, that is asked of it, and its end is waited for.
      auto stop = ctx.wait_until([&book] { return book.shall_stop(); });
      static_cast<void>(co_await ctx.any(see_to_its_end(ctx, book, child), stop));
    }
  }

  static Task<void> see_to_its_end(Context& ctx, ScheduleBook& book,
                                   Durable<boost::json::value>& child) {
    auto ended = co_await ctx.attempt(child);
    try {
      ended.rethrow();
      book.end_running(RunState::kCompleted, {});
    } catch (const RunExists&) {
      book.refuse_running();
    } catch (const std::exception& error) {
      book.end_running(RunState::kFailed, error.what());
    }
  }

  std::shared_ptr<const WallClock> clock_;
  Store& store_;
};

}  // namespace

std::shared_ptr<const WorkflowCode> schedule_code(std::shared_ptr<const WallClock> clock,
                                                  Store& store) {
  return std::make_shared<ScheduleCode>(std::move(clock), store);
}

}  // namespace holdfast::detail
