package inference

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/coaching/backend"
	"agentd/llama"
	"agentd/protocol"
	"agentd/scheduler"
	"agentd/scheduler/generation"
	"agentd/server"
	"agentd/server/openai"
)

var (
	_ server.Weights  = (*Live)(nil)
	_ openai.Provider = (*Live)(nil)
	_ backend.Local   = (*Live)(nil)
)

// Live is a Service whose model and adapters can change while it serves. Requests that run end
// with the weights with which they began; later ones get the new weights. Make it with OpenLive.
// Its methods are safe for concurrent use.
type Live struct {
	cfg     Config
	metrics *weightsMetrics
	free    func() freeMemory
	wait    time.Duration // closeWait

	change sync.Mutex // held while weights are loaded

	mu       sync.Mutex
	current  *tenant
	loading  string                 // what is being loaded; "": nothing
	hangs    *generation.StuckError // its first step; nil: it does not hang
	draining sync.WaitGroup         // models that were replaced and are not freed
}

// tenant is a Service and the requests that use it.
type tenant struct {
	*Service
	users   int
	retired bool
	idle    chan struct{} // closed when retired and without users
}

// OpenLive opens a Service as Open does. With cfg.WeightsDir its weights can be replaced.
func OpenLive(ctx context.Context, cfg Config) (*Live, error) {
	if cfg.WeightsDir != "" {
		dir, err := filepath.EvalSymlinks(cfg.WeightsDir)
		if err != nil {
			return nil, fmt.Errorf("Config.WeightsDir: %w; name a directory", err)
		}
		cfg.WeightsDir = dir
	}
	l := &Live{metrics: newWeightsMetrics(), free: memoryNow, wait: closeWait}
	report := cfg.Scheduler.OnStuck
	cfg.Scheduler.OnStuck = func(e *generation.StuckError) {
		l.found(e)
		if report != nil {
			report(e)
		}
	}
	l.cfg = cfg
	unlock, err := l.lock(cmp.Or(cfg.Path, "the default model"))
	if err != nil {
		return nil, err
	}
	s, err := Open(ctx, cfg)
	unlock()
	if err != nil {
		return nil, err
	}
	l.current = newTenant(s)
	if cfg.WeightsDir != "" { // every step tells the version
		if _, err := s.weights.Version(ctx); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

func newTenant(s *Service) *tenant { return &tenant{Service: s, idle: make(chan struct{})} }

// use returns the current Service, which stays open until release is called.
func (l *Live) use() (s *Service, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.current
	t.users++
	return t.Service, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.users--; t.users == 0 && t.retired {
			close(t.idle)
		}
	}
}

// replace makes s the current Service. The old one is closed when its last request has ended.
func (l *Live) replace(s *Service) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.current
	l.current = newTenant(s)
	old.retired = true
	if old.users == 0 {
		close(old.idle)
	}
	l.draining.Go(func() {
		<-old.idle
		if err := old.Close(); err != nil {
			l.cfg.Log.Error().Err(err).Msg("the old model was not freed")
			return
		}
		l.cfg.Log.Info().Str("path", old.info.Path).Msg("the old model was freed")
	})
}

// SetModel implements server.Weights. It loads the file at path beside the model that serves, with
// the same settings, and then serves it. Both need memory until the last request of the old one
// has ended. The vocabulary and the prompt format must be the same, since memories and token ids of
// running episodes depend on them. The adapters are loaded again for the new model.
func (l *Live) SetModel(ctx context.Context, path string) error {
	path, unlock, err := l.begin(path, "model")
	if err != nil {
		return err
	}
	return l.apart(ctx, unlock, func() error { return l.setModel(ctx, path) })
}

