#include "cli/parse.h"

#include <CLI/Error.hpp>
#include <algorithm>
#include <charconv>

#include "cli/terminal.h"
#include "trainctl/base/error.h"
#include "trainctl/base/strings.h"
#include "trainctl/config/load.h"

namespace trainctl {
namespace {

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

UserError unexpected(const CLI::App& app, const std::string& word) {
  const std::string help = "; " + app.get_name() + " --help";
  if (looks_like_override(word)) {
    return usage_error("unexpected argument '" + word + "'; give each override its own --set");
  }
  if (!word.starts_with("-")) {
    return usage_error("unexpected argument '" + word + "'" + help);
  }
  const std::string flag = word.substr(0, word.find('='));
  const auto near = nearest(flag, flags_of(app));
  return usage_error("unknown flag '" + flag + "'" +
                     (near ? "; did you mean '" + *near + "'?" : help + " lists them"));
}

}  // namespace

std::optional<int> parse_arguments(CLI::App* app, const Arguments& arguments) {
  app->allow_extras();  // so that they can be explained here
  Arguments reversed(arguments.rbegin(), arguments.rend());
  try {
    app->parse(reversed);
  } catch (const CLI::CallForHelp&) {
    terminal().print(app->help());
    return 0;
  } catch (const CLI::ParseError& error) {
    // An unknown flag is the likelier cause of whatever else is missing.
    const Arguments extras = app->remaining();
    const auto flag = std::find_if(extras.begin(), extras.end(),
                                   [](const std::string& word) { return word.starts_with("-"); });
    if (flag != extras.end() && *flag != "--") throw unexpected(*app, *flag);
    throw usage_error(std::string(error.what()) + "; " + app->get_name() + " --help");
  }
  for (const std::string& word : app->remaining()) {
    if (word != "--") throw unexpected(*app, word);
  }
  return std::nullopt;
}

CLI::Option* add_repeated(CLI::App* app, const std::string& name, std::vector<std::string>* values,
                          const std::string& description) {
  // Without this a vector option would swallow the positional arguments after it.
  return app->add_option(name, *values, description + " (repeatable)")
      ->allow_extra_args(false)
      ->option_text("KEY=VALUE");
}

CLI::Validator whole_number(int64_t low, int64_t high) {
  const std::string range = std::to_string(low) + " to " + std::to_string(high);
  return CLI::Validator(
      [low, high, range](const std::string& text) -> std::string {
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc() && end == text.data() + text.size() && value >= low &&
            value <= high)
          return "";
        return "'" + text + "' is no whole number from " + range;
      },
      "WHOLE NUMBER");
}

}  // namespace trainctl
