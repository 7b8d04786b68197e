/* A driver of CUDA 12.8 that shows no device: enough for the package to find it, ask it, and say so. */
#define API __declspec(dllexport) unsigned __stdcall

API cuInit(unsigned flags) { return flags; }
API cuDriverGetVersion(int *version) { *version = 12080; return 0; }
API cuDeviceGetCount(int *count) { *count = 0; return 0; }
