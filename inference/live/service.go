package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/coaching/backend"
	"agentd/inference/load"
	"agentd/llama/checkpoint"
	"agentd/protocol"
	"agentd/scheduler"
	"agentd/scheduler/generation"
)

var _ backend.Local = (*Service)(nil)

// Service decides requests with a model and adapters that can change while it serves. A running request ends with the
// weights with which it began, except across a pause; later ones use the new weights. Make it with Open. Its methods
// are safe for concurrent use.
type Service struct {
	cfg             load.Config
	changes, pauses *prometheus.CounterVec // changes of the weights
	free            func() load.FreeMemory
	wait            time.Duration // closeWait

	change chan struct{} // has a value while weights are loaded

	mu       sync.Mutex
	current  *modelVersion
	replaced []*modelVersion // replaced models that are not freed yet
	pause    pause
	loading  string                 // the weights that are being loaded; "" for none
	hangs    *generation.StuckError // their first step is stuck; nil: it is not
	draining sync.WaitGroup         // counts replaced
}

// Open loads a model and its adapters, which can be replaced with cfg.WeightsDir. It stops when ctx ends.
// Errors name the file or the field of cfg and what to change.
func Open(ctx context.Context, cfg load.Config) (*Service, error) {
	if cfg.WeightsDir != "" {
		dir, err := resolved(cfg.WeightsDir)
		if err != nil {
			return nil, fmt.Errorf("Config.WeightsDir: %w; name a directory", err)
		}
		cfg.WeightsDir = dir
	}
	l := &Service{
		changes: counters("weights_changes_total", "Changes of the weights while serving, by what was changed (model, adapter) and the result (done, removed, failed).", "kind", "result"),
		pauses:  counters("pauses_total", "Pauses (POST /v1/pause), by mode.", "mode"),
		free:    load.MemoryNow, wait: closeWait, change: make(chan struct{}, 1), pause: neverPaused(),
	}
	report := cfg.Scheduler.OnStuck
	cfg.Scheduler.OnStuck = func(e *generation.StuckError) {
		l.recordHang(e)
		if report != nil {
			report(e)
		}
	}
	l.cfg = cfg
	unlock, err := l.lock(cmp.Or(cfg.Path, "the default model"))
	if err != nil {
		return nil, err
	}
	l.current, err = openVersion(ctx, l, cfg)
	unlock()
	if err != nil {
		return nil, err
	}
	if cfg.WeightsDir != "" || cfg.Agent.Ask != nil { // every step reports the version, or a calibration names it
		version, err := l.current.Weights.Version(ctx)
		if err == nil {
			err = l.current.Agent.CheckAsk(version)
		}
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

// use returns the current version, which stays open until release is called.
func (l *Service) use() (v *modelVersion, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v = l.current
	v.users++
	return v, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if v.users--; v.users == 0 && v.retired {
			close(v.idle)
		}
	}
}

// replace makes v the current version. The former one is closed when its last request has ended.
func (l *Service) replace(v *modelVersion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.current
	if l.pause.mode != "" {
		v.Engine.Pause(true)
	}
	l.current = v
	l.replaced = append(l.replaced, old)
	old.retired = true
	if old.users == 0 {
		close(old.idle)
	}
	l.draining.Go(func() {
		<-old.idle
		l.mu.Lock()
		l.replaced = slices.DeleteFunc(l.replaced, func(v *modelVersion) bool { return v == old })
		l.mu.Unlock()
		if err := old.Close(); err != nil {
			l.cfg.Log.Error().Err(err).Msg("the old model was not freed")
			return
		}
		l.cfg.Log.Info().Str("path", old.Info.Path).Msg("the old model was freed")
	})
}

// SetModel loads the file at path while the present model serves, and then serves the new model with the same settings
// and adapters. Both need memory until the last request of the present one has ended. The vocabulary and the prompt
// format must be the same, since running episodes depend on them. The error is an *Error, protocol.Problems, or ctx's.
func (l *Service) SetModel(ctx context.Context, path string) error {
	return l.set(ctx, "model", path, func(path string) error { return l.setModel(ctx, path) })
}

// set checks a path and calls change with it. kind is "model" or "adapter", for metrics and messages.
func (l *Service) set(ctx context.Context, kind, path string, change func(path string) error) error {
	path, unlock, err := l.begin(path, kind)
	if err != nil {
		return err
	}
	return l.apart(ctx, unlock, func() error {
		if err := change(path); err != nil {
			return l.refuse(kind, err)
		}
		l.changes.WithLabelValues(kind, "done").Inc()
		return nil
	})
}

func (l *Service) setModel(ctx context.Context, path string) error {
	began := time.Now()
	old, release := l.use()
	defer release()
	links, err := os.MkdirTemp("", "agentd-weights-")
	defer func() { _ = os.RemoveAll(links) }() // the weights are in memory
	whole := path
	if err == nil {
		whole, err = load.Complete(path, l.cfg.Path, links)
	}
	if err != nil {
		return err
	}
	bytes, unchanged, err := load.Watch(load.Files(whole)...)
	if err != nil {
		return err
	}
	cfg := l.cfg
	cfg.Path, cfg.Alias, cfg.Progress, cfg.LoRA = whole, old.Name(), nil, nil // clients know the first name
	var adapterBytes uint64
	for _, a := range old.adapters.list() {
		cfg.LoRA = append(cfg.LoRA, load.LoRA{Name: a.Name, Path: a.Path})
		adapterBytes += a.Bytes
	}
	if cfg.FixedTokens == 0 {
		cfg.Agent.MaxNewTokens = old.Info.MaxNewTokens
	}
	cfg.ContextLength, cfg.Scheduler.MaxRunning, cfg.Scheduler.BatchTokens = old.Info.ContextLength, old.Info.Parallel, old.Info.BatchSize
	if err := old.HeadroomForModel(ctx, whole, bytes, adapterBytes, cfg.CacheRAM, l.free()); err != nil {
		return err
	}
	next, err := openVersion(ctx, l, cfg)
	if err == nil {
		if err = unchanged(); err == nil && old.Info.Format != next.Info.Format {
			err = fmt.Errorf("its prompt format is %s and the present model's is %s; restart the server to change it", next.Info.Format, old.Info.Format)
		}
		if err == nil {
			_, err = next.Weights.Version(ctx)
		}
		if err != nil {
			err = errors.Join(err, next.Close())
		}
	}
	if err != nil {
		return err
	}
	next.Info.Path = path
	l.replace(next)
	l.cfg.Log.Info().Str("path", path).Dur("took", time.Since(began)).Msg("serving other weights")
	return nil
}

// SetAdapter loads the file at path as the adapter of that name, and replaces an adapter of that name. Errors are the
// same as SetModel's.
func (l *Service) SetAdapter(ctx context.Context, name, path string) error {
	return l.set(ctx, "adapter", path, func(path string) error {
		v, release := l.use()
		defer release()
		if err := v.HeadroomForAdapter(path, l.free()); err != nil {
			return err
		}
		return v.adapters.set(ctx, name, path)
	})
}

// RemoveAdapter removes an adapter. The error is an *Error.
func (l *Service) RemoveAdapter(name string) error {
	if err := l.changeable(); err != nil {
		return err
	}
	unlock, err := l.lock("the adapter " + name)
	if err != nil {
		return err
	}
	defer unlock()
	s, release := l.use()
	defer release()
	if !s.adapters.remove(name) {
		return &Error{UnknownAdapter, fmt.Sprintf("no adapter is named %q", name)}
	}
	l.changes.WithLabelValues("adapter", "removed").Inc()
	return nil
}

// lock begins a change of weights; unlock ends it. what names it. The error names a change in progress.
func (l *Service) lock(what string) (unlock func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.change <- struct{}{}:
		l.loading = what
		return func() {
			l.mu.Lock()
			l.loading, l.hangs = "", nil
			l.mu.Unlock()
			<-l.change
		}, nil
	default:
	}
	if l.hangs != nil {
		return nil, &Error{Busy, fmt.Sprintf("%s is being loaded, and its %s does not end: a thread or the device hangs; restart the server", l.loading, l.hangs.Names())}
	}
	return nil, &Error{Busy, l.loading + " is being loaded; try again when it serves"}
}

