// The links of all Markdown files: a path leads to a file, an anchor to a heading, the number of an
// issue in the label is the one in the address, and a citation leads to its paper.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <map>
#include <regex>
#include <set>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/markdown.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {
namespace fs = std::filesystem;

struct Link {
  std::string label, target;
};

std::vector<Link> links_of(const std::string& text) {
  // Labels are short: a bracket elsewhere in the text begins none.
  static const std::regex kLink(R"(\[([^\[\]]{0,150})\]\(([^()\s]+(\([^()\s]*\))?)\))");
  const std::string prose = read_markdown(text).prose;
  std::vector<Link> links;
  for (auto match = std::sregex_iterator(prose.begin(), prose.end(), kLink);
       match != std::sregex_iterator(); ++match) {
    links.push_back({(*match)[1], (*match)[2]});
  }
  return links;
}

// "Run it: how?" has the anchor "run-it-how".
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const unsigned char c : heading) {
    if (c == ' ' || c == '-') anchor += '-';
    if (std::isalnum(c) || c == '_' || c >= 0x80) anchor += static_cast<char>(std::tolower(c));
  }
  return anchor;
}

bool has_anchor(const std::string& text, const std::string& anchor) {
  return std::ranges::any_of(headings_of(text),
                             [&](const std::string& h) { return anchor_of(h) == anchor; });
}

// "" or what is wrong with a link to a thread, such as [torchtitan issue 596](https://...).
std::string wrong_thread(const Link& link) {
  static const std::regex kLabel(R"((#|issue\s+|pull\s+)(\d+)$)"),
      kThread(R"(/(issues|pull)/(\d+)$)");
  std::smatch label, thread;
  if (!std::regex_search(link.label, label, kLabel)) return "";
  if (!std::regex_search(link.target, thread, kThread)) return "no thread";
  if (label[2] != thread[2]) return "another number";
  const bool same_kind =
      label[1] == "#" || label.str(1).starts_with("issue") == (thread[1] == "issues");
  return same_kind ? "" : "an issue is no pull request";
}

// Citations such as [Hu21] that are no link, on a page that does not name the paper either: its
// author, and within a line the year.
std::vector<std::string> lost_citations(const std::string& text) {
  static const std::regex kCitation(R"(\[([A-Z][a-z]+)([0-9]{2})\b[^\]]{0,40}\](\]?\()?)");
  const std::string prose = read_markdown(text).prose;
  std::vector<std::string> lost;
  for (auto match = std::sregex_iterator(prose.begin(), prose.end(), kCitation);
       match != std::sregex_iterator(); ++match) {
    const std::regex paper(concat(match->str(1), "\\b[^\\]]{0,60}(19|20)", match->str(2), "\\b"));
    if ((*match)[3].matched || std::regex_search(prose, paper)) continue;
    lost.push_back(match->str());
  }
  return lost;
}

// Threads of GitHub that stories cite without a row in `table` (threads.txt), rows of no story, and
// rows without a date and a result.
std::vector<std::string> wrong_threads(const std::map<std::string, std::string>& texts,
                                       const std::string& table) {
  static const std::regex kThread(R"(https://github\.com/([^)\s]+/(issues|pull)/[0-9]+))"),
      kRow(R"(^(\S+) \| (\d{4}-\d\d-\d\d \| (right|in part|mended|not found)|- \| not yet) \| .+)");
  std::set<std::string> cited, listed;
  std::vector<std::string> findings;
  for (const auto& [path, text] : texts) {
    if (!path.starts_with("lessons/") || !path.ends_with("/README.md")) continue;
    for (auto match = std::sregex_iterator(text.begin(), text.end(), kThread);
         match != std::sregex_iterator(); ++match) {
      cited.insert(match->str(1));
    }
  }
  for (const std::string& line : lines_of(table)) {
    std::smatch row;
    if (line.starts_with("#")) continue;
    if (!std::regex_match(line, row, kRow)) findings.push_back("no row: " + line);
    listed.insert(line.substr(0, line.find(' ')));
  }
  std::vector<std::string> differ;
  std::ranges::set_symmetric_difference(cited, listed, std::back_inserter(differ));
  for (const std::string& thread : differ) {
    findings.push_back(concat(thread, cited.contains(thread) ? ": no row" : ": in no story"));
  }
  return findings;
}

using Exists = std::function<bool(const fs::path&)>;

// `texts`: all Markdown files by path. `exists`: is there a file or folder at a path from the root?
std::vector<std::string> wrong_links(const std::string& path,
                                     const std::map<std::string, std::string>& texts,
                                     const Exists& exists) {
  std::vector<std::string> findings;
  for (const std::string& citation : lost_citations(texts.at(path))) {
    findings.push_back(concat(path, ": ", citation, " names no paper on this page"));
  }
  for (const Link& link : links_of(texts.at(path))) {
    const auto report = [&](const std::string& what) {
      findings.push_back(concat(path, ": [", link.label, "](", link.target, "): ", what));
    };
    if (link.target.starts_with("http")) {
      if (const std::string what = wrong_thread(link); !what.empty()) report(what);
      continue;
    }
    const size_t hash = link.target.find('#');
    const std::string to = link.target.substr(0, hash);
    const std::string file =
        to.empty() ? path : (fs::path(path).parent_path() / to).lexically_normal().generic_string();
    if (!exists(file)) {
      report("no such file");
    } else if (hash != std::string::npos) {
      const auto page = texts.find(file);
      const bool found =
          page != texts.end() && has_anchor(page->second, link.target.substr(hash + 1));
      if (!found) report("no such heading");
    }
  }
  return findings;
}

