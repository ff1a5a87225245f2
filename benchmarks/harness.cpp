// SPDX-License-Identifier: Apache-2.0
#include "harness.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::bench {

namespace {

// As sysexits.h names it, EX_USAGE.
constexpr int kUsageError = 64;

constexpr const char* kUsage =
    "usage: holdfast_bench [SUITE...] [--case NAME]... [--json] [--list] [--help]\n"
    "\n"
    "Measures the cases of the suites, or of all of them, and prints a table.\n"
    "  --case NAME  only the cases of this name\n"
    "  --json       one JSON object per line instead of the table\n"
    "  --list       only say which cases there are\n";

/// Filled before main() by registrations in any order of files.
std::vector<Case>& registered() {
  static std::vector<Case> cases;
  return cases;
}

struct Measurement {
  double ours;
  double peer;
  double ratio;  // Not a number when only the peer is zero.
};

struct Arguments {
  std::vector<std::string> suites;
  std::vector<std::string> cases;
  bool json = false;
  bool list = false;
  bool help = false;
};

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

double median(std::vector<double> figures) {
  const auto middle = figures.begin() + static_cast<std::ptrdiff_t>(figures.size() / 2);
  std::nth_element(figures.begin(), middle, figures.end());
  return *middle;
}

Measurement measure(const Case& measured) {
  std::vector<double> ours;
  std::vector<double> peer;
  for (int round = 0; round < measured.rounds; ++round) {
    ours.push_back(measured.ours());
    peer.push_back(measured.peer());
  }
  const double our_median = median(std::move(ours));
  const double peer_median = median(std::move(peer));
  // What is as low as zero cannot be divided by; two zeros are as good as each other.
  const bool both_zero = our_median == 0 && peer_median == 0;
  return {our_median, peer_median, both_zero ? 1 : our_median / peer_median};
}

std::string fixed(double figure, int decimals) {
  char text[400];
  const auto end =
      std::to_chars(std::begin(text), std::end(text), figure, std::chars_format::fixed, decimals);
  return {text, end.ptr};
}

std::string digits(double figure, int significant) {
  char text[64];
  const auto end = std::to_chars(std::begin(text), std::end(text), figure,
                                 std::chars_format::general, significant);
  return {text, end.ptr};
}

std::string figure_text(double figure) {
  return std::isfinite(figure) ? fixed(figure, figure >= 100 ? 0 : 2) : "-";
}

std::string limit_text(const Limit& limit) {
  std::string text;
  const auto add = [&](std::string_view what, const std::optional<double>& bound) {
    if (bound) {
      text.append(text.empty() ? "" : ", ").append(what).append(" ").append(digits(*bound, 3));
    }
  };
  add("ratio <=", limit.ratio_max);
  add("ratio >=", limit.ratio_min);
  add("ours <=", limit.ours_max);
  add("ours >=", limit.ours_min);
  return text;
}

std::string verdict(const Limit& limit, const Measurement& measurement) {
  if (limit_text(limit).empty()) {
    return "";
  }
  // A ratio that is not a number meets no limit.
  const bool met = (!limit.ratio_max || measurement.ratio <= *limit.ratio_max) &&
                   (!limit.ratio_min || measurement.ratio >= *limit.ratio_min) &&
                   (!limit.ours_max || measurement.ours <= *limit.ours_max) &&
                   (!limit.ours_min || measurement.ours >= *limit.ours_min);
  return met ? "met" : "missed";
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      quoted += escaped;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string json_number(double figure) {
  return std::isfinite(figure) ? digits(figure, 9) : "null";
}

std::string json_line(const Case& measured, const Measurement& measurement) {
  return "{\"suite\": " + json_string(measured.suite) +
         ", \"case\": " + json_string(measured.name) +
         ", \"ours\": " + json_number(measurement.ours) +
         ", \"peer\": " + json_number(measurement.peer) +
         ", \"peer_name\": " + json_string(measured.peer_name) +
         ", \"unit\": " + json_string(measured.unit) +
         ", \"better\": " + (measured.better == Better::kLower ? "\"lower\"" : "\"higher\"") +
         ", \"ratio\": " + json_number(measurement.ratio) + "}";
}

/// Prints a row as soon as it is known: the widths come from what is known before.
class Table {
 public:
  explicit Table(const std::vector<const Case*>& cases) {
    for (const Case* one : cases) {
      widen(kCase, one->suite + ' ' + one->name);
      widen(kUnit, one->unit);
      widen(kLimit, limit_text(one->limit));
    }
    print({"case", "ours", "peer", "unit", "ratio", "limit", "verdict", "peer is"});
  }

  void add(const Case& measured, const Measurement& measurement) {
    print({measured.suite + ' ' + measured.name, figure_text(measurement.ours),
           figure_text(measurement.peer), measured.unit, figure_text(measurement.ratio),
           limit_text(measured.limit), verdict(measured.limit, measurement), measured.peer_name});
  }

 private:
  enum Column : std::uint8_t { kCase, kOurs, kPeer, kUnit, kRatio, kLimit, kVerdict, kPeerName };
  static constexpr std::size_t kColumns = kPeerName + 1;

  void widen(Column column, const std::string& text) {
    widths_[column] = std::max(widths_[column], text.size());
  }

  void print(const std::string (&row)[kColumns]) const {
    std::string line;
    for (std::size_t column = 0; column < kColumns; ++column) {
      const std::string& text = row[column];
      const std::size_t width = widths_[column];
      const std::string padding(width > text.size() ? width - text.size() : 0, ' ');
      const bool number = column == kOurs || column == kPeer || column == kRatio;
      line += number ? padding + text : text + padding;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << std::endl;
  }

  std::size_t widths_[kColumns] = {4, 9, 9, 4, 7, 5, 7, 7};
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json") {
      arguments.json = true;
    } else if (word == "--list") {
      arguments.list = true;
    } else if (word == "--help") {
      arguments.help = true;
    } else if (word == "--case") {
      if (++i == argc) {
        throw UsageError("--case needs a name");
      }
      arguments.cases.emplace_back(argv[i]);
    } else if (word.starts_with("-")) {
      throw UsageError("unknown option '" + word + "'");
    } else {
      arguments.suites.push_back(word);
    }
  }
  return arguments;
}

template <typename Known>
void require_known(const char* what, const std::vector<std::string>& wanted,
                   const std::vector<const Case*>& among, const Known& name_of) {
  for (const std::string& name : wanted) {
    if (std::none_of(among.begin(), among.end(),
                     [&](const Case* one) { return name_of(*one) == name; })) {
      std::string known;
      for (const Case* one : among) {
        if (const std::string other = name_of(*one);
            (' ' + known + ' ').find(' ' + other + ' ') == std::string::npos) {
          known += (known.empty() ? "" : " ") + other;
        }
      }
      throw UsageError(std::string("unknown ") + what + " '" + name + "'; known are: " + known);
    }
  }
}

std::vector<const Case*> of_names(const std::vector<const Case*>& among,
                                  const std::vector<std::string>& wanted,
                                  std::string Case::* name) {
  std::vector<const Case*> chosen;
  for (const Case* one : among) {
    if (wanted.empty() || std::count(wanted.begin(), wanted.end(), one->*name) > 0) {
      chosen.push_back(one);
    }
  }
  return chosen;
}

std::vector<const Case*> select(const Arguments& arguments) {
  std::vector<const Case*> all;
  for (const Case& one : registered()) {
    all.push_back(&one);
  }
  // Suites by name, their cases as they were registered.
  std::sort(all.begin(), all.end(), [](const Case* a, const Case* b) {
    return a->suite != b->suite ? a->suite < b->suite : a < b;
  });
  require_known("suite", arguments.suites, all, [](const Case& one) { return one.suite; });
  const auto of_suites = of_names(all, arguments.suites, &Case::suite);
  require_known("case", arguments.cases, of_suites, [](const Case& one) { return one.name; });
  return of_names(of_suites, arguments.cases, &Case::name);
}

/// A second thread that is alive and does nothing: in a process without one, glibc leaves out the
/// atomic operations of its locks, and nobody who needs a lock is in such a process.
class IdleThread {
 public:
  IdleThread() : thread_([this](const std::stop_token& stop) { sleep(stop); }) {}