// apart makes a change on its own goroutine, in case it hangs. It returns when the change has ended, or when
// ctx ends; the change then continues. A panic becomes an error: a defect must not end the server.
func (l *Service) apart(ctx context.Context, unlock func(), change func() error) error {
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil {
				l.cfg.Log.Error().Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("a change of weights panicked")
				err = fmt.Errorf("the weights were not changed: %v", p)
			}
			unlock()
			done <- err
		}()
		err = change()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// recordHang records that the first step of the weights that are being loaded is stuck.
func (l *Service) recordHang(e *generation.StuckError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Loading == "" || l.loading == "" {
		return
	}
	l.hangs = e
	l.cfg.Log.Error().Str("path", l.loading).Msg("weights hang while they are loaded, and further changes are refused")
	if l.cfg.Hangs != nil {
		l.cfg.Hangs(e)
	}
}

// changeable refuses changes that the settings do not allow.
func (l *Service) changeable() error {
	if l.cfg.WeightsDir == "" {
		return &Error{NotAllowed, "this server's weights can't change; start it with a directory of weights (docs/weights.md)"}
	}
	return nil
}

// begin checks a path and begins a change, see lock. It returns the path without symbolic links.
func (l *Service) begin(path, kind string) (resolved string, unlock func(), err error) {
	if err := l.changeable(); err != nil {
		return "", nil, err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.cfg.WeightsDir, path)
	}
	field, directory, has := []any{"model"}, checkpoint.IsDirectory, "config.json"
	if kind != "model" {
		field, directory, has = []any{"adapter", "path"}, checkpoint.IsAdapterDirectory, "adapter_config.json"
	}
	problem := func(what string) error {
		return protocol.Problems{protocol.NewProblem(protocol.TypeValue, what, field...)}
	}
	resolved, err = filepath.EvalSymlinks(path)
	if err == nil && !l.holds(resolved) || err != nil && !l.holds(filepath.Clean(path)) {
		return "", nil, problem("is not in the server's directory of weights; give a file there, relative to it")
	}
	if err != nil {
		return "", nil, problem("can't be read: " + err.Error())
	}
	tensors, _ := fs.Glob(os.DirFS(resolved), "model*.safetensors") // see load.Complete
	if info, err := os.Stat(resolved); err != nil || !info.Mode().IsRegular() && !directory(resolved) && (kind != "model" || tensors == nil) {
		return "", nil, problem("is neither a file nor a directory with " + has)
	}
	unlock, err = l.lock(resolved)
	return resolved, unlock, err
}