TEST_CASE("every link of every Markdown file leads somewhere") {
  std::map<std::string, std::string> texts;
  std::string threads;
  for (const SourceFile& file : read_tree(source_root())) {
    if (file.path.ends_with(".md")) texts[file.path] = file.text;
    if (file.path == "tests/tree/threads.txt") threads = file.text;
  }
  std::vector<std::string> findings;
  size_t num_links = 0;
  for (const auto& [path, text] : texts) {
    num_links += links_of(text).size();
    const auto exists = [](const fs::path& from_root) {
      return fs::exists(source_root() / from_root);
    };
    std::ranges::move(wrong_links(path, texts, exists), std::back_inserter(findings));
  }
  std::ranges::move(wrong_threads(texts, threads), std::back_inserter(findings));
  CHECK(num_links > 100);
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("the checker of links finds what leads nowhere") {
  const auto check_page = [](const std::string& text) {
    const std::map<std::string, std::string> texts = {
        {"a/README.md", text}, {"notes/b.md", "# B\n\n## `sum` of 2, or 3?\n\n```\n# none\n```\n"}};
    const auto exists = [&](const fs::path& path) {
      return texts.contains(path.generic_string()) || path == "notes/picture.svg";
    };
    return wrong_links("a/README.md", texts, exists);
  };
  CHECK(check_page("[B](../notes/b.md), ![p](../notes/picture.svg)").empty());
  CHECK(check_page("[B](../notes/c.md)") ==
        std::vector<std::string>{"a/README.md: [B](../notes/c.md): no such file"});
  CHECK(check_page("[B](notes/b.md)").size() == 1);
  CHECK(check_page("[B](../notes/b.md#sum-of-2-or-3)").empty());
  CHECK(check_page("[B](../notes/b.md#sum)") ==
        std::vector<std::string>{"a/README.md: [B](../notes/b.md#sum): no such heading"});
  CHECK(check_page("[B](../notes/b.md#none)").size() == 1);
  CHECK(check_page("# Here\n[x](#here)").empty());
  CHECK(check_page("# Here\n[x](#there)").size() == 1);
  CHECK(check_page("`[x](y)` and\n```\n[x](y)\n```\n").empty());  // code, no links
  CHECK(check_page("[two\nlines](gone.md)").size() == 1);
  CHECK(check_page("as in [Hu21]") ==
        std::vector<std::string>{"a/README.md: [Hu21] names no paper on this page"});
  CHECK(check_page("[Hu21, section 2]. Hu et al. 2022, *LoRA*").size() == 1);
  CHECK(check_page("[Hu21, section 2]. Hu et al. 2021, *LoRA*").empty());
  CHECK(check_page("[[Hu21]](https://arxiv.org), [[Hu21](https://arxiv.org), 2.1]").empty());
}

TEST_CASE("a thread that a story cites has a row, which says when it was read") {
  const auto wrong = [](const std::string& table) {
    return wrong_threads({{"lessons/01_x/README.md", "[t](https://github.com/a/b/pull/3)"}}, table);
  };
  CHECK(wrong("# a comment\na/b/pull/3 | 2026-11-28 | right | x\n").empty());
  CHECK(wrong("a/b/pull/3 | - | not yet | -\n").empty());
  CHECK(wrong("a/b/pull/3 | - | right | x\n") ==
        std::vector<std::string>{"no row: a/b/pull/3 | - | right | x"});
  CHECK(wrong("") == std::vector<std::string>{"a/b/pull/3: no row"});
  CHECK(wrong("a/b/pull/3 | - | not yet | -\na/b/pull/4 | - | not yet | -\n") ==
        std::vector<std::string>{"a/b/pull/4: in no story"});
}

TEST_CASE("the checker of links compares the numbers of threads") {
  const auto wrong = [](const std::string& label, const std::string& target) {
    return wrong_thread({label, "https://github.com/a/b/" + target});
  };
  CHECK(wrong("b issue 596", "issues/596").empty());
  CHECK(wrong("b #596", "pull/596").empty());
  CHECK(wrong("b issue\n  596", "issues/595") == "another number");
  CHECK(wrong("pull 7", "pull/7").empty());
  CHECK(wrong("reported", "issues/5").empty());
  CHECK(wrong("b #596", "issues/595") == "another number");
  CHECK(wrong("b #596", "discussions") == "no thread");
  CHECK(wrong("b issue 5", "pull/5") == "an issue is no pull request");
  CHECK(wrong("pull 5", "issues/5") == "an issue is no pull request");
}

}  // namespace
}  // namespace ladder
