package llama

// #include "native/api.h"
// void agdLog(int level, char * text, size_t len);
import "C"

import (
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/rs/zerolog"
)

var (
	installOnce sync.Once
	logger      atomic.Pointer[zerolog.Logger]
	levels      = map[C.int]zerolog.Level{
		C.GGML_LOG_LEVEL_ERROR: zerolog.ErrorLevel, C.GGML_LOG_LEVEL_WARN: zerolog.WarnLevel, C.GGML_LOG_LEVEL_INFO: zerolog.DebugLevel,
	}
)

// sharedCache occurs in a warning about a context longer than the trained one, which is not logged: it
// is right for one sequence, but here many sequences share the cells.
const sharedCache = "> n_ctx_train"

// abortLine matches what is logged of a decode that Abort ended, which ErrAborted reports (GGML_STATUS_ABORTED is 1).
var abortLine = regexp.MustCompile(`(failed with error 1|compute status: 1|failed to decode, ret = 2)$|^decode: removing memory module`)

// Init starts llama.cpp and sends its log lines to log: errors and warnings at their level, information at debug level,
// the rest at trace level. Without Init llama.cpp logs nothing. A later call replaces the logger.
func Init(log zerolog.Logger) error {
	l := log.With().Str("component", "llama.cpp").Logger()
	logger.Store(&l)
	install()
	return nil
}

// install sets llama.cpp's global log callback and initializes llama.cpp, once in a process, before
// anything else is called.
func install() {
	installOnce.Do(func() {
		C.agd_log_install(C.agd_log_sink(C.agdLog))
		start, end := goCode() // for the line of a crash: see native/binding/crash.cpp
		C.agd_crash_install(C.uintptr_t(start), C.uintptr_t(end))
		C.agd_faults_install()
		C.llama_backend_init()
	})
}

//export agdLog
func agdLog(from C.int, text *C.char, n C.size_t) {
	l := logger.Load()
	if l == nil {
		return
	}
	line := strings.TrimSpace(C.GoStringN((*C.char)(unsafe.Pointer(text)), C.int(n)))
	level, known := levels[from]
	switch {
	case !known:
		level = zerolog.TraceLevel
	case level == zerolog.WarnLevel && strings.Contains(line, sharedCache), abortLine.MatchString(line):
		level = zerolog.DebugLevel
	}
	l.WithLevel(level).Msg(line)
}