func (l *Live) setModel(ctx context.Context, path string) error {
	began := time.Now()
	old, release := l.use()
	defer release()
	bytes, unchanged, err := watchFiles(modelFiles(path)...)
	if err != nil {
		return l.refuse("model", err)
	}
	cfg := l.cfg
	cfg.Path, cfg.Progress, cfg.LoRA = path, nil, nil
	for _, a := range old.adapters.list() {
		cfg.LoRA = append(cfg.LoRA, LoRA{a.Name, a.Path})
	}
	if cfg.FixedTokens == 0 {
		cfg.Agent.MaxNewTokens = old.info.MaxNewTokens
	}
	cfg.ContextLength, cfg.Scheduler.MaxRunning, cfg.Scheduler.BatchTokens = old.info.ContextLength, old.info.Parallel, old.info.BatchSize
	if err := old.roomForModel(ctx, path, bytes, cfg.CacheRAM, l.free()); err != nil {
		return l.refuse("model", err)
	}
	s, err := Open(ctx, cfg)
	if err == nil {
		if err = errors.Join(unchanged(), old.sameFormat(s)); err == nil {
			_, err = s.weights.Version(ctx)
		}
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}
	if err != nil {
		return l.refuse("model", err)
	}
	l.replace(s)
	l.metrics.changes.WithLabelValues("model", "done").Inc()
	l.cfg.Log.Info().Str("path", path).Dur("took", time.Since(began)).Msg("serving other weights")
	return nil
}

// sameFormat refuses a model with another prompt format.
func (s *Service) sameFormat(other *Service) error {
	if s.info.Format != other.info.Format {
		return fmt.Errorf("its prompts have the format %s and those of the present model %s; restart the server to change it", other.info.Format, s.info.Format)
	}
	return nil
}

// sameVocabulary refuses a model with another vocabulary.
func sameVocabulary(now, next *llama.Model) error {
	a, b := now.Vocab(), next.Vocab()
	same := a.Size() == b.Size()
	for t := generation.Token(0); same && int(t) < a.Size(); t++ {
		same = slices.Equal(a.Piece(t, true), b.Piece(t, true)) && a.Attr(t) == b.Attr(t) && a.IsEOG(t) == b.IsEOG(t)
	}
	if !same {
		return errors.New("its vocabulary differs from that of the present model; restart the server to change it")
	}
	return nil
}

// SetAdapter implements server.Weights. It loads the file at path as the adapter of that name,
// beside one that has the name already.
func (l *Live) SetAdapter(ctx context.Context, name, path string) error {
	path, unlock, err := l.begin(path, "adapter.path")
	if err != nil {
		return err
	}
	return l.apart(ctx, unlock, func() error { return l.setAdapter(ctx, name, path) })
}

func (l *Live) setAdapter(ctx context.Context, name, path string) error {
	s, release := l.use()
	defer release()
	if err := s.roomForAdapter(path, l.free()); err != nil {
		return l.refuse("adapter", err)
	}
	if err := s.adapters.set(ctx, name, path); err != nil {
		return l.refuse("adapter", err)
	}
	l.metrics.changes.WithLabelValues("adapter", "done").Inc()
	return nil
}

// RemoveAdapter implements server.Weights.
func (l *Live) RemoveAdapter(name string) error {
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
		return &server.Error{Code: server.CodeNotFound, Detail: fmt.Sprintf("no adapter is named %q", name)}
	}
	l.metrics.changes.WithLabelValues("adapter", "removed").Inc()
	return nil
}

// lock begins a change of weights, which the returned function ends. The error says what is being changed.
func (l *Live) lock(what string) (unlock func(), err error) {
	locked := l.change.TryLock()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case locked:
		l.loading = what
		return func() {
			l.mu.Lock()
			l.loading, l.hangs = "", nil
			l.mu.Unlock()
			l.change.Unlock()
		}, nil
	case l.hangs != nil:
		return nil, &server.Error{Code: server.CodeConflict, Detail: fmt.Sprintf("%s is being loaded, and its %s does not end: a thread or the device hangs; restart the server", l.loading, l.hangs.Names())}
	}
	return nil, &server.Error{Code: server.CodeConflict, Detail: l.loading + " is being loaded; try again when it serves"}
}

