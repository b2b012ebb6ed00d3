package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"agentd/coaching/store"
)

// Database is the argument of Replicas.Kill for the database of all servers.
const Database = -1

const (
	// An operation is hit if killed is drawn of so many numbers. rapid prefers small ones, and
	// no kill when it simplifies a failure.
	kills, killed = 64, 40
	// killWithin is in how many microseconds after its beginning an operation is hit.
	killWithin = 3000
	// pooled is at most how many connections a server has to a database.
	pooled = 8
)

// SessionLine is a session in Replicas.Contents.
func SessionLine(id uuid.UUID, run string, closing bool) string {
	return fmt.Sprintf("session %s %q closing=%t", id, run, closing)
}

// LeaseLine is a lease that has not ended.
func LeaseLine(id, session uuid.UUID) string { return fmt.Sprintf("lease %s of %s", id, session) }

// AnswerLine is an answer. One that is claimed but not kept has no response.
func AnswerLine(session uuid.UUID, request string, lease uuid.UUID, response []byte) string {
	if response != nil {
		lease = uuid.Nil // it has done its work
	}
	return fmt.Sprintf("answer %q in %s claimed by %s: %s", request, session, lease, response)
}

// contents lists what the store must hold.
func (m *model) contents() (lines []string) {
	for _, s := range m.runs {
		lines = append(lines, SessionLine(s.ID, s.RunID, s.State == store.Closing))
		for request, a := range s.answers {
			var response []byte
			if a.kept != nil {
				response = a.kept.Response
			}
			lines = append(lines, AnswerLine(s.ID, request, a.lease, response))
		}
	}
	for id, l := range m.leases {
		lines = append(lines, LeaseLine(id, l.session.ID))
	}
	slices.Sort(lines)
	return lines
}

// copied is what the model knows now.
func (m *model) copied() (runs map[string]*session, leases map[uuid.UUID]*held) {
	runs, leases = make(map[string]*session, len(m.runs)), make(map[uuid.UUID]*held, len(m.leases))
	for run, s := range m.runs {
		c := &session{s.Record, make(map[string]*answer, len(s.answers))}
		for request, a := range s.answers {
			one := *a
			c.answers[request] = &one
		}
		runs[run] = c
	}
	for id, l := range m.leases {
		leases[id] = &held{runs[l.session.RunID], l.replica}
	}
	return runs, leases
}

// survive makes an operation, and kills a server or the database during it if kill is set. An
// operation whose result is lost must have happened as a whole or not at all.
func (m *model) survive(kill bool, operation func()) {
	runs, leases := m.copied()
	before := m.contents()
	m.lost = false
	if !kill {
		operation()
		m.settled(before, runs, leases)
		return
	}
	server := rapid.IntRange(Database, len(m.Stores)-1).Draw(m.t, "killed")
	delay := time.Duration(rapid.IntRange(0, killWithin).Draw(m.t, "after")) * time.Microsecond
	m.killing = true
	done := make(chan func(), 1)
	go func() {
		time.Sleep(delay)
		done <- m.Kill(server)
	}()
	operation()
	restart := <-done
	restart()
	m.killing = false
	m.settled(before, runs, leases)
	if server == Database {
		for i := range m.Stores {
			m.stale[i] = pooled
		}
		return
	}
	m.stale[server] = 0
	m.crash(nil, server)
}

// settled compares the store with the model after an operation whose result was lost, and goes
// back to the model from before if the operation did not happen.
func (m *model) settled(before []string, runs map[string]*session, leases map[uuid.UUID]*held) {
	if !m.lost {
		return
	}
	got := m.Contents()
	slices.Sort(got)
	switch after := m.contents(); {
	case slices.Equal(got, after):
	case slices.Equal(got, before):
		m.runs, m.leases = runs, leases
	default:
		m.t.Fatalf("after a kill the store has\n%q\nwant what it had\n%q\nor the whole operation\n%q", got, before, after)
	}
}
