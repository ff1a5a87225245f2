// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <variant>

#include <fmt/core.h>

#include "args.hpp"
#include "config.hpp"
#include "config_command.hpp"
#include "demo.hpp"
#include "escape.hpp"
#include "exit_code.hpp"
#include "explain_command.hpp"
#include "graph_command.hpp"
#include "interrupt.hpp"
#include "lock_command.hpp"
#include "locks_command.hpp"
#include "signals.hpp"
#include "state_command.hpp"
#include "store_command.hpp"
#include "terminal.hpp"
#include "top_command.hpp"

namespace holdfast::cli {

namespace {

/// A standard stream that was closed must not become the number of a file that is opened later.
void keep_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) {
      // Takes the lowest free number. For reading only: what is written there is an error still.
      static_cast<void>(open("/dev/null", O_RDONLY));
    }
  }
}

ExitCode code_of_output(const Terminal& terminal, ExitCode code) {
  if (terminal.error() == 0) {
    return code;
  }
  if (terminal.error() == EPIPE) {
    die_of(SIGPIPE);  // As every filter does: `| head` has read enough.
  }
  fmt::print(stderr, "holdfast: standard output cannot be written: {}\n",
             std::generic_category().message(terminal.error()));
  return kIoFailed;
}

ExitCode run(const PrintText& print) {
  Terminal terminal(STDOUT_FILENO, {});
  std::string text = print.text;
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  terminal.line(text);
  return code_of_output(terminal, kOk);
}

ExitCode run(const DemoArgs& args) {
  Interrupt interrupt;
  Terminal terminal(STDOUT_FILENO, traits_of(STDOUT_FILENO), [&] { interrupt.request_stop(); });
  if (args.list) {
    list_scenarios(terminal);
    return code_of_output(terminal, kOk);
  }
  const bool passed = play_demo(terminal, chosen_scenarios(args.only), interrupt.stop());
  const ExitCode code = code_of_output(terminal, passed ? kOk : kCheckFailed);
  if (code != kIoFailed && interrupt.signal() != 0) {
    die_of(interrupt.signal());
  }
  return code;
}

ExitCode run(const StoreArgs& args) {
  Terminal terminal(STDOUT_FILENO, traits_of(STDOUT_FILENO));
  const ExitCode code = run_store_command(terminal, args);
  return code_of_output(terminal, code);
}

int run(const LockArgs& args) {
  const Signals signals;
  Terminal terminal(STDERR_FILENO, traits_of(STDERR_FILENO));
  return run_lock_command(terminal, args, signals);
}

ExitCode run(const LocksArgs& args) {
  Terminal terminal(STDOUT_FILENO, traits_of(STDOUT_FILENO));
  const ExitCode code = run_locks_command(terminal, args);
  return code_of_output(terminal, code);
}

ExitCode run(const StateArgs& args) {
  if (args.action != StateAction::kWatch) {
    Terminal terminal(STDOUT_FILENO, traits_of(STDOUT_FILENO));
    const ExitCode code = run_state_command(terminal, args);
    return code_of_output(terminal, code);
  }
  Interrupt interrupt;
  Terminal terminal(STDOUT_FILENO, traits_of(STDOUT_FILENO), [&] { interrupt.request_stop(); });
  const ExitCode code = code_of_output(terminal, watch_state(terminal, args, interrupt.stop()));
  if (code != kIoFailed && interrupt.signal() != 0) {
    die_of(interrupt.signal());
  }
  return code;
}

ExitCode run(const ConfigArgs& args) {
  Terminal terminal(STDOUT_FILENO, traits_of(STDOUT_FILENO));
  show_config(terminal, args);
  return code_of_output(terminal, kOk);
}

ExitCode run(const ExplainArgs& args) {
  Terminal terminal(STDOUT_FILENO, traits_of(STDOUT_FILENO));
  const ExitCode code = run_explain_command(terminal, args);
  return code_of_output(terminal, code);
}

ExitCode run(const GraphArgs& args) {
  Terminal terminal(STDOUT_FILENO, traits_of(STDOUT_FILENO));
  const ExitCode code = run_graph_command(terminal, args);
  return code_of_output(terminal, code);
}

int run(const TopArgs& args) {
  const Signals signals;
  Terminal terminal(STDOUT_FILENO, traits_of(STDOUT_FILENO));
  const int code = run_top_command(terminal, args, signals);
  return terminal.error() == 0 ? code : code_of_output(terminal, kOk);
}

int run_program(int argc, const char* const* argv) {
  try {
    if (const auto code = examples::play_part(argc, argv)) {
      return *code;
    }
    return std::visit([](const auto& args) -> int { return run(args); }, parse_args(argc, argv));
  } catch (const UsageError& error) {
    fmt::print(stderr, "holdfast: {}\nTry 'holdfast --help'.\n", one_line(error.what()));
    return kUsage;
  } catch (const ConfigError& error) {
    fmt::print(stderr, "holdfast: {}\n", one_line(error.what()));
    return kBadConfig;
  } catch (const Error& error) {
    fmt::print(stderr, "holdfast: {} (error {}, see docs/errors)\n", one_line(error.what()),
               static_cast<int>(error.code()));
    return exit_code_of(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "holdfast: internal error: {}\n", one_line(error.what()));
    return kInternal;
  }
}

}  // namespace

}  // namespace holdfast::cli

int main(int argc, char** argv) {
  holdfast::cli::keep_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // The demo is to end in order, not in the middle.
  return holdfast::cli::run_program(argc, argv);
}