// refuse counts a failed change and returns its error for the client.
func (l *Service) refuse(kind string, err error) error {
	l.changes.WithLabelValues(kind, "failed").Inc()
	l.cfg.Log.Warn().Err(err).Str("kind", kind).Msg("weights not changed")
	if errors.Is(err, context.Canceled) {
		return err
	}
	reason := Unusable
	if errors.As(err, new(*load.HeadroomError)) || errors.Is(err, scheduler.ErrContext) {
		reason = NoMemory
	}
	return &Error{reason, "the weights were not changed: " + members.Replace(err.Error())}
}

// members names the members of PUT /v1/weights instead of fields of Config.
var members = strings.NewReplacer("with Config.Path", "as model", "with Config.LoRA", "as adapter")

// Current returns the weights that serve. It may wait for the hash of a large file.
func (l *Service) Current(ctx context.Context) (*protocol.Weights, error) {
	v, release := l.use()
	defer release()
	paused, _ := l.Paused()
	w := &protocol.Weights{Model: protocol.WeightsFile{Path: l.accepted(v.Info.Path)}, Adapters: []protocol.WeightsFile{}, Paused: string(paused)}
	if v.Weights != nil {
		var err error
		if w.Model.Version, err = v.Weights.Version(ctx); err != nil {
			return nil, err
		}
	}
	for _, a := range v.adapters.list() {
		a.Path = l.accepted(a.Path)
		w.Adapters = append(w.Adapters, a.WeightsFile)
	}
	return w, nil
}

// accepted returns the path under which SetModel and SetAdapter accept a file in the directory of weights; for another
// file it returns path.
func (l *Service) accepted(path string) string {
	if at, err := resolved(path); path != "" && l.cfg.WeightsDir != "" && err == nil && l.holds(at) {
		return at
	}
	return path
}

// holds reports whether a path without symbolic links is in the directory of weights.
func (l *Service) holds(path string) bool {
	return strings.HasPrefix(path, l.cfg.WeightsDir+string(filepath.Separator))
}

// resolved returns the absolute path without symbolic links.
func resolved(path string) (string, error) {
	at, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(at)
}

// Close ends running generations and frees all versions. No call may begin after it. If a load in progress does not
// end within closeWait, Close frees nothing, and the process must end.
func (l *Service) Close() error {
	l.Resume() // nothing is held any more
	select {
	case l.change <- struct{}{}: // no load is in progress
		<-l.change
	case <-time.After(l.wait):
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Errorf("%s is still being loaded, and its load could not be aborted", l.loading)
	}
	l.mu.Lock()
	v := l.current
	l.mu.Unlock()
	err := v.Close()
	l.draining.Wait()
	return err
}

// Ask implements backend.Local. The answer is decoded greedily under the schema's grammar. The question waits in
// the same queue as candidates of requests.
func (l *Service) Ask(ctx context.Context, q backend.Question) (backend.Answer, error) {
	v, release := l.use()
	defer release()
	return v.Ask(ctx, q)
}

// Info describes the current model and its settings.
func (l *Service) Info() load.EngineInfo {
	v, release := l.use()
	defer release()
	return v.Info
}

// Window implements backend.Local, see load.Model.Window.
func (l *Service) Window() int {
	v, release := l.use()
	defer release()
	return v.Window()
}

// Failure returns nil while requests can be decided. generation.ErrUnreachable is temporary, a
// *generation.StuckError (also of weights that are being loaded) may be, and generation.ErrPaused lasts until
// Resume. After any other error the process must be restarted.
func (l *Service) Failure() error {
	v, release := l.use()
	defer release()
	err := v.failure()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && l.hangs != nil:
		return l.hangs
	case err == nil && l.pause.mode != "":
		return generation.ErrPaused
	}
	return err
}

// OpenAI returns the current model for one request of OpenAI's API. It stays open until release is called.
func (l *Service) OpenAI() (m *OpenAIModel, release func()) {
	v, leave := l.use()
	using := &adapterUse{on: v}
	return &OpenAIModel{v, using}, func() {
		using.end()
		leave()
	}
}