 private:
  void sleep(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    woken_.wait(lock, stop, [] { return false; });
  }

  std::mutex mutex_;
  std::condition_variable_any woken_;
  std::jthread thread_;
};

void run_cases(const std::vector<const Case*>& cases, bool json) {
  const IdleThread idle;
  std::optional<Table> table;
  if (!json) {
    table.emplace(cases);
  }
  for (const Case* one : cases) {
    try {
      const Measurement measurement = measure(*one);
      if (json) {
        std::cout << json_line(*one, measurement) << std::endl;
      } else {
        table->add(*one, measurement);
      }
    } catch (const LeftOut& reason) {
      std::cerr << "holdfast_bench: " << one->suite << ' ' << one->name
                << " is left out: " << reason.what() << std::endl;
    }
  }
}

}  // namespace

Registration::Registration(Case added) { registered().push_back(std::move(added)); }

void require(bool condition, const char* message) {
  if (!condition) {
    throw std::logic_error(message);
  }
}

int run(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    if (arguments.help) {
      std::cout << kUsage;
      return 0;
    }
    const auto cases = select(arguments);
    if (arguments.list) {
      for (const Case* one : cases) {
        std::cout << one->suite << ' ' << one->name << '\n';
      }
      return 0;
    }
    run_cases(cases, arguments.json);
    return 0;
  } catch (const UsageError& error) {
    std::cerr << "holdfast_bench: " << error.what() << '\n' << kUsage;
    return kUsageError;
  } catch (const std::exception& error) {
    std::cerr << "holdfast_bench: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace holdfast::bench
