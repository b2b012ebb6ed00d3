package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"time"

	"github.com/google/uuid"

	"agentd/coaching/store"
	"agentd/protocol"
)

// Call is one operation of a store in another process.
type Call struct {
	Operation        string
	Run, Request     string
	ID, Lease        uuid.UUID
	Config           []byte // JSON
	Limit            int
	Unused           time.Duration
	Leases, Sessions []uuid.UUID
	Provider         string
	Given            bool // an answer
	Response         []byte
}

// Session is a [store.Record] between processes.
type Session struct {
	ID         uuid.UUID
	RunID      string
	State      store.State
	Config     []byte // JSON; nil: the store did not report it
	Unanswered []string
}

// Result is what an operation returned.
type Result struct {
	Sessions     []Session
	Closed       []uuid.UUID
	OK           bool
	Count        int
	Kept         *store.Kept
	Full, Failed string // the error
}

// Serve makes the operations that [Remote] asks for, until the connection ends.
func Serve(from store.Shared, connection io.ReadWriteCloser) {
	server := rpc.NewServer()
	if err := server.Register(&Server{from}); err != nil {
		panic(err) // Server has the form that package rpc wants
	}
	server.ServeConn(connection)
}

// Server is what Serve registers.
type Server struct{ store store.Shared }

// Do makes one operation.
func (s *Server) Do(c Call, r *Result) error {
	ctx := context.Background()
	var one *store.Record
	var list []store.Record
	var err error
	switch c.Operation {
	case "Create":
		rec := store.Record{ID: c.ID, RunID: c.Run}
		if rec.Config, err = protocol.DecodeCoachingSessionConfig(c.Config); err != nil {
			return err
		}
		one, err = s.store.Create(ctx, rec, c.Limit)
	case "Get":
		one, err = s.store.Get(ctx, c.Run)
	case "Enter":
		r.OK, err = s.store.Enter(ctx, c.ID, c.Lease)
	case "Leave":
		err = s.store.Leave(ctx, c.Lease)
	case "MarkClosing":
		one, err = s.store.MarkClosing(ctx, c.Run)
	case "MarkIdle":
		list, err = s.store.MarkIdle(ctx, c.Unused)
	case "Delete":
		r.OK, err = s.store.Delete(ctx, c.ID)
	case "Count":
		r.Count, err = s.store.Count(ctx)
	case "Renew":
		r.Closed, err = s.store.Renew(ctx, c.Leases, c.Sessions)
	case "Claim":
		r.Kept, r.OK, err = s.store.Claim(ctx, c.ID, c.Request, c.Lease)
	case "Settle":
		var given *store.Kept
		if c.Given {
			given = &store.Kept{Provider: c.Provider, Response: c.Response}
		}
		r.Kept, err = s.store.Settle(ctx, c.ID, c.Request, c.Lease, given)
	default:
		return fmt.Errorf("no operation %q", c.Operation)
	}
	var full *store.FullError
	switch {
	case errors.As(err, &full):
		r.Full = full.What
	case err != nil:
		r.Failed = err.Error()
	}
	if one != nil {
		list = append(list, *one)
	}
	for _, rec := range list {
		wire := Session{ID: rec.ID, RunID: rec.RunID, State: rec.State, Unanswered: rec.Unanswered}
		if rec.Config != nil {
			wire.Config = rec.Config.AppendJSON(nil)
		}
		r.Sessions = append(r.Sessions, wire)
	}
	return nil
}

// Remote is the store of a process that runs [Serve]. Each error but a *store.FullError is
// a *store.Error.
type Remote struct{ client *rpc.Client }

var _ store.Shared = (*Remote)(nil)

// NewRemote uses the connection until Close.
func NewRemote(connection io.ReadWriteCloser) *Remote { return &Remote{rpc.NewClient(connection)} }

// Close ends the connection.
func (r *Remote) Close() { _ = r.client.Close() } // it may have ended by itself

