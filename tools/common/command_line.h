// How all programs read their command line.
//
// Thread safety: pure function of its arguments.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "base/status.h"

namespace gpucoll::tools {

// What --help or --version asks to be printed; "" where there is something to do. Errors: invalid_argument.
inline Result<std::string> read_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion& version) {
    return std::string(version.what()) + "\n";
  } catch (const CLI::ParseError& error) {
    return Status(Code::invalid_argument, std::string(error.what()) + "; see " + app.get_name() + " --help");
  }
  return std::string();
}

}  // namespace gpucoll::tools
