#include "tools/programs/small_program.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>

#include "common/io/printable.h"
#include "common/io/terminal.h"
#include "common/io/unexpected.h"
#include "common/io/version.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

void enter_users_folder() {
  const char* const folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (folder != nullptr && chdir(folder) != 0) {
    throw UserError(concat(folder, ": cannot be entered"));
  }
}

int run(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  add_version_flag(app);
  refuse_empty(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << help_text(app);
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    if (!app.remaining(true).empty()) throw UserError(unexpected_text(app));
    throw UserError(fault_text(app, error) + "; see --help");
  }
  enter_users_folder();
  return body();
}

}  // namespace

int run_small_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  const auto say = [&](const std::exception& error) {
    std::cerr << app.get_name() << ": " << one_line(said(error)) << "\n";
  };
  try {
    return run(app, argc, argv, body);
  } catch (const UserError& error) {
    say(error);
    return 2;
  } catch (const std::exception& error) {
    say(error);
    return 1;
  }
}

}  // namespace ladder