func (r *Remote) do(c Call) (*Result, []store.Record, error) {
	var got Result
	err := r.client.Call("Server.Do", c, &got)
	switch {
	case got.Full != "":
		return nil, nil, &store.FullError{What: got.Full}
	case got.Failed != "":
		err = errors.New(got.Failed)
	}
	if err != nil {
		return nil, nil, &store.Error{Err: err}
	}
	var list []store.Record
	for _, wire := range got.Sessions {
		rec := store.Record{ID: wire.ID, RunID: wire.RunID, State: wire.State, Unanswered: wire.Unanswered}
		if wire.Config != nil {
			if rec.Config, err = protocol.DecodeCoachingSessionConfig(wire.Config); err != nil {
				return nil, nil, err
			}
		}
		list = append(list, rec)
	}
	return &got, list, nil
}

// first is do for an operation that returns at most one record.
func (r *Remote) first(c Call) (*store.Record, error) {
	_, list, err := r.do(c)
	if len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// Create implements [store.Store].
func (r *Remote) Create(_ context.Context, rec store.Record, limit int) (*store.Record, error) {
	return r.first(Call{Operation: "Create", ID: rec.ID, Run: rec.RunID, Config: rec.Config.AppendJSON(nil), Limit: limit})
}

// Get implements [store.Store].
func (r *Remote) Get(_ context.Context, run string) (*store.Record, error) {
	return r.first(Call{Operation: "Get", Run: run})
}

// ok is do for an operation that returns a truth.
func (r *Remote) ok(c Call) (bool, error) {
	got, _, err := r.do(c)
	return err == nil && got.OK, err
}

// Enter implements [store.Store].
func (r *Remote) Enter(_ context.Context, id, lease uuid.UUID) (bool, error) {
	return r.ok(Call{Operation: "Enter", ID: id, Lease: lease})
}

// Leave implements [store.Store].
func (r *Remote) Leave(_ context.Context, lease uuid.UUID) error {
	_, _, err := r.do(Call{Operation: "Leave", Lease: lease})
	return err
}

// MarkClosing implements [store.Store].
func (r *Remote) MarkClosing(_ context.Context, run string) (*store.Record, error) {
	return r.first(Call{Operation: "MarkClosing", Run: run})
}

// MarkIdle implements [store.Store].
func (r *Remote) MarkIdle(_ context.Context, unused time.Duration) ([]store.Record, error) {
	_, list, err := r.do(Call{Operation: "MarkIdle", Unused: unused})
	return list, err
}

// Delete implements [store.Store].
func (r *Remote) Delete(_ context.Context, id uuid.UUID) (bool, error) {
	return r.ok(Call{Operation: "Delete", ID: id})
}

// Count implements [store.Store].
func (r *Remote) Count(context.Context) (int, error) {
	got, _, err := r.do(Call{Operation: "Count"})
	if err != nil {
		return 0, err
	}
	return got.Count, nil
}

// LeaseTime implements [store.Shared]. Nothing renews the leases of a test.
func (r *Remote) LeaseTime() time.Duration { return time.Hour }

// Renew implements [store.Shared].
func (r *Remote) Renew(_ context.Context, leases, sessions []uuid.UUID) ([]uuid.UUID, error) {
	got, _, err := r.do(Call{Operation: "Renew", Leases: leases, Sessions: sessions})
	if err != nil {
		return nil, err
	}
	return got.Closed, nil
}

// Claim implements [store.Shared].
func (r *Remote) Claim(_ context.Context, session uuid.UUID, request string, lease uuid.UUID) (*store.Kept, bool, error) {
	got, _, err := r.do(Call{Operation: "Claim", ID: session, Request: request, Lease: lease})
	if err != nil {
		return nil, false, err
	}
	return got.Kept, got.OK, nil
}

// Settle implements [store.Shared].
func (r *Remote) Settle(_ context.Context, session uuid.UUID, request string, lease uuid.UUID, answer *store.Kept) (*store.Kept, error) {
	c := Call{Operation: "Settle", ID: session, Request: request, Lease: lease}
	if answer != nil {
		c.Given, c.Provider, c.Response = true, answer.Provider, answer.Response
	}
	got, _, err := r.do(c)
	if err != nil {
		return nil, err
	}
	return got.Kept, nil
}
