// libnvrtc: CUDA C to a shared object for this machine, by the host's C++ compiler.
//
// The preprocessor runs first, with cuda_on_host.h before the source. Then constructs that C++ lacks are rewritten in
// the text, a list of the kernels is appended, and the compiler makes the "cubin" of it.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "module.h"
#include "rewriter.h"

using std::string;
extern char** environ;

namespace {

enum Status { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL = 11 };
const int VERSION[] = {12, 8};
const int ARCHS[] = {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 120};

const char OWN[] = "verdigris.cu";  // the name of the package's own kernels; others are users'

struct Program {
  string source, name;
  string headers;  // the folder of its headers
  size_t key;      // a hash of them
  string image, log;
  std::vector<string> expressions, options;  // names that are asked for; folders and macros
};

// ---- files ------------------------------------------------------------------------------------------
bool write_file(const string& path, const string& text) {
  FILE* f = fopen(path.c_str(), "w");
  if (!f) return false;
  bool ok = fwrite(text.data(), 1, text.size(), f) == text.size();
  return fclose(f) == 0 && ok;
}
string read_file(const string& path) {
  string text;
  if (FILE* f = fopen(path.c_str(), "r")) {
    char part[1 << 16];
    while (size_t n = fread(part, 1, sizeof part, f)) text.append(part, n);
    fclose(f);
  }
  return text;
}

// This process's folder, gone at its end.
struct Folder {
  string path;
  pid_t owner = getpid();
  Folder() {
    const char* base = getenv("TMPDIR");
    path = string(base && *base ? base : "/tmp") + "/cuda-on-host-XXXXXX";
    if (!mkdtemp(&path[0])) { perror("emulated NVRTC: mkdtemp"); abort(); }
  }
  ~Folder() {
    if (owner == getpid() && !getenv("VERDIGRIS_EMULATOR_KEEP")) (void)!system(("rm -rf '" + path + "'").c_str());
  }
};
const string& folder() {
  static Folder folder;
  return folder.path;
}

// Headers are written once for every set of texts.
string folder_of(int count, const char* const* texts, const char* const* names, size_t& key) {
  // never destroyed: a thread may compile while the process ends
  static std::mutex& lock = *new std::mutex();
  static auto& known = *new std::map<size_t, string>();
  key = 0;
  for (int k = 0; k < count; k++) key = key * 31 + std::hash<string>()(texts[k]) + std::hash<string>()(names[k]);
  std::lock_guard<std::mutex> held(lock);
  string& path = known[key];
  if (path.empty()) {
    path = folder() + "/include" + std::to_string(known.size());
    mkdir(path.c_str(), 0700);
    for (int k = 0; k < count; k++) write_file(path + "/" + names[k], texts[k]);
  }
  return path;
}

// The folder where this library and cuda_on_host.h lie.
string home() {
  Dl_info info;
  dladdr((void*)&folder_of, &info);
  string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

int run(const std::vector<string>& command, const string& log) {
  std::vector<char*> arguments;
  for (const string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // messages in plain English and ASCII, and nothing loaded into the compiler that was meant for R
  std::vector<char*> environment;
  for (char** e = environ; *e; e++)
    if (strncmp(*e, "LC_", 3) && strncmp(*e, "LANG", 4) && strncmp(*e, "LD_", 3)) environment.push_back(*e);
  char english[] = "LC_ALL=C";
  environment.push_back(english);
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child;
  int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return 127;
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}

// ---- compiling --------------------------------------------------------------------------------------
// kernel.cu:3:11: error: 'z' was not declared in this scope   ->   kernel.cu(3): error: identifier "z" is undefined
string as_nvrtc_says(const string& log, const string& hide, const Program& p) {
  string out;
  for (size_t from = 0; from < log.size();) {
    size_t end = log.find('\n', from);
    if (end == string::npos) end = log.size();
    string text = log.substr(from, end - from);
    from = end + 1;
    for (size_t p; !hide.empty() && (p = text.find(hide)) != string::npos;) text.erase(p, hide.size());
    char file[256], what[2048];
    int row, column, used = 0;
    if (sscanf(text.c_str(), "%255[^:]:%d:%d: %n", file, &row, &column, &used) == 3 && used > 0) {
      string message = text.substr(used);
      if (sscanf(message.c_str(), "error: '%2047[^']' was not declared in this scope", what) == 1)
        message = string("error: identifier \"") + what + "\" is undefined";
      text = string(file) + "(" + std::to_string(row) + "): " + message;
      if (file == p.name) {
        // the line behind two blanks, and a caret
        size_t at = 0;
        for (int k = 1; k < row && at != string::npos; k++) at = p.source.find('\n', at) == string::npos ?
            string::npos : p.source.find('\n', at) + 1;
        if (at != string::npos) text += "\n  " + p.source.substr(at, p.source.find('\n', at) - at) + "\n" +
            string((size_t)column + 1, ' ') + "^\n";
      } else if (!strcmp(file, "__nv_name_map") && (size_t)row >= 2) {
        text += "\n  #pragma nv_mangled_name " + (p.expressions.empty() ? string("?") : p.expressions.back()) +
            "\n  ^\n";
      }
    }
    out += text + "\n";
  }
  return out;
}

std::vector<string> compiler_flags(bool checked) {
  std::vector<string> flags{"-std=gnu++17", "-undef", "-O1", "-fPIC", "-w", "-pipe", "-fno-exceptions", "-fno-rtti",
      "-fno-asynchronous-unwind-tables",
                            "-fvisibility=hidden", "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=off",
                                "-fno-math-errno", "-fno-trapping-math",
                            "-fno-threadsafe-statics", "-fno-diagnostics-show-caret", "-fdiagnostics-color=never"};
  if (checked) flags.insert(flags.end(), {"-fsanitize=alignment,bounds", "-fsanitize-undefined-trap-on-error"});
  return flags;
}

// Where the headers that a preprocessed source begins with end: at the line marker of the first line that is the
// source's own. 0 where there are none.
size_t end_of_headers(const string& text, const string& source) {
  const string file = '"' + source + '"';
  bool inside = false;
  size_t marker = 0;
  for (size_t from = 0, end; from < text.size(); from = end + 1) {
    end = text.find('\n', from);
    if (end == string::npos) end = text.size();
    if (text.compare(from, 2, "# ") == 0) {
      inside = text.find(file, from) < end;
      if (inside) marker = from;
    } else if (inside && end > from) {
      return marker;
    }
  }
  return 0;
}

// A header that g++ has compiled, of this text: "" where that failed. Every process finds it by its text, in which the
// names of a process's own folders do not stand.
string precompiled(string text, const string& own, const string& headers, const char* cxx,
    std::vector<string> command) {
  for (const string& name : {own, headers})
    for (size_t at; (at = text.find(name)) != string::npos;) text.erase(at, name.size());
  string all = text + cxx;
  for (const string& word : command) all += " " + word;
  char name[32];
  snprintf(name, sizeof name, "/headers/%016zx", std::hash<string>()(all));
  const string path = home() + name, made = path + ".h.gch";
  static std::mutex& lock = *new std::mutex();
  std::lock_guard<std::mutex> held(lock);
  if (!access(made.c_str(), R_OK)) return path + ".h";
  mkdir((home() + "/headers").c_str(), 0700);
  const string part = path + "." + std::to_string(getpid());
  if (!write_file(part, text) || rename(part.c_str(), (path + ".h").c_str())) return "";
  command.insert(command.end(), {"-o", part, path + ".h"});
  if (run(command, own + "log") || rename(part.c_str(), made.c_str())) return "";
  return path + ".h";
}

Status compile(Program& p, bool checked) {
  static std::atomic<int> count{0};
  const char* cxx = getenv("VERDIGRIS_EMULATOR_CXX");
  if (!cxx || !*cxx) cxx = "g++";
  // what was compiled before, by any process: the engine's tests keep no kernels themselves
  char name[64];
  const std::hash<string> hash;
  string more;
  for (const string& text : p.expressions) more += "&" + text;
  for (const string& text : p.options) more += " " + text;
  const string all = more + p.source + '\0' + p.name + '\0' + cxx + '\0' + std::to_string(p.key) +
      (checked ? "checked" : "") + read_file(home() + "/stamp");
  snprintf(name, sizeof name, "/objects/%016zx%016zx", hash(all), hash(all + '\1'));
  const string kept = home() + name;
  // headers in folders may have changed
  bool folders = false;
  for (const string& text : p.options) folders = folders || text.rfind("-I", 0) == 0;
  if (!folders && !(p.image = read_file(kept)).empty()) return SUCCESS;
  const int number = count++;
  const string own = folder() + "/" + std::to_string(number) + "/";
  mkdir(own.c_str(), 0700);
  const string source = own + p.name, log = own + "log", plain = own + "plain.ii", ready = own + "ready.ii",
      object = own + "kernels.so";
  const auto failed = [&](const string& more) {
    p.log = as_nvrtc_says(read_file(log), own, p) + more;
    return COMPILATION;
  };
  const auto cleared = [&](Status status) {
    if (getenv("VERDIGRIS_EMULATOR_KEEP")) fprintf(stderr, "emulated NVRTC: %s\n", own.c_str());
    else {
      for (const string& path : {source, log, plain, ready, object}) unlink(path.c_str());
      rmdir(own.c_str());
    }
    return status;
  };
  write_file(source, p.source);
  std::vector<string> first{cxx, "-x", "c++", "-std=c++17", "-E", "-nostdinc", "-nostdinc++", "-include",
      home() + "/cuda_on_host.h", "-I", p.headers};
  first.insert(first.end(), p.options.begin(), p.options.end());
  first.insert(first.end(), {"-o", plain, source});
  int status = run(first, log);
  if (status == 127) return cleared(failed(string("error: the emulator needs the C++ compiler ") + cxx));
  if (status) return cleared(failed(""));
  const string text = read_file(plain);
  Rewriter rewriter(text, p.name != OWN);
  rewriter.all();
  if (!rewriter.complaint.empty()) return cleared(failed(p.name + "(1): error: " + rewriter.complaint));
  rewriter.list(p.expressions);
  const std::vector<string> flags = compiler_flags(checked);
  const auto command = [&](std::vector<string> words) {
    words.insert(words.begin(), cxx);
    words.insert(words.begin() + 1, flags.begin(), flags.end());
    return words;
  };
  // Our own kernels differ below their headers only. An error is told of the whole text, as that of other sources.
  size_t split;
  bool done = false;
  if (p.name == OWN && (split = end_of_headers(rewriter.out, source)) > 0) {
    const string header = precompiled(rewriter.out.substr(0, split), own, p.headers, cxx,
        command({"-x", "c++-header"}));
    write_file(ready, rewriter.out.substr(split));
    done = !header.empty() && !run(command({"-x", "c++", "-include", header, "-shared", "-o", object, ready, "-lm"}),
        log);
  }
  if (!done) {
    write_file(ready, rewriter.out);
    if (run(command({"-x", "c++-cpp-output", "-fpreprocessed", "-shared", "-o", object, ready, "-lm"}),
        log)) return cleared(failed(""));
  }
  p.image = read_file(object);
  mkdir((home() + "/objects").c_str(), 0700);
  const string part = kept + "." + std::to_string(getpid()) + "." + std::to_string(number);
  if (!write_file(part, p.image) || rename(part.c_str(), kept.c_str())) unlink(part.c_str());
  return cleared(p.image.empty() ? INTERNAL : SUCCESS);
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) unsigned

API nvrtcVersion(int* major, int* minor) {
  *major = VERSION[0];
  *minor = VERSION[1];
  return SUCCESS;
}
API nvrtcGetNumSupportedArchs(int* count) {
  *count = sizeof ARCHS / sizeof *ARCHS;
  return SUCCESS;
}
API nvrtcGetSupportedArchs(int* archs) {
  memcpy(archs, ARCHS, sizeof ARCHS);
  return SUCCESS;
}
API nvrtcCreateProgram(Program** out, const char* source, const char* name, int count, const char* const* texts,
    const char* const* names) {
  if (!out || !source) return INVALID_INPUT;
  *out = new Program{source, name && *name ? name : "default_program", "", 0, "", "", {}, {}};
  (*out)->headers = folder_of(count, texts, names, (*out)->key);
  return SUCCESS;
}
API nvrtcDestroyProgram(Program** program) {
  if (!program || !*program) return INVALID_PROGRAM;
  delete *program;
  *program = nullptr;
  return SUCCESS;
}
API nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  if (!program) return INVALID_PROGRAM;
  for (int k = 0; k < count; k++) {
    const string option = options[k];
    if (option.rfind("-I", 0) == 0 || option.rfind("-D", 0) == 0) {
      program->options.push_back(option);
      continue;
    }
    if (option == "--use_fast_math" || option == "-lineinfo" || option == "--relocatable-device-code=true") continue;
    if (option.rfind("--gpu-architecture=", 0) && option != "--fmad=false" && option.rfind("--std=", 0) &&
        option != "--device-as-default-execution-space") {
      program->log = "nvrtc: error: unrecognized option " + option + " found\n";
      return INVALID_OPTION;
    }
  }
  return compile(*program, getenv("VERDIGRIS_EMULATOR_CHECK") != nullptr);
}
static unsigned give(const string& bytes, char* to, bool zero) {
  memcpy(to, bytes.data(), bytes.size());
  if (zero) to[bytes.size()] = 0;
  return SUCCESS;
}
API nvrtcAddNameExpression(Program* program, const char* expression) {
  if (!program || !expression) return INVALID_INPUT;
  program->expressions.push_back(expression);
  return SUCCESS;
}
// names stay as they are
API nvrtcGetLoweredName(Program* program, const char* expression, const char** out) {
  for (const string& known : program->expressions)
    if (known == expression) {
      *out = known.c_str();
      return SUCCESS;
    }
  return INVALID_INPUT;
}

// A shared object that says it is for a GPU: see module.h.
static string cubin(const Program& p) {
  string image = p.image;
  if (image.size() < sizeof(Elf64_Ehdr)) return image;
  Elf64_Ehdr head;
  memcpy(&head, image.data(), sizeof head);
  head.e_machine = EM_CUDA;
  head.e_ident[EI_NIDENT - 1] = emulator::EMULATED;
  memcpy(&image[0], &head, sizeof head);
  return image;
}
// "PTX" is the same in hexadecimal digits, in a comment.
static string ptx(const Program& p) {
  static const char digits[] = "0123456789abcdef";
  string text = "// emulated\n.version 8.0\n.target sm_90\n.address_size 64\n//";
  for (unsigned char c : cubin(p)) { text += digits[c >> 4]; text += digits[c & 15]; }
  return text + "\n";
}
API nvrtcGetCUBINSize(Program* p, size_t* size) { *size = p->image.size(); return SUCCESS; }
API nvrtcGetCUBIN(Program* p, char* to) { return give(cubin(*p), to, false); }
API nvrtcGetPTXSize(Program* p, size_t* size) { *size = ptx(*p).size() + 1; return SUCCESS; }
API nvrtcGetPTX(Program* p, char* to) { return give(ptx(*p), to, true); }
API nvrtcGetProgramLogSize(Program* p, size_t* size) { *size = p->log.size() + 1; return SUCCESS; }
API nvrtcGetProgramLog(Program* p, char* to) { return give(p->log, to, true); }
