// Rewrites the constructs of preprocessed CUDA C that C++ lacks, and appends a list of the kernels. For nvrtc.cpp.
#pragma once
#include <cctype>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {
using std::string;

// What inline PTX becomes. The functions take the outputs, then the inputs; some the line too.
struct Ptx { const char *text, *function; bool site; };
const Ptx KNOWN[] = {
    {"pmevent 0;", "vg_ptx_event", false},
    {"mul.wide.u32 %0, %1, %2;", "vg_ptx_wide_product", false},
    {"rsqrt.approx.ftz.f32 %0, %1;", "vg_ptx_rsqrt", false},
    {"rsqrt.approx.ftz.f64 %0, %1;", "vg_ptx_rsqrt", false},
    {"cvt.f32.f16 %0, %1;", "vg_ptx_f32_of_f16", false},
    {"cvt.rn.f16.f32 %0, %1;", "vg_ptx_f16_of_f32", false},
    {"st.volatile.global.v2.u64 [%0], {%1, %2};", "vg_ptx_store_pair", false},
    {"ld.volatile.global.v2.u64 {%0, %1}, [%2];", "vg_ptx_load_pair", false},
    {"st.volatile.global.v2.u32 [%0], {%1, %2};", "vg_ptx_store_pair", false},
    {"ld.volatile.global.v2.u32 {%0, %1}, [%2];", "vg_ptx_load_pair", false},
    {"{ .reg .pred p; .reg .b32 t; and.b32 t, %1, %2; setp.ne.u32 p, t, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; @!p not.b32 %0, %0; }",
     "vg_ptx_same_bit", true},
    {"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};", "vg_ptx_multiply_add", true},
    {"cp.async.ca.shared.global [%0], [%1], 8;", "vg_ptx_copy_double", false},
    {"cp.async.wait_all;", "vg_ptx_event", false},
};

bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

struct Rewriter {
  const string& in;
  string out;
  size_t at = 0;
  int line = 0;
  string complaint;
  std::vector<std::pair<string, string>> kernels;  // names and bounds
  std::set<string> listed;
  std::vector<string> globals;
  int depth = 0;
  bool lists_globals;
  explicit Rewriter(const string& text, bool lists_globals) : in(text), lists_globals(lists_globals) {
      out.reserve(text.size() + 4096); }

  size_t blanks(size_t p) const { while (p < in.size() && isspace((unsigned char)in[p])) p++; return p; }
  string word(size_t p) const { size_t q = p; while (q < in.size() && in_word(in[q])) q++; return in.substr(p, q - p); }
  // past a string or character that begins at p
  size_t past_quote(size_t p) const {
    const char quote = in[p++];
    while (p < in.size() && in[p] != quote) p += in[p] == '\\' ? 2 : 1;
    return p + 1;
  }
  // past the bracket that closes the one at p
  size_t past_bracket(size_t p) const {
    int depth = 0;
    while (p < in.size()) {
      const char c = in[p];
      if (c == '"' || c == '\'') { p = past_quote(p); continue; }
      if (c == '(') depth++;
      if (c == ')' && --depth == 0) return p + 1;
      p++;
    }
    return p;
  }
  void keep_lines(size_t from, size_t to) { for (size_t p = from; p < to; p++) if (in[p] == '\n') out += '\n'; }

  // The name and the bounds of the kernel whose `__global__` ends at p.
  void kernel(size_t p) {
    string bounds = "0";
    for (;;) {
      p = blanks(p);
      if (p >= in.size()) return;
      if (!in_word(in[p])) { p++; continue; }
      const string w = word(p);
      const size_t next = blanks(p + w.size());
      if (w == "__launch_bounds__" || w == "__attribute__") {
        const size_t end = past_bracket(next);
        if (w[2] == 'l') {
          bounds = in.substr(next + 1, end - next - 2);
          int depth = 0;
          for (size_t k = 0; k < bounds.size(); k++) {
            if (bounds[k] == '(') depth++;
            if (bounds[k] == ')') depth--;
            if (bounds[k] == ',' && depth == 0) bounds.resize(k);
          }
        }
        p = end;
        continue;
      }
      if (next < in.size() && in[next] == '(') {
        if (listed.insert(w).second) kernels.push_back({w, bounds});
        return;
      }
      p += w.size();
    }
  }

  // The variable that a declaration from p on declares, if it does and lies outside all braces.
  void global(size_t p) {
    string last, name;
    for (; p < in.size(); p++) {
      if (in_word(in[p])) {
        last = word(p);
        p += last.size() - 1;
        continue;
      }
      if (in[p] == '[' || in[p] == '=' || in[p] == ';') {
        if (depth == 0 && !last.empty() && listed.insert(last).second) globals.push_back(last);
        return;
      }
      if (in[p] == '(' || in[p] == '{' || in[p] == '<') return;
    }
  }