// apart makes a change on a goroutine of its own, so that one that hangs holds up nobody. It returns when
// the change has ended, or when ctx has: the change then ends later.
func (l *Live) apart(ctx context.Context, unlock func(), change func() error) error {
	done := make(chan error, 1)
	go func() {
		err := change()
		unlock()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// found notes that the weights that are being loaded hang.
func (l *Live) found(e *generation.StuckError) {
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
func (l *Live) changeable() error {
	if l.cfg.WeightsDir == "" {
		return &server.Error{Code: server.CodeForbidden, Detail: "this server's weights can't change; start it with a directory of weights (docs/weights.md)"}
	}
	return nil
}

// begin checks a path and begins a change. It returns the path without symbolic links.
func (l *Live) begin(path, field string) (resolved string, unlock func(), err error) {
	if err := l.changeable(); err != nil {
		return "", nil, err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.cfg.WeightsDir, path)
	}
	problem := func(what string) error {
		return protocol.Problems{protocol.NewProblem(protocol.TypeValue, what, pathOf(field)...)}
	}
	resolved, err = filepath.EvalSymlinks(path)
	outside := err == nil && !strings.HasPrefix(resolved, l.cfg.WeightsDir+string(filepath.Separator))
	if outside || err != nil && !strings.HasPrefix(filepath.Clean(path), l.cfg.WeightsDir+string(filepath.Separator)) {
		return "", nil, problem("is not in the server's directory of weights; give a file there, relative to it")
	}
	if err != nil {
		return "", nil, problem("can't be read: " + err.Error())
	}
	if info, err := os.Stat(resolved); err != nil || !info.Mode().IsRegular() {
		return "", nil, problem("is not a file")
	}
	unlock, err = l.lock(resolved)
	return resolved, unlock, err
}

func pathOf(field string) (path []any) {
	for part := range strings.SplitSeq(field, ".") {
		path = append(path, part)
	}
	return path
}

// refuse counts a failed change and makes its error one of the server.
func (l *Live) refuse(kind string, err error) error {
	l.metrics.changes.WithLabelValues(kind, "failed").Inc()
	l.cfg.Log.Warn().Err(err).Str("kind", kind).Msg("weights not changed")
	if errors.Is(err, context.Canceled) {
		return err
	}
	code := server.CodeInvalid
	if errors.As(err, new(*noRoomError)) || errors.Is(err, scheduler.ErrContext) {
		code = server.CodeNoMemory
	}
	return &server.Error{Code: code, Detail: "the weights were not changed: " + members.Replace(err.Error())}
}

// members names the members of PUT /v1/weights instead of fields of Config.
var members = strings.NewReplacer("with Config.Path", "as model", "with Config.LoRA", "as adapter")

// Current implements server.Weights.
func (l *Live) Current(ctx context.Context) (server.WeightsInfo, error) {
	s, release := l.use()
	defer release()
	info := server.WeightsInfo{Model: server.WeightsFile{Path: s.info.Path}, Adapters: []server.WeightsFile{}}
	if s.weights != nil {
		version, err := s.weights.Version(ctx)
		if err != nil {
			return info, err
		}
		info.Model.Version = version
	}
	for _, a := range s.adapters.list() {
		info.Adapters = append(info.Adapters, server.WeightsFile{Name: a.Name, Path: a.Path, Version: a.Version})
	}
	return info, nil
}

// Close ends the current Service, and those that were replaced, as Service.Close does. No change may
// begin any more. If a load in progress does not end soon, Close frees nothing, and the process must end.
func (l *Live) Close() error {
	ended := make(chan struct{})
	go func() {
		l.change.Lock()   // held by the load
		l.change.Unlock() //nolint:staticcheck // it only waits
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(l.wait):
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Errorf("%s is still being loaded, and its load could not be aborted", l.loading)
	}
	l.mu.Lock()
	s := l.current
	l.mu.Unlock()
	err := s.Close()
	l.draining.Wait()
	return err
}

// The methods below are those of the current Service.

// Decide is Service.Decide.
func (l *Live) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	s, release := l.use()
	defer release()
	return s.Decide(ctx, req)
}

// Ask is Service.Ask.
func (l *Live) Ask(ctx context.Context, q backend.Question) (backend.Answer, error) {
	s, release := l.use()
	defer release()
	return s.Ask(ctx, q)
}

// Info is Service.Info.
func (l *Live) Info() EngineInfo {
	s, release := l.use()
	defer release()
	return s.Info()
}

// Window is Service.Window.
func (l *Live) Window() int {
	s, release := l.use()
	defer release()
	return s.Window()
}

// Failure is Service.Failure, or a *generation.StuckError of weights that are being loaded.
func (l *Live) Failure() error {
	s, release := l.use()
	defer release()
	err := s.Failure()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.hangs != nil {
		return l.hangs
	}
	return err
}

// OpenAI implements openai.Provider.
func (l *Live) OpenAI() (openai.Model, func()) {
	s, release := l.use()
	m, end := s.OpenAI()
	return m, func() {
		end()
		release()
	}
}
