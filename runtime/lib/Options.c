//===- Options.c - Command lines of compiled programs ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the options of pipesched_rt_main, and prints its results.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

void rtKeepFreedMemory(void) {
#ifdef __GLIBC__
  // The limit of glibc; larger blocks always get new mappings.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

const char rtUsage[] =
    "Trains by a compiled schedule.\n"
    "\n"
    "  --steps=N            training steps to run; by default those that the\n"
    "                       program was written for, or 1\n"
    "  --first-step=N       number of the first of them; 0 by default\n"
    "  --state-in=PREFIX    read the state of worker W from PREFIX.W; by "
    "default\n"
    "                       that of the program, or all zero\n"
    "  --state-out=PREFIX   write the state of worker W to PREFIX.W\n"
    "  --log=PREFIX         write the times of the instructions of worker W "
    "to\n"
    "                       PREFIX.W\n"
    "  --messages=buffered|rendezvous\n"
    "                       a send ends when its data has been copied away, "
    "or\n"
    "                       when its recv has the data; by default "
    "rendezvous,\n"
    "                       under MPI as MPI decides\n"
    "  --blocking           a send returns when it has ended\n"
    "  --timeout=SECONDS    how long a process waits for the others under "
    "MPI;\n"
    "                       1800 by default, 0 without end\n"
    "  --layout             print the layout of the state as JSON, and end\n"
    "  --help               print this text, and end\n";

/// Returns the value of `argument` if it is `name`=value, or NULL.
static const char *valueOf(const char *argument, const char *name) {
  size_t length = strlen(name);
  return strncmp(argument, name, length) == 0 && argument[length] == '='
             ? argument + length + 1
             : NULL;
}

static bool parseNumber(const char *name, const char *value, int64_t *result,
                        char *text) {
  char *end;
  errno = 0;
  long long number = strtoll(value, &end, 10);
  if (errno || end == value || *end || number < 0) {
    snprintf(text, rtTextBytes, "%s=%s: not a number from 0 to %" PRId64, name,
             value, INT64_MAX);
    return false;
  }
  *result = number;
  return true;
}

static bool parseTimeout(const char *value, struct RtOptions *options,
                         char *text) {
  if (!parseNumber("--timeout", value, &options->timeout, text))
    return false;
  if (options->timeout <= INT_MAX)
    return true;
  snprintf(text, rtTextBytes, "--timeout=%s: at most %d seconds", value,
           INT_MAX);
  return false;
}

static bool parsePrefix(const char *name, const char *value,
                        const char **result, char *text) {
  *result = value;
  if (*value)
    return true;
  snprintf(text, rtTextBytes, "%s= needs the first part of a file name", name);
  return false;
}

static bool parseMessages(const char *value, struct RtOptions *options,
                          char *text) {
  if (strcmp(value, "buffered") == 0)
    options->messages = rtBuffered;
  else if (strcmp(value, "rendezvous") == 0)
    options->messages = rtRendezvous;
  else {
    snprintf(text, rtTextBytes,
             "--messages=%s: messages are 'buffered' or 'rendezvous'", value);
    return false;
  }
  return true;
}

static bool parseOption(const char *argument, struct RtOptions *options,
                        char *text) {
  const char *value;
  if ((value = valueOf(argument, "--steps")))
    return parseNumber("--steps", value, &options->steps, text);
  if ((value = valueOf(argument, "--first-step")))
    return parseNumber("--first-step", value, &options->firstStep, text);
  if ((value = valueOf(argument, "--state-in")))
    return parsePrefix("--state-in", value, &options->stateIn, text);
  if ((value = valueOf(argument, "--state-out")))
    return parsePrefix("--state-out", value, &options->stateOut, text);
  if ((value = valueOf(argument, "--log")))
    return parsePrefix("--log", value, &options->log, text);
  if ((value = valueOf(argument, "--timeout")))
    return parseTimeout(value, options, text);
  if ((value = valueOf(argument, "--messages")))
    return parseMessages(value, options, text);
  if (strcmp(argument, "--blocking") == 0)
    options->blocking = true;
  else if (strcmp(argument, "--layout") == 0)
    options->layout = true;
  else if (strcmp(argument, "--help") == 0)
    options->help = true;
  else {
    snprintf(text, rtTextBytes, "unknown option '%s'; --help lists all",
             argument);
    return false;
  }
  return true;
}

bool rtParseOptions(int argc, char **argv, const PipeschedTraining *training,
                    struct RtOptions *options, char text[rtTextBytes]) {
  memset(options, 0, sizeof(*options));
  options->steps = training ? training->steps : 1;
  options->timeout = 1800;
  for (int i = 1; i < argc; ++i)
    if (!parseOption(argv[i], options, text))
      return false;
  int64_t end;
  if (!__builtin_add_overflow(options->firstStep, options->steps, &end))
    return true;
  snprintf(text, rtTextBytes, "--first-step and --steps are too large");
  return false;
}

void rtPrintError(const char *text) {
  fflush(stdout);
  fprintf(stderr, "error: %s\n", text);
}