  // The operands between colons: "=r"(x), "l"(y) as x, y.
  void operands(size_t from, size_t to, std::vector<string>& list) const {
    while ((from = blanks(from)) < to) {
      if (in[from] == '"') { from = past_quote(from); continue; }
      if (in[from] == '(') {
        const size_t end = past_bracket(from);
        list.push_back(in.substr(from, end - from));
        from = end;
        continue;
      }
      from++;
    }
  }
  // Inline PTX; p is behind the word `asm`.
  void ptx(size_t p) {
    p = blanks(p);
    while (in_word(in[p])) p = blanks(p + word(p).size());  // volatile
    const size_t open = p, end = past_bracket(open);
    string text;
    p = blanks(open + 1);
    while (in[p] == '"') {
      const size_t close = past_quote(p);
      text += in.substr(p + 1, close - p - 2);
      p = blanks(close);
    }
    std::vector<size_t> colons{p};
    for (size_t q = p; q + 1 < end;) {
      if (in[q] == '"') { q = past_quote(q); continue; }
      if (in[q] == '(') { q = past_bracket(q); continue; }
      if (in[q] == ':') {
        colons.push_back(q + 1);
      }
      q++;
    }
    colons.push_back(end - 1);
    const Ptx* known = nullptr;
    for (const Ptx& candidate : KNOWN) if (text == candidate.text) known = &candidate;
    if (!known) {
      complaint = "the emulator does not know this PTX (tests/emulator/nvrtc.cpp, KNOWN): " + text;
      known = KNOWN;
    }
    std::vector<string> list;
    for (size_t k = 1; k + 1 < colons.size() && k <= 2; k++) operands(colons[k], colons[k + 1], list);
    out += string(" ") + known->function + "(";
    for (size_t k = 0; k < list.size(); k++) out += (k ? ", " : "") + list[k];
    if (known->site) out += ", " + std::to_string(line);
    out += ")";
    keep_lines(at, end);
    at = end;
  }

  void all() {
    bool after_extern = false, of_template = false, dynamic = false;
    while (at < in.size()) {
      const char c = in[at];
      if (c == '#' && (at == 0 || in[at - 1] == '\n')) {  // a line marker
        const size_t end = in.find('\n', at);
        line = atoi(in.c_str() + at + 1) - 1;
        out.append(in, at, end - at);
        at = end;
        continue;
      }
      if (c == '"' || c == '\'') {
        const size_t end = past_quote(at);
        out.append(in, at, end - at);
        at = end;
        continue;
      }
      if (isdigit((unsigned char)c)) {
        // digit separators are no quotes
        const size_t from = at;
        while (at < in.size() && (in_word(in[at]) || in[at] == '.' || (in[at] == '\'' && in_word(in[at + 1])))) at++;
        out.append(in, from, at - from);
        continue;
      }
      if (!in_word(c)) {
        if (c == '\n') line++;
        if (c == '{') depth++;
        if (c == '}') depth--;
        if (c == ';' && dynamic) {
          out += " __asm__(\"vg_dynamic_shared\")";
          dynamic = false;
        }
        if (c == ';' || c == '}') of_template = false;
        out += c;
        at++;
        continue;
      }
      const string w = word(at);
      const size_t from = at;
      at += w.size();
      const bool is_extern = w == "extern";
      if (w == "template") of_template = true;
      if (w == "__global__") {
        if (!of_template) kernel(at);
      } else if (w == "__device__" || w == "__constant__") {
        if (w == "__constant__") out += "static";
        if (lists_globals && !of_template) global(at);
      } else if (w == "__launch_bounds__") {
        const size_t end = past_bracket(blanks(at));
        keep_lines(at, end);
        at = end;
      } else if (w == "__shared__") {
        if (after_extern) dynamic = true;
        else out += "static __attribute__((section(\"vg_shared\")))";
      } else if (w == "__grid_constant__") {
        const size_t type = blanks(at);
        const string name = word(type);
        out += name + "&";
        at = type + name.size();
      } else if (w == "asm" || w == "__asm__") {
        // not the labels of declarations, of which our header has none
        at = from;
        ptx(from + w.size());
      } else {
        out += w;
      }
      after_extern = is_extern;
    }
  }

  void list(const std::vector<string>& expressions) {
    for (const string& e : expressions) {
      bool known = false;
      for (const auto& k : kernels) known = known || k.first == e;
      if (!known) kernels.push_back({e, "0"});
    }
    out += "\n# 1 \"__nv_name_map\"\nstatic const emulator::Kernel vg_kernels[] = {\n";
    for (const auto& k : kernels) {
      const string call = "emulator::Caller<decltype(" + k.first + "), &" + k.first + ">::";
      out += "  {\"" + k.first + "\", " + call + "call, " + call + "sizes, " + call + "count, (emulator::u32)(" +
          k.second + ")},\n";
    }
    out += "  {nullptr, nullptr, nullptr, 0, 0}};\nstatic const emulator::Global vg_globals[] = {\n";
    for (const string& g : globals) out += "  {\"" + g + "\", (void*)&" + g + ", sizeof(" + g + ")},\n";
    out += "  {nullptr, nullptr, 0}};\n"
           "extern \"C\" __attribute__((visibility(\"default\"))) emulator::Module vg_module = {emulator::VERSION, &threadIdx, &blockIdx, "
           "&blockDim, &gridDim, &vg_host, __start_vg_shared, __stop_vg_shared, vg_dynamic_shared, vg_kernels, " +
           std::to_string(kernels.size()) + ", vg_globals, " + std::to_string(globals.size()) + "};\n";
  }
};

}  // namespace
