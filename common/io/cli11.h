// Names CLI11's classes, for headers that pass them on: its own header takes seconds to compile.
#pragma once

namespace CLI {
class App;
class Option;
class ParseError;
class Validator;
}  // namespace CLI
